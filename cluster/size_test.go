package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"drumbeat/bench/links"
	"drumbeat/disk"
	"drumbeat/queue"
	"drumbeat/weburl"
)

// filler adds links of generated pages to outboxes: linksPerPage links of each page, with its URL as referrer, and an
// edge for each of them but every tenth.
type filler struct {
	t      testing.TB
	stream *links.Stream
	batch  links.Batch
	rec    weburl.Record
	coded  []byte
	links  int
}

const linksPerPage = 2

func newFiller(t testing.TB) *filler {
	s, err := links.New(links.Options{Seed: 1, LocalShare: 0.01})
	must(t, err)
	f := &filler{t: t, stream: s}
	for range 1000 { // the first links of a stream are to few hosts
		s.Next(&f.batch, 100)
	}
	return f
}

// add adds a link, and what belongs to it, to an outbox.
func (f *filler) add(o *Outbox) {
	if f.links%linksPerPage == 0 {
		f.stream.Next(&f.batch, linksPerPage+1)
	}
	page, text, key := f.batch.Texts[0], f.batch.Texts[1+f.links%linksPerPage], f.batch.Keys[1+f.links%linksPerPage]
	f.links++
	f.rec = weburl.Record{URL: text, Depth: 5, Found: 1_800_000_000 + int64(f.links/1000)}
	f.rec.SetVia(page, f.batch.Keys[0])
	f.coded = f.rec.Append(f.coded[:0])
	must(f.t, o.AddLink(key, f.coded))
	if f.links%10 != 0 {
		must(f.t, o.AddEdge(hostOf(page), hostOf(text)))
	}
}

// hostOf returns the host of a URL, which is at least as long as its PLD.
func hostOf(url []byte) []byte {
	start := 0
	for i, c := range url {
		if c == '/' && start == 0 {
			start = i + 2
		} else if c == '/' && i > start {
			return url[start:i]
		}
	}
	return url[start:]
}

// TestMessageBytes: what a link costs on the way, by the number of links that go at a time, is what TrafficOf says.
func TestMessageBytes(t *testing.T) {
	for _, n := range []int{1, 10, 100, 300, 1000} {
		o := openSized(t, t.TempDir(), "outbox/1", 64<<10, nil)
		f := newFiller(t)
		times := max(8, 200/n)
		for range times {
			for range n {
				f.add(o)
			}
			must(t, o.Flush())
		}
		var bytes int64
		for o.durable = o.last; ; must(t, o.Published()) {
			msg, _, ok, err := o.Next()
			must(t, err)
			if !ok {
				break
			}
			bytes += int64(len(msg))
		}
		want := TrafficOf(float64(n))
		messages, per := float64(o.last)/float64(times), float64(bytes)/float64(times)
		t.Logf("%d links: %.2f messages, %.0f bytes per link; planned %.2f, %.0f", n, messages, per/float64(n),
			want.Messages, want.Bytes/float64(n))
		if math.Abs(messages-want.Messages) > 0.5 || per < 0.75*want.Bytes || per > 1.25*want.Bytes {
			t.Errorf("%d links: %.2f messages of %.0f bytes, planned %+v", n, messages, per, want)
		}
		must(t, o.Close())
	}
}

func openSized(t testing.TB, dir, name string, block int, pool *queue.Pool) *Outbox {
	set := disk.Set{FS: disk.OS(), Paths: []string{dir}}
	o, err := OpenOutbox(OutboxOptions{Set: set, Name: name, Crawl: 7, To: 1, BlockBytes: block, Pool: pool}, nil)
	must(t, err)
	return o
}

// TestOutboxRAM: an outbox in use takes no more than OutboxRAM.
func TestOutboxRAM(t *testing.T) {
	const boxes = 16
	for _, block := range []int{4 << 10, 32 << 10, 128 << 10} {
		if testing.Short() && block != 32<<10 {
			continue
		}
		pool := new(queue.Pool)
		dir := t.TempDir()
		f := newFiller(t)
		var before, after runtime.MemStats
		heap := func(m *runtime.MemStats) {
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(m)
		}
		heap(&before)
		var all []*Outbox
		for i := range boxes {
			o := openSized(t, dir, fmt.Sprint("outbox/", i), block, pool)
			all = append(all, o)
			for o.last < 12 {
				f.add(o)
			}
			o.durable = o.last
			for range 8 {
				_, _, ok, err := o.Next()
				must(t, err)
				if !ok {
					t.Fatal("nothing to publish")
				}
				must(t, o.Published())
			}
			_, _, _, err := o.Oldest()
			must(t, err)
			for range 500 {
				f.add(o)
			}
		}
		heap(&after)
		got := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / boxes
		t.Logf("block %d: %d bytes an outbox, planned %d", block, got, OutboxRAM(block))
		if got > OutboxRAM(block) || got < OutboxRAM(block)/3 {
			t.Errorf("block %d: an outbox takes %d bytes, planned %d", block, got, OutboxRAM(block))
		}
		for _, o := range all {
			must(t, o.Close())
		}
		runtime.KeepAlive(all)
	}
}

// TestMarkBytes: the values of marks of nodes that have exchanged much have the sizes that plans assume, and those of
// the most nodes fit into the bucket.
func TestMarkBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	sum := func() weburl.Sum { return weburl.Sum{Hi: r.Uint64(), Lo: r.Uint64(), N: 1e9 + r.Int64N(1e8)} }
	for _, nodes := range []int{1, 4, 64, 1000, MaxNodes} {
		m := wholeMark(0, nodes)
		m.Checkpoint, m.Table, m.Term, m.AgreedTo = 100_000, math.MaxUint64, r.Uint64(), r.Uint64()
		for i := range nodes {
			m.Taken[i] = Taken{Number: 1e6 + r.Uint64N(1e5), Totals: Totals{Links: sum(), Edges: sum()}}
			m.Out[i], m.ResendRequests[i], m.Gone[i] = m.Taken[i].Totals.Records()+r.Int64N(1e8), 3, 1e6+r.Uint64N(1e5)
		}
		head, err := m.Head().Encode()
		must(t, err)
		pairs, err := m.EncodePairs()
		must(t, err)
		t.Logf("%d nodes: head %d bytes, planned %d; pairs %d, planned %d", nodes, len(head), HeadBytes, len(pairs),
			PairsBytes(nodes))
		if got, want := int64(len(pairs)), PairsBytes(nodes); got > want || nodes > 4 && got < want*9/10 {
			t.Errorf("%d nodes: the entries take %d bytes, planned %d", nodes, got, want)
		}
		if len(head) > HeadBytes {
			t.Errorf("%d nodes: the head takes %d bytes, planned %d", nodes, len(head), HeadBytes)
		}
		back, err := DecodePairs(0, pairs, nodes)
		must(t, err)
		if !slices.Equal(back.Taken, m.Taken) || !slices.Equal(back.Gone, m.Gone) {
			t.Errorf("%d nodes: other entries", nodes)
		}
	}
	if n := MostMarks(); int64(n)*(PairsBytes(n)+HeadBytes+restBytes) > BucketCrawlBytes || n < 1000 {
		t.Errorf("the broker has room for the marks of %d nodes", n)
	}
}

// BenchmarkOutboxes measures what a checkpoint of a node with many peers costs: the end of all messages, and
// the outboxes' part of tails and manifest. Each outbox has got its part of 40,000 links.
func BenchmarkOutboxes(b *testing.B) {
	for _, nodes := range []int{4, 64, 1000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			dir, pool := b.TempDir(), new(queue.Pool)
			must(b, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
			set := disk.Set{FS: disk.OS(), Paths: []string{dir}}
			f := newFiller(b)
			var boxes []*Outbox
			for i := range nodes - 1 {
				boxes = append(boxes, openSized(b, dir, fmt.Sprint("outbox/", i), 128<<10, pool))
			}
			gen, manifest := uint64(0), 0
			for b.Loop() {
				b.StopTimer()
				for i := range 40_000 {
					f.add(boxes[i%len(boxes)])
				}
				gen++
				b.StartTimer()
				tails, err := disk.CreateTails(set, gen)
				must(b, err)
				manifest = 0
				var frozen []*OutboxFrozen
				for _, o := range boxes {
					must(b, o.Flush())
					frozen = append(frozen, o.Freeze())
				}
				for _, fr := range frozen {
					st, err := fr.Save(tails)
					must(b, err)
					data, err := json.Marshal(st)
					must(b, err)
					manifest += len(data)
				}
				must(b, tails.Close())
				for _, fr := range frozen {
					must(b, fr.Commit())
				}
				b.StopTimer()
				for _, o := range boxes { // all is published and taken
					for {
						msg, number, ok, err := o.Next()
						must(b, err)
						if !ok {
							break
						}
						h, err := ReadHeader(msg)
						must(b, err)
						must(b, o.Published())
						_, err = o.Taken(number, h.After)
						must(b, err)
					}
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(manifest), "manifest-B")
			for _, o := range boxes {
				must(b, o.Close())
			}
		})
	}
}
