package crawl

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/queue"
	"drumbeat/weburl"
)

// TestVisitBytes: what visits found takes as many bytes on disk beside the URL as
// docs/how-it-works/benchmarks.md says.
func TestVisitBytes(t *testing.T) {
	notShort(t)
	const n, last = 50_000, int64(1.76e9)
	size := func(add func(rec *weburl.Record, at int64, rng *rand.Rand)) float64 {
		rng, fs := rand.New(rand.NewPCG(uint64(*seedFlag), 0)), memfs.New(*seedFlag)
		must(t, fs.MkdirAll("c"))
		q, err := queue.Open(queue.Options{Set: disk.Set{FS: fs, Paths: []string{"c"}}, Name: "q",
			BlockBytes: 64 << 10}, nil)
		must(t, err)
		for i := range int64(n) {
			at := last + i + rng.Int64N(3600)
			dir := fmt.Sprintf("https://www.site%d.example/articles/%d/", rng.IntN(2000), rng.IntN(30))
			rec := weburl.Record{URL: fmt.Appendf(nil, "%s%x.html", dir, rng.Uint32()), Depth: 3,
				Found: at - 1e6, Budget: 10}
			rec.SetVia([]byte(dir), 7)
			add(&rec, at, rng)
			must(t, q.Append(rec.Append(nil)))
		}
		names, err := fs.List("c/state/q")
		must(t, err)
		sum := int64(0)
		for _, name := range names {
			bytes, err := fs.Size("c/state/q/" + name)
			must(t, err)
			sum += bytes
		}
		return float64(sum) / n
	}
	without := size(func(*weburl.Record, int64, *rand.Rand) {})
	for _, c := range []struct {
		name        string
		dated, etag bool
		most        float64
	}{{"no validator", false, false, 33}, {"Last-Modified", true, false, 37}, {"ETag", true, true, 44}} {
		got := size(func(rec *weburl.Record, at int64, rng *rand.Rand) {
			policy := revisit.Policy{Least: time.Hour, Longest: 30 * day, Default: 7 * day, Gone: 2}
			var h revisit.History
			for i := range rng.IntN(20) + 1 {
				o := revisit.Outcome{At: time.Unix(at-rng.Int64N(1e6), 0), Body: rng.Uint64(), Same: i > 0 &&
					rng.IntN(2) > 0}
				modified := at - rng.Int64N(1e8)
				if c.dated {
					o.Modified = time.Unix(modified, 0).UTC().Format(http.TimeFormat)
				}
				if c.etag { // as nginx makes it
					o.ETag = fmt.Sprintf("\"%x-%x\"", modified, rng.IntN(100_000))
				}
				policy.Note(&h, &o)
			}
			policy.Next(&h, 0)
			rec.Visits = h.Append(nil)
		}) - without
		t.Logf("%s: %.1f bytes per page, beside %.1f", c.name, got, without)
		if got > c.most {
			t.Errorf("%s: %.1f bytes per page on disk, want at most %.0f", c.name, got, c.most)
		}
	}
}
