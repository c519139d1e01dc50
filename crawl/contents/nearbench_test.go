package contents

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"drumbeat/drum"
	"drumbeat/state"
)

// BenchmarkNearList judges pages of a host with a full list, in runs of a round. Each page is kept.
func BenchmarkNearList(b *testing.B) {
	for _, pages := range []int{1, 100} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			s, rng, n := newNearStore(), rand.New(rand.NewPCG(5, 5)), 0
			entry := func() []byte {
				n++
				e := state.NearEntry{Simhash: rng.Uint64(), URL: uint32(n), Body: drum.Key(n)}
				return e.Append(bytes.Clone(noEntry[:]))
			}
			run := make([]drum.Item, pages)
			var list, next []byte
			for b.Loop() {
				for i := range run {
					run[i] = drum.Item{Op: drum.CheckUpdate, Value: entry()}
				}
				for len(list) < s.maxValue()-state.NearEntryBytes {
					list, _ = s.apply(1, list, len(list) > 0, []drum.Item{{Op: drum.Update, Value: entry()}}, nil, nil)
				}
				if next, _ = s.apply(1, list, true, run, nil, next[:0]); len(next) < len(list) {
					b.Fatal("the list shrinks")
				}
				list, next = next, list
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pages), "ns/page")
		})
	}
}
