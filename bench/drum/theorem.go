package drum

import (
	"context"
	"fmt"
	"path"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/bench/result"
	"drumbeat/disk"
)

// batchCost is the I/O of a method that merges in batches, by the proofs of Theorems 1 and 2, with the
// actual number of iterations; the last one may be partial.
type batchCost struct {
	known, links float64 // U, n
	unique       float64 // p
	key          float64 // bytes per key in the merged file: H, or bq
	batch        float64 // links per iteration
	// perLink is the number of bytes written and read per waiting link: 2b + 2H for DRUM, 2b for
	// Mercator-B, 0 for Polybot.
	perLink float64
	url     float64 // b, for the queue of new URLs
}

// bytes returns the I/O per link.
func (c batchCost) bytes() float64 {
	if c.links == 0 || c.batch == 0 {
		return 0
	}
	sum := 0.0
	for i, left := 0, c.links; left >= 1 && i < 1e6; i++ {
		m := min(left, c.batch)
		sum += 2*c.key*(c.known+c.unique*(c.links-left)) + c.unique*m*c.key
		left -= m
	}
	return sum/c.links + c.perLink + c.unique*c.url
}

// theorem2 returns the bytes per link of the paper's form, with uncompressed text and keys, at the k and r
// of the run, and at D if that was the limit. Links that hit a RAM cache cost nothing.
func (r *Result) theorem2(diskBytes int64) float64 {
	if r.Links == 0 || r.Misses == 0 {
		return 0
	}
	b := float64(r.MissBytes) / float64(r.Misses)
	batch := r.Batch
	if d := float64(diskBytes) / (8 + b); diskBytes > 0 && d < batch {
		batch = d
	}
	c := batchCost{
		known: float64(r.Known), links: float64(r.Misses), unique: float64(r.Found) / float64(r.Misses),
		key: 8, batch: batch, perLink: 2*b + 16, url: b,
	}
	return c.bytes() * float64(r.Misses) / float64(r.Links)
}

// theorem1 returns the bytes per link of Mercator-B or Polybot by the paper's formula, at the batch of the
// run.
func (r *Result) theorem1() float64 {
	b := float64(r.TextBytes) / float64(max(1, r.Links))
	c := batchCost{
		known: float64(r.Known), links: float64(r.Links), unique: float64(r.Found) / float64(max(1, r.Links)),
		key: r.KeyBytes, batch: r.Batch, perLink: 2 * b, url: b,
	}
	if r.Method == baselines.Polybot {
		c.perLink = 0
	}
	return c.bytes()
}

// predicted returns the theorem's bytes per link, or 0 for other methods.
func (r *Result) predicted(diskBytes int64) float64 {
	switch r.Method {
	case baselines.MercatorB, baselines.Polybot:
		return r.theorem1()
	}
	if _, ok := findForm(r.Method); ok {
		return r.theorem2(diskBytes)
	}
	return 0
}

// theoremPoint is a measurement at which the quadratic term of a theorem is factor times the sum of the
// others.
type theoremPoint struct {
	method    string
	ram, disk int64
	buffer    int
	factor    float64
	passes    int64
	limitedBy string
}

// The sizes of the points. R and M are at most 1/500 of the paper's, so the quadratic term dominates at
// small sizes. theoremMostKnown bounds U at all points: 128 MB of raw keys.
const (
	theoremRAM       = 1 << 20
	theoremBuffer    = 8 << 10
	theoremDisk      = 2e6
	theoremMostKnown = 16e6
)

// theoremPoints returns the points of DRUM, limited by RAM and then by disk, or those of the baselines.
func theoremPoints(forBaselines bool) (points []theoremPoint) {
	for _, f := range []struct {
		factor float64
		passes int64
	}{{0, 3}, {1, 3}, {4, 2}} {
		add := func(p theoremPoint) {
			p.factor, p.passes = f.factor, f.passes
			points = append(points, p)
		}
		if !forBaselines {
			add(theoremPoint{method: formPlain, ram: theoremRAM, buffer: theoremBuffer, limitedBy: "R"})
			add(theoremPoint{method: formPlain, ram: theoremRAM, buffer: theoremBuffer, disk: theoremDisk,
				limitedBy: "D"})
			continue
		}
		add(theoremPoint{method: baselines.MercatorB, ram: baselines.MinRAMBytes, limitedBy: "R"})
		add(theoremPoint{method: baselines.Polybot, ram: baselines.MinRAMBytes, limitedBy: "R"})
	}
	return points
}

// meanBatch returns the approximate number of links between merges.
func (b *drumBench) meanBatch(job *drumJob) (float64, error) {
	switch job.Method {
	case baselines.MercatorB:
		return float64(job.RAMBytes) / 16, nil
	case baselines.Polybot:
		return float64(job.RAMBytes) / (meanURL + 28), nil
	}
	form, _ := findForm(job.Method)
	o, _, err := job.options(form, disk.Set{FS: disk.OS(), Paths: []string{path.Join(b.dirs[0], "store")}})
	if err != nil {
		return 0, err
	}
	m := float64(o.Buckets) * float64(o.FullTuples())
	if d := float64(job.DiskBytes) / (meanURL + 8); job.DiskBytes > 0 {
		m = min(m, d)
	}
	return m, nil
}

// theorem measures the points.
func (b *drumBench) theorem(ctx context.Context) (*result.Report, error) {
	r := result.New("drum-theorem", "DRUM's plain form compared with Theorem 2, Mercator-B and Polybot with "+
		"Theorem 1")
	t := result.Table{
		Title: "Bytes read and written per link: measured, and by the theorem at the actual k, r and M",
		Head: []string{"method", "limit", "R", "D", "k", "M", "links/pass", "U", "n", "quadratic", "measured",
			"theorem", "ratio", "in buffers"},
	}
	for _, forBaselines := range []bool{false, true} {
		for _, p := range theoremPoints(forBaselines) {
			run, err := b.theoremRun(ctx, &p)
			if err != nil {
				return nil, err
			}
			if run.Merged == 0 {
				r.Notes = append(r.Notes,
					fmt.Sprintf("%s with quadratic term %s was not measured: %s.", p.method,
						quadraticName(p.factor), run.Skipped))
				continue
			}
			run.Links, run.Misses = run.Merged, run.Merged // only links that took part in passes
			want := run.predicted(p.disk)
			name := fmt.Sprintf("%s limited by %s, quadratic term %s", p.method, p.limitedBy,
				quadraticName(p.factor))
			r.Checks = append(r.Checks,
				result.Within(name+", B/link compared with the theorem", run.io(), want, 0.05, "B/link"))
			r.Add(fmt.Sprintf("BenchmarkTheorem/method=%s/limit=%s/quadratic=%g", p.method, p.limitedBy, p.factor),
				run.Links,
				result.Metric{Value: float64(run.measured().Nanoseconds()) / float64(run.Links), Unit: "ns/op"},
				result.Metric{Value: run.io(), Unit: "io-B/link"}, result.Metric{Value: want, Unit: "theorem-B/link"})
			t.Add(p.method, p.limitedBy, result.DecimalBytes(float64(p.ram)), result.DecimalBytes(float64(p.disk)),
				fmt.Sprint(run.Buckets), fmt.Sprint(run.BufferBytes),
				result.Number(float64(run.Merged)/float64(run.Passes)), result.Power(float64(run.Known)),
				result.Power(float64(run.Links)), quadraticName(p.factor), result.Number(run.io()), result.Number(want),
				result.Number(run.io()/want), fmt.Sprint(run.Buckets*2))
		}
	}
	r.Tables = []result.Table{t}
	r.Notes = append(r.Notes,
		"The theorem assumes a whole number of passes. A pass merges the tuples in the buckets' buffers from RAM,",
		"without writing them; the paper does not model that. The texts of new URLs are appended to a queue (p).")
	return r, nil
}

func quadraticName(factor float64) string {
	if factor == 0 {
		return "none"
	}
	return result.Number(factor) + "x"
}

// theoremRun measures one point; it chooses U for the factor.
func (b *drumBench) theoremRun(ctx context.Context, p *theoremPoint) (*Result, error) {
	job := b.job(p.method, 0)
	job.RAMBytes, job.DiskBytes, job.BufferBytes, job.Passes, job.Adders = p.ram, p.disk, p.buffer, p.passes, 1
	job.Links = theoremMostKnown
	job.Stream.Recent = links.NoRecent // the theorems assume uniform keys
	m, err := b.meanBatch(job)
	if err != nil {
		return nil, err
	}
	// 2 U key / m = factor * (the linear terms). Polybot's only linear term is the queue.
	linear, key := (2+b.UniqueShare)*meanURL, 8.0
	switch p.method {
	case formPlain:
		linear += 16
	case baselines.Polybot:
		linear, key = b.UniqueShare*meanURL, 40
	}
	job.Stream.Known = min(theoremMostKnown, int64(p.factor*linear*m/(2*key)))
	return b.one(ctx, job, fmt.Sprintf("theorem: %s limited by %s, quadratic term %s", p.method, p.limitedBy,
		quadraticName(p.factor)))
}
