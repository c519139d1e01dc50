//go:build !noembed

package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/bench/links"
	"drumbeat/crawl/admit"
	"drumbeat/disk"
	"drumbeat/exchange"
	"drumbeat/exchange/nats"
	"drumbeat/weburl"
)

// linkSource makes links of pages with their edges, for a node's outbox.
type linkSource struct {
	policy *admit.Policy
	stream *links.Stream
	batch  links.Batch
	rec    weburl.Record
	coded  []byte
	n      int
}

func newLinkSource(b *testing.B, policy *admit.Policy) *linkSource {
	s, err := links.New(links.Options{Seed: 1, LocalShare: 0.01})
	if err != nil {
		b.Fatal(err)
	}
	f := &linkSource{policy: policy, stream: s}
	for range 1000 { // the first links of a stream are to few hosts
		s.Next(&f.batch, 100)
	}
	return f
}

// next makes the next link, and returns its page. Two links have one page.
func (f *linkSource) next() (page, url []byte, key uint64) {
	if f.n%2 == 0 {
		f.stream.Next(&f.batch, 3)
	}
	page, url = f.batch.Texts[0], f.batch.Texts[1+f.n%2]
	key = f.policy.Hasher.URLKeyOf(url, f.policy.Hasher.PLDKey(f.policy.Suffixes.PLDBytes(weburl.Split(url).Host)))
	f.n++
	f.rec = weburl.Record{URL: url, Depth: 5, Found: 1_800_000_000 + int64(f.n/1000)}
	f.rec.SetVia(page, f.batch.Keys[0])
	f.coded = f.rec.Append(f.coded[:0])
	return page, url, key
}

// BenchmarkExchange: a link and an edge from the outbox of a node, with a checkpoint each 100,000 links, over the broker, to the
// tuples and edges of another node. The CPU time includes the broker's, and making the links.
func BenchmarkExchange(b *testing.B) {
	for _, sync := range []time.Duration{0, 10 * time.Second} {
		b.Run(fmt.Sprintf("sync=%v", sync), func(b *testing.B) {
			br, err := nats.Open(nats.Options{Crawl: "bench", Embed: &nats.Embed{Dir: b.TempDir(), Sync: sync}})
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close()
			benchExchange(b, br)
		})
	}
}

func benchExchange(b *testing.B, br exchange.Engine) {
	const from, to, checkpoint = 0, 1, 100_000
	set := disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}}
	if err := set.FS.MkdirAll(set.Path(0, "state")); err != nil {
		b.Fatal(err)
	}
	o, err := exchange.OpenOutbox(exchange.OutboxOptions{Set: set, Name: "outbox", From: from, To: to, BlockBytes: 64 << 10}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	var tx sync.Mutex
	transact := func(f func() error) error {
		tx.Lock()
		defer tx.Unlock()
		return f()
	}
	p := exchange.NewPublisher()
	p.Outbox, p.Engine, p.ResendAfter, p.Transact = o, br, time.Minute, transact
	p.Waits = func(err error, _ time.Duration) { b.Log(err) }
	reader, err := br.Read(b.Context(), to, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer reader.Close()
	policy := &admit.Policy{Hasher: weburl.NewHasher(weburl.Secret{}), Suffixes: weburl.NewSuffixes(true), Node: to}
	before := cpuTime(b)
	b.ResetTimer()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := p.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	all.Go(func() {
		defer cancel()
		takeLinks(b, br, reader, p, policy)
	})
	gen := uint64(0)
	src := newLinkSource(b, policy)
	for i := range b.N {
		page, url, key := src.next()
		err := o.AddLink(key, src.coded)
		if err == nil {
			err = o.AddEdge(weburl.Split(page).Host, weburl.Split(url).Host)
		}
		if err != nil {
			b.Fatal(err)
		}
		if (i+1)%checkpoint == 0 || i == b.N-1 {
			if gen++; saveOutbox(o, set, gen, transact) != nil {
				b.Fatal("no checkpoint")
			}
			p.Wake()
		}
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// saveOutbox makes a checkpoint.
func saveOutbox(o *exchange.Outbox, set disk.Set, gen uint64, transact func(func() error) error) error {
	var f *exchange.OutboxFrozen
	if err := transact(func() error {
		defer func() { f = o.Freeze() }()
		return o.Flush()
	}); err != nil {
		return err
	}
	tails, err := disk.CreateTails(set, gen)
	if err != nil {
		return err
	}
	if _, err := f.Save(tails); err != nil {
		return err
	}
	if err := tails.Close(); err != nil {
		return err
	}
	return f.Commit()
}

// takeLinks takes b.N links as a node does. A checkpoint covers each 64 messages.
func takeLinks(b *testing.B, br exchange.Engine, reader exchange.Reader, p *exchange.Publisher, policy *admit.Policy) {
	var dec exchange.Decoder
	to, inlet := policy.Node, admit.NewInlet(policy)
	var taken exchange.Taken
	for n, messages := 0, 0; n < b.N; messages++ {
		m, err := reader.Next(b.Context())
		if err != nil {
			b.Error(err)
			return
		}
		h, err := exchange.ReadHeader(m.Data)
		inlet.Reset()
		if err == nil {
			err = dec.Records(m.Data, &h, inlet)
		}
		if err != nil {
			b.Error(err)
			return
		}
		n += len(inlet.Tuples)
		taken = exchange.Taken{Number: h.Number, Totals: h.After}
		if messages%64 == 63 || n == b.N {
			p.Mark(&exchange.Mark{Node: to, Taken: []exchange.Taken{taken, {}}, Want: make([]uint64, 2)})
			if err := br.Purge(b.Context(), to, m.Seq+1); err != nil {
				b.Error(err)
			}
		}
	}
}
