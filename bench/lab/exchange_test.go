//go:build !noembed

package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/bench/links"
	nodes "drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/disk"
	"drumbeat/internal/cputime"
	"drumbeat/weburl"
)

// sentLinks are links of pages with their edges, as a node puts them into an outbox.
type sentLinks struct {
	records, from, to [][]byte
	keys              []uint64
}

// makeLinks makes n links. Two have one page.
func makeLinks(b *testing.B, n int, policy *admit.Policy) *sentLinks {
	s, err := links.New(links.Options{Seed: 1, LocalShare: 0.01})
	if err != nil {
		b.Fatal(err)
	}
	var batch links.Batch
	for range 1000 { // the first links of a stream are to few hosts
		s.Next(&batch, 100)
	}
	all := new(sentLinks)
	for i := range n {
		if i%2 == 0 {
			s.Next(&batch, 3)
		}
		page, url := batch.Texts[0], batch.Texts[1+i%2]
		host := weburl.Split(url).Host
		rec := weburl.Record{URL: url, Depth: 5, Found: 1_800_000_000 + int64(i/1000)}
		rec.SetVia(page, batch.Keys[0])
		all.records = append(all.records, rec.Append(nil))
		all.from = append(all.from, bytes.Clone(weburl.Split(page).Host))
		all.to = append(all.to, bytes.Clone(host))
		all.keys = append(all.keys, policy.Hasher.URLKeyOf(url, policy.Hasher.PLDKey(policy.Suffixes.PLDBytes(host))))
	}
	return all
}

// BenchmarkNodes: a link and an edge from the outbox of a node, with a checkpoint each 100,000 links, over the broker, to the
// tuples and edges of another node. The CPU time includes the broker's. The links are made before.
func BenchmarkNodes(b *testing.B) {
	for _, sync := range []time.Duration{0, 10 * time.Second} {
		b.Run(fmt.Sprintf("sync=%v", sync), func(b *testing.B) {
			br, err := nats.Open(nats.Options{Crawl: "bench", Embed: &nats.Embed{Dir: b.TempDir(), Sync: sync}})
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close()
			benchNodes(b, br)
		})
	}
}

func benchNodes(b *testing.B, br nodes.Transport) {
	const from, to, checkpoint = 0, 1, 100_000
	set := disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}}
	if err := set.FS.MkdirAll(set.Path(0, "state")); err != nil {
		b.Fatal(err)
	}
	o, err := nodes.OpenOutbox(nodes.OutboxOptions{Set: set, Name: "outbox", From: from, To: to, BlockBytes: 64 << 10}, nil)
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
	p := nodes.NewPublisher()
	p.Outbox, p.Transport, p.ResendAfter, p.Transact = o, br, time.Minute, transact
	p.Waits = func(err error, _ time.Duration) { b.Log(err) }
	reader, err := br.Read(b.Context(), to, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer reader.Close()
	policy := &admit.Policy{Hasher: weburl.NewHasher(weburl.Secret{}), Suffixes: weburl.NewSuffixes(true), Node: to}
	const made = 1 << 17 // used again and again
	sent := makeLinks(b, min(b.N, made), policy)
	before := cputime.Process()
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
	for i := range b.N {
		err := o.AddLink(sent.keys[i%made], sent.records[i%made])
		if err == nil {
			err = o.AddEdge(sent.from[i%made], sent.to[i%made])
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
	b.ReportMetric(float64((cputime.Process()-before))/float64(b.N), "cpu-ns/op")
}

// saveOutbox makes a checkpoint.
func saveOutbox(o *nodes.Outbox, set disk.Set, gen uint64, transact func(func() error) error) error {
	var f *nodes.OutboxFrozen
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
func takeLinks(b *testing.B, br nodes.Transport, reader nodes.Reader, p *nodes.Publisher, policy *admit.Policy) {
	var dec nodes.Decoder
	to, inlet := policy.Node, admit.NewInlet(policy)
	var taken nodes.Taken
	for n, messages := 0, 0; n < b.N; messages++ {
		m, err := reader.Next(b.Context())
		if err != nil {
			b.Error(err)
			return
		}
		h, err := nodes.ReadHeader(m.Data)
		inlet.Reset()
		if err == nil {
			err = dec.Records(m.Data, &h, inlet)
		}
		if err != nil {
			b.Error(err)
			return
		}
		n += len(inlet.Tuples)
		taken = nodes.Taken{Number: h.Number, Totals: h.After}
		if messages%64 == 63 || n == b.N {
			p.Mark(&nodes.Mark{Node: to, Taken: []nodes.Taken{taken, {}}, ResendRequests: make([]uint64, 2)})
			if err := br.Purge(b.Context(), to, m.Seq+1); err != nil {
				b.Error(err)
			}
		}
	}
}
