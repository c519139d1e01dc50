package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/state/extract"
)

// BenchmarkCluster finds the clusters of 100,000 pages, one in ten nearly the one before it, without
// reading pages: 12 MiB of sorters for some 70 MB.
func BenchmarkCluster(b *testing.B) {
	const pages = 100_000
	for b.Loop() {
		b.StopTimer()
		opt := &Options{FS: disk.OS(), TempDir: b.TempDir(), RAMBytes: leastRAMBytes, Dedup: DedupNear}
		j := &job{ctx: context.Background(), opt: opt, report: &Report{}}
		t := &textJoin{j: j, docs: j.sorter(), bodies: j.sorterOf(8), dups: j.sorterOf(8), wanted: j.sorterOf(8)}
		r := rand.New(rand.NewPCG(5, 6))
		var d document
		for i := range pages {
			if i%10 == 9 {
				for range 5 {
					d.sign.MinHash[r.IntN(len(d.sign.MinHash))]++
				}
			} else {
				for k := 0; k < len(d.sign.MinHash); k += 8 {
					binary.BigEndian.PutUint64(d.sign.MinHash[k:], r.Uint64())
				}
			}
			binary.BigEndian.PutUint64(d.sign.Text[:], r.Uint64())
			d.sign = extract.Signature{Text: d.sign.Text, MinHash: d.sign.MinHash, Long: true}
			d.url = fmt.Appendf(d.url[:0], "http://www.site%d.example/articles/%d/a-page-with-a-name.html", i%97, i)
			t.rec = d.append(t.rec[:0])
			must(b, t.docs.Add(t.rec))
		}
		b.StartTimer()
		must(b, t.cluster())
		if n := t.dups.N(); n != pages/10 {
			b.Fatalf("%d copies, want %d", n, pages/10)
		}
		for _, end := range j.ends {
			must(b, end())
		}
	}
	b.ReportMetric(float64(b.N)*pages/b.Elapsed().Seconds(), "pages/s")
}
