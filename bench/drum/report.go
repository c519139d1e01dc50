package drum

import (
	"fmt"
	"math"
	"slices"

	"drumbeat/bench/result"
)

// bitsPerKey returns the size of the cache on disk per key, or 0 without a cache.
func (r *Result) bitsPerKey() float64 {
	if r.Keys == 0 {
		return 0
	}
	return 8 * float64(r.CacheBytes) / float64(r.Keys)
}

// entropyBits returns the minimum bits per key for n random keys: log2 of C(2^64, n), divided by n.
func entropyBits(n int64) float64 { return 64 - math.Log2(float64(n)) + math.Log2E }

// textRatio returns the compression ratio of waiting text, or 0 if unknown.
func (r *Result) textRatio() float64 {
	if r.TextWritten == 0 {
		return 0
	}
	return float64(r.MissBytes) / float64(r.TextWritten)
}

// metrics returns the metrics of a run, in the order of its line.
func (r *Result) metrics(diskBytes int64) []result.Metric {
	n := float64(r.Links)
	list := []result.Metric{
		{Value: float64(r.measured().Nanoseconds()) / n, Unit: "ns/op"},
		{Value: r.rate(), Unit: "links/s"},
		{Value: n / r.CPU.Seconds(), Unit: "links/cpu-s"},
		{Value: n / r.Total.Seconds(), Unit: "all-links/s"},
		{Value: r.io(), Unit: "io-B/link"},
		{Value: float64(r.ReadBytes+r.WrittenBytes) / float64(r.TextBytes), Unit: "alpha"},
	}
	if want := r.predicted(diskBytes); want > 0 {
		list = append(list, result.Metric{Value: want, Unit: "theorem-B/link"})
	}
	if bits := r.bitsPerKey(); bits > 0 {
		list = append(list, result.Metric{Value: bits, Unit: "bits/key"})
	}
	if ratio := r.textRatio(); ratio > 0 {
		list = append(list, result.Metric{Value: ratio, Unit: "text-ratio"})
	}
	return append(list,
		result.Metric{Value: float64(r.PeakRSS) / (1 << 20), Unit: "rss-MiB"},
		result.Metric{Value: float64(r.PeakFiles), Unit: "files"},
		result.Metric{Value: float64(r.Allocs) / n, Unit: "allocs/link"},
		result.Metric{Value: float64(r.Misses) / n, Unit: "misses/link"},
		result.Metric{Value: float64(r.Passes), Unit: "passes"},
	)
}

// drumGroup holds the repeats of one method at one size.
type drumGroup struct {
	method string
	known  int64
	runs   []*Result
}

func (g *drumGroup) sample(f func(*Result) float64) result.Sample { return result.Of(g.runs, f) }

func (g *drumGroup) median(f func(*Result) float64) float64 { return g.sample(f).Median() }

// groups returns the runs by method and size, in order of first occurrence.
func groups(runs []*Result) (list []drumGroup) {
	for _, r := range runs {
		i := slices.IndexFunc(list, func(g drumGroup) bool { return g.method == r.Method && g.known == r.Known })
		if i < 0 {
			i = len(list)
			list = append(list, drumGroup{method: r.Method, known: r.Known})
		}
		list[i].runs = append(list[i].runs, r)
	}
	return list
}

// report makes tables and checks.
func (b *drumBench) report(set *drumSet) *result.Report {
	r := result.New("drum", "check+update of links: DRUM in its forms, and other methods")
	b.settings(r, set)
	for _, run := range set.runs {
		r.Add(fmt.Sprintf("BenchmarkDrum/keys=%s/ram=%s/form=%s", result.Power(float64(run.Known)),
			result.BinaryBytes(int(b.RAMBytes)), run.Method), run.Links, run.metrics(b.DiskBytes)...)
	}
	all := groups(set.runs)
	r.Tables = append(r.Tables, b.speedTable(all), b.diskTable(all), verdictTable(all, set.numbered))
	for i := range all {
		b.check(r, &all[i])
	}
	b.checkNumbered(r, set)
	r.Notes = append(r.Notes, set.skipped...)
	return r
}

func (b *drumBench) settings(r *result.Report, set *drumSet) {
	switch {
	case b.URLs == "":
		r.Set("links", "%s, with a share of %.4f new and %.2f not recent", result.Power(float64(b.Links)),
			b.UniqueShare,
			b.misses())
	case b.Links > 0:
		r.Set("links", "%s of %s, repeated on other hosts", result.Power(float64(b.Links)), b.URLs)
	default:
		r.Set("links", "all of %s", b.URLs)
	}
	r.Set("ram", "R = %s", result.BinaryBytes(int(b.RAMBytes)))
	r.Set("disk", "D = %s for waiting links", result.DecimalBytes(float64(b.DiskBytes)))
	r.SetDirs(b.Dirs)
	if len(set.runs) == 0 {
		return
	}
	first := set.runs[0]
	for _, f := range drumForms() {
		if slices.Contains(b.Methods, f.name) {
			r.Set("form-"+f.name, "%s", f.help)
		}
	}
	r.Set("text", "%.1f bytes per URL", float64(first.TextBytes)/float64(max(1, first.Links)))
	if first.Unlimited != "" {
		r.Set("memory", "NOT limited, including the page cache: %s", first.Unlimited)
	} else {
		r.Set("memory", "each method in a cgroup of %s, page cache included", result.BinaryBytes(int(first.LimitBytes)))
	}
	for _, run := range set.runs {
		if run.Buckets > 0 && run.Known == first.Known {
			r.Set("plan-"+run.Method, "k=%d M=%s r=%s of RAM, at most %.3g links per pass, %s planned",
				run.Buckets,
				result.BinaryBytes(int(run.BufferBytes)), result.BinaryBytes(int(run.RoundBytes)), run.Batch,
				result.BinaryBytes(int(run.PlannedRAM)))
		}
	}
}

func (b *drumBench) speedTable(all []drumGroup) result.Table {
	t := result.Table{
		Title: "Speed: time within the method, including text (all: also the generator, and waiting for it)",
		Head: []string{"method", "keys", "links", "M links/s", "spread", "all M/s", "CPU ns/link", "add ns", "pass ns",
			"sync ns", "passes", "RSS MiB", "planned", "files", "allocs/link"},
		Notes: []string{
			"add is the time in which all goroutines add links, pass that of merging; the two alternate here."},
	}
	for i := range all {
		g := &all[i]
		ns := func(f func(*Result) float64) string {
			return result.Number(g.median(func(r *Result) float64 { return f(r) / float64(r.Links) }))
		}
		rate := g.sample(func(r *Result) float64 { return r.rate() / 1e6 })
		last := g.runs[len(g.runs)-1]
		t.Add(g.method, result.Power(float64(g.known)), result.Power(float64(last.Links)),
			result.Number(rate.Median()), rate.Spread(),
			result.Number(g.median(func(r *Result) float64 { return float64(r.Links) / r.Total.Seconds() / 1e6 })),
			ns(func(r *Result) float64 { return float64(r.CPU) }),
			ns(func(r *Result) float64 { return float64(r.Adding) }), ns(func(r *Result) float64 {
				return float64(r.Passing)
			}), ns(func(r *Result) float64 { return float64(r.Syncing) }),
			fmt.Sprint(last.Passes),
			result.Number(g.median(func(r *Result) float64 { return float64(r.PeakRSS) / (1 << 20) })),
			result.Number(float64(last.PlannedRAM)/(1<<20)), fmt.Sprint(last.PeakFiles),
			fmt.Sprintf("%.5f", g.median(func(r *Result) float64 { return float64(r.Allocs) / float64(r.Links) })))
	}
	return t
}

func (b *drumBench) diskTable(all []drumGroup) result.Table {
	t := result.Table{
		Title: "Disk: bytes read and written per link, and the value of Theorem 1 or 2 for the paper's form at the " +
			"same k, r, M and D",
		Head: []string{"method", "keys", "B/link", "read", "written", "queue", "theorem", "ratio", "model", "alpha",
			"misses", "bits/key", "bound", "text ratio", "peak on disk"},
		Notes: []string{"bound: 64 - log2 n + 1.44, the minimum for n random keys. queue: texts of new " +
			"URLs, written once (p); B/link includes it.",
			"model: Theorem 2 for the actual store with its codings, at the measured text ratio " +
				"(drum.Options.Cost)."},
	}
	for i := range all {
		g := &all[i]
		m := func(f func(*Result) float64) float64 { return g.median(f) }
		per := func(f func(*Result) float64) string {
			return result.Number(m(func(r *Result) float64 { return f(r) / float64(r.Links) }))
		}
		want := m(func(r *Result) float64 { return r.predicted(b.DiskBytes) })
		io := m((*Result).io)
		theorem, ratio := "", ""
		if want > 0 {
			theorem, ratio = result.Number(want), result.Number(io/want)
		}
		model := ""
		if v := m(func(r *Result) float64 { return r.Model }); v > 0 {
			model = result.Number(v)
		}
		bits, bound := "", ""
		if v := m((*Result).bitsPerKey); v > 0 {
			bits, bound = result.Number(v), result.Number(m(func(r *Result) float64 { return entropyBits(r.Keys) }))
		}
		text := ""
		if v := m((*Result).textRatio); v > 0 {
			text = result.Number(v)
		}
		t.Add(g.method, result.Power(float64(g.known)), result.Number(io),
			per(func(r *Result) float64 { return float64(r.ReadBytes) }), per(func(r *Result) float64 {
				return float64(r.WrittenBytes)
			}), per(func(r *Result) float64 { return float64(r.QueueBytes) }),
			theorem, ratio, model, result.Number(m(func(r *Result) float64 {
				return float64(r.ReadBytes+r.WrittenBytes) / float64(r.TextBytes)
			})),
			result.Number(m(func(r *Result) float64 { return float64(r.Misses) / float64(r.Links) })),
			bits, bound, text, result.DecimalBytes(m(func(r *Result) float64 { return float64(r.PeakDisk) })))
	}
	return t
}

// verdictTable shows which methods were right.
func verdictTable(all []drumGroup, numbered []*Result) result.Table {
	t := result.Table{Title: "Verdicts",
		Head: []string{"method", "keys", "links", "new", "found new", "lost", "verdict"}}
	add := func(r *Result, how string) {
		verdict := "unknown"
		switch {
		case r.TruthKnown && r.Right:
			verdict = "right, by " + how
		case r.TruthKnown:
			verdict = "WRONG, by " + how
		}
		t.Add(r.Method, result.Power(float64(r.Known)), result.Power(float64(r.Links)), fmt.Sprint(r.Fresh),
			fmt.Sprint(r.Found), fmt.Sprint(r.Fresh-r.Found), verdict)
	}
	for i := range all {
		add(all[i].runs[len(all[i].runs)-1], "the texts of all new URLs")
	}
	for _, r := range numbered {
		add(r, "the number of each link")
	}
	return t
}

// The targets, and the sizes from which on they apply.
const (
	targetKeys      = 100_000_000
	targetRate      = 3e6
	targetIO        = 80
	targetCachedIO  = 30
	targetTextRatio = 4
	targetBitsShare = 0.01
	mostAllocs      = 0.05 // from files opened for full buffers; there are none per link
	mostFiles       = 64
)

// check adds the checks of one group.
func (b *drumBench) check(r *result.Report, g *drumGroup) {
	name := fmt.Sprintf("%s, %s keys: ", g.method, result.Power(float64(g.known)))
	form, isForm := findForm(g.method)
	for _, run := range g.runs {
		if run.TruthKnown && !run.Right {
			r.Checks = append(r.Checks,
				result.Within(name+"new URLs found, each once", float64(run.Found), float64(run.Fresh), 0, "URLs"))
		}
	}
	if !isForm {
		return
	}
	most := func(what string, f func(*Result) float64, limit float64, unit string) {
		r.Checks = append(r.Checks, result.AtMost(name+what, g.median(f), limit, unit))
	}
	most("RAM of this process", func(r *Result) float64 { return float64(r.PeakRSS) / (1 << 20) },
		float64(limitBytes(b.RAMBytes))/(1<<20), "MiB")
	most("RAM that the store plans", func(r *Result) float64 { return float64(r.PlannedRAM) / (1 << 20) },
		float64(b.RAMBytes)/(1<<20), "MiB")
	most("open files", func(r *Result) float64 { return float64(r.PeakFiles) }, mostFiles, "files")
	most("allocations", func(r *Result) float64 { return float64(r.Allocs) / float64(r.Links) }, mostAllocs,
		"per link")
	big := g.known >= targetKeys && b.Links >= targetKeys
	if form.ours && big {
		r.Checks = append(r.Checks, result.Within(name+"size per key", g.median((*Result).bitsPerKey),
			g.median(func(r *Result) float64 { return entropyBits(r.Keys) }), targetBitsShare, "bits"))
	}
	if big && (g.method == formOurs || g.method == formCached) {
		b.checkIO(r, g, name)
		r.Checks = append(r.Checks,
			result.AtLeast(name+"speed", g.median((*Result).rate)/1e6, targetRate/1e6, "M links/s"))
	}
	if g.method == formPlain {
		r.Checks = append(r.Checks, result.Within(name+"I/O compared with Theorem 2", g.median((*Result).io),
			g.median(func(r *Result) float64 { return r.predicted(b.DiskBytes) }), 0.05, "B/link"))
	}
}

// checkIO adds the checks of I/O. The targets are for a text ratio of 4:1; for another ratio they change by
// the difference in text.
func (b *drumBench) checkIO(r *result.Report, g *drumGroup, name string) {
	target := float64(targetIO)
	if g.method == formCached {
		target = targetCachedIO
	}
	ratio := g.median((*Result).textRatio)
	moved := g.median(func(r *Result) float64 {
		return 2 * float64(r.MissBytes) / float64(r.Links) * (1/ratio - 1.0/targetTextRatio)
	})
	r.Checks = append(r.Checks,
		result.AtMost(fmt.Sprintf("%sI/O (%.0f B at a text ratio of 4:1 correspond to %.1f B at %.2f:1)",
			name, target, target+moved, ratio), g.median((*Result).io), target+moved, "B/link"))
}

// checkNumbered adds the check of verdicts link by link.
func (b *drumBench) checkNumbered(r *result.Report, set *drumSet) {
	wrong := 0
	for _, run := range set.numbered {
		if !run.Right {
			wrong++
		}
	}
	if len(set.numbered) > 0 {
		r.Checks = append(r.Checks,
			result.AtMost("methods whose verdicts differ from the truth link by link", float64(wrong), 0, "methods"))
	}
}
