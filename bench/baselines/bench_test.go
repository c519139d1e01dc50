package baselines

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"testing"

	"drumbeat/disk"
)

// webBench makes links at low cost: a text is one of a few templates with a number in it, and the key is
// not its hash.
type webBench struct {
	texts [][]byte
	links []Link
	state uint64
}

func newWebBench(n int) *webBench {
	w := &webBench{links: make([]Link, n), state: 1}
	w.texts = make([][]byte, n)
	return w
}

// mix is a bijection with results that look random.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// set makes link i of the batch the URL number id.
func (w *webBench) set(i, id int) {
	const digits = "0123456789abcdef"
	t := w.texts[i]
	if t == nil {
		t = fmt.Appendf(nil,
			"http://www.site-%08x.example/some/directory/and/another-one/the-title-of-a-page/%08x.html", 0, 0)
		w.texts[i] = t
	}
	site := uint32(mix(uint64(id) >> 7))
	for j := range 8 {
		t[16+j] = digits[site>>(4*j)&15]
		t[len(t)-6-j] = digits[id>>(4*j)&15]
	}
	w.links[i] = Link{mix(uint64(id)), t}
}

// batch fills the batch; one link in 9 is new, with numbers from next on.
func (w *webBench) batch(next int) (links []Link, after int) {
	for i := range w.links {
		id := next
		if i%9 == 0 {
			next++
		} else {
			w.state++
			id = int(mix(w.state) % uint64(next))
		}
		w.set(i, id)
	}
	return w.links, next
}

var (
	keysFlag = flag.Int("keys", 1e6, "known keys in BenchmarkAdd")
	ramFlag  = flag.Int64("ram", 16<<20, "RAM of a store in BenchmarkAdd")
)

// BenchmarkAdd: one link in 9 is new. ns/op is the time per link with the generator; method=none shows the
// generator alone.
func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{*keysFlag / 10, *keysFlag} {
		for _, name := range append([]string{"none"}, Names()...) {
			ram := *ramFlag
			b.Run(fmt.Sprintf("method=%s/keys=%d/ram=%dMiB", name, keys, ram>>20), func(b *testing.B) {
				benchmarkAdd(b, name, keys, ram)
			})
		}
	}
}

func benchmarkAdd(b *testing.B, name string, keys int, ram int64) {
	meter := disk.NewMeter(disk.OS())
	var s Store = none{}
	if name != "none" {
		var err error
		s, err = Open(name, Options{FS: meter, Dir: b.TempDir() + "/store", RAMBytes: ram,
			Emit: func(int64, []Link, []bool) error { return nil }})
		must(b, err)
	}
	w := newWebBench(1000)
	next := 0
	if tl, ok := s.(TextLoader); ok {
		for next < keys {
			for i := range w.links {
				w.set(i, next+i)
			}
			next += len(w.links)
			must(b, tl.LoadLinks(w.links))
		}
	} else {
		next = keys
		must(b, s.Load(sortedKeys(keys)))
	}
	must(b, s.Flush(context.Background()))
	before, n := meter.Counts(), 0
	b.ReportAllocs()
	for b.Loop() {
		// One link per iteration, in batches.
		if n%len(w.links) == 0 {
			var links []Link
			links, next = w.batch(next)
			must(b, s.Add(links))
		}
		n++
	}
	must(b, s.Flush(context.Background()))
	c, st := meter.Counts(), s.Stats()
	moved := c.ReadBytes + c.WrittenBytes - before.ReadBytes - before.WrittenBytes
	b.ReportMetric(float64(moved)/float64(n), "io-B/link")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "links/s")
	if name != "none" && st.Answered != st.Links {
		b.Fatalf("%d links, %d answered", st.Links, st.Answered)
	}
	must(b, s.Close())
}

// sortedKeys returns the keys of the first n URLs in ascending order.
func sortedKeys(n int) []uint64 {
	ps := make([]pair, n)
	for i := range ps {
		ps[i].key = mix(uint64(i))
	}
	sortPairs(ps)
	keys := make([]uint64, n)
	for i := range ps {
		keys[i] = ps[i].key
	}
	return keys
}

// none is a store that does nothing, to measure the generator alone.
type none struct{}

func (none) Load([]uint64) error         { return nil }
func (none) Add(links []Link) error      { return nil }
func (none) Flush(context.Context) error { return nil }
func (none) Stats() Stats                { return Stats{} }
func (none) Close() error                { return nil }

// BenchmarkSort sorts a batch of pairs.
func BenchmarkSort(b *testing.B) {
	for _, n := range []int{1e5, 1e6} {
		b.Run(fmt.Sprintf("pairs=%d", n), func(b *testing.B) {
			ps := make([]pair, n)
			b.SetBytes(int64(n) * pairBytes)
			for b.Loop() {
				for i := range ps {
					ps[i] = pair{mix(uint64(i)), uint64(i) << tagNumber}
				}
				sortPairs(ps)
			}
		})
		b.Run(fmt.Sprintf("texts=%d", n), func(b *testing.B) {
			w := newWebBench(1)
			var arena []byte
			refs := make([]textRef, n)
			for i := range refs {
				w.set(0, i)
				refs[i] = textRef{at: uint32(len(arena)), size: uint32(len(w.links[0].Text))}
				arena = append(binary.LittleEndian.AppendUint64(arena, 0), 0, 0)
				arena = append(arena, w.links[0].Text...)
			}
			for b.Loop() {
				for i := range refs {
					refs[i].at = uint32(i) * (refs[0].size + arenaHeader)
				}
				sortTexts(arena, refs)
			}
		})
	}
}
