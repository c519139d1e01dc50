package crawl

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl/deferred"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/queue"
	"drumbeat/state"
)

var changingPages = flag.Int("changing.pages", 0, "pages of TestFreshness (0: 1,500; 20,000 with -long)")

// powerLaw returns rates of change, in changes a second; those above x are in proportion to
// x^-alpha, from one in two years to one an hour.
func powerLaw(n int, alpha float64, rng *rand.Rand) []float64 {
	least, most := 1/(2*year).Seconds(), 1/time.Hour.Seconds()
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = least * math.Pow(1-rng.Float64()*(1-math.Pow(least/most, alpha)), -1/alpha)
	}
	return rates
}

// freshAt is the expected share of the time during which the last visit's copy is the current page, with
// evenly spaced visits.
func freshAt(rate, interval float64) float64 { return -math.Expm1(-rate*interval) / (rate * interval) }

// optimum returns the highest freshness that visits a second can give to pages whose rates are known (Cho and
// Garcia-Molina, "Effective Page Refresh Policies", 4.3): each page is visited as often as its last visit
// gains the same, or not at all.
func optimum(rates []float64, visits float64) float64 {
	const never = 1e12 // seconds
	intervalOf := func(rate, gain float64) float64 {
		least, longest := 1.0, never
		for longest > least*1.0001 {
			mid := math.Sqrt(least * longest)
			if x := rate * mid; (1-(1+x)*math.Exp(-x))/rate < gain {
				least = mid
			} else {
				longest = mid
			}
		}
		return longest
	}
	low, high := 1e-3, 1e9
	for high > low*1.0001 {
		gain, sum := math.Sqrt(low*high), 0.0
		for _, rate := range rates {
			sum += 1 / intervalOf(rate, gain)
		}
		if sum > visits {
			low = gain
		} else {
			high = gain
		}
	}
	fresh := 0.0
	for _, rate := range rates {
		fresh += freshAt(rate, intervalOf(rate, high))
	}
	return fresh / float64(len(rates))
}

// changing is a simulation of pages that change as Poisson processes, visited by a policy: its estimates, its
// history as coded, and the calendar that the crawl uses, with its two stages and its delays. There is no
// network.
type changing struct {
	rates   []float64
	dated   bool // each second page has a Last-Modified
	policy  revisit.Policy
	windows []changingWindow
	late    float64 // greatest share of an interval
}

// changingWindow is what happened from one time to another, in seconds since the start.
type changingWindow struct {
	from, to float64
	visits   int
	fresh    float64 // seconds, of all pages
}

// freshness returns the share of the window during which a page was up to date.
func (w *changingWindow) freshness(pages int) float64 {
	return w.fresh / float64(pages) / (w.to - w.from)
}

func (w *changingWindow) add(from, to float64) { w.fresh += max(0, min(to, w.to)-max(from, w.from)) }

// visitedPage is a page of a changing. Times are in seconds since the start.
type visitedPage struct {
	seen     float64 // last visit
	modified float64
	version  uint64
}

// openDeferred opens a calendar in an empty directory.
func openDeferred(t *testing.T) *queue.Calendar {
	t.Helper()
	fs := memfs.New(*seedFlag)
	must(t, fs.MkdirAll("c"))
	set := disk.Set{FS: fs, Paths: []string{"c"}}
	calendar, err := queue.OpenCalendar(queue.Options{Set: set, Name: "deferred", BlockBytes: 64 << 10,
		SegmentBytes: 1 << 20}, nil)
	must(t, err)
	return calendar
}

// run visits the pages until a time, each first at a random moment of the first day.
func (c *changing) run(t *testing.T, until time.Duration, rng *rand.Rand) {
	t.Helper()
	calendar := openDeferred(t)
	start, pages := time.Unix(1e9, 0), make([]visitedPage, len(c.rates))
	put := func(now, due time.Time, page uint32, h *revisit.History) {
		var rec []byte
		if rec = binary.LittleEndian.AppendUint32(nil, page); h != nil {
			rec = h.Append(rec)
		}
		must(t, calendar.Append(now, due, queue.Usual, rec))
	}
	for i := range pages {
		pages[i].version, pages[i].modified = 1, -rng.ExpFloat64()/c.rates[i]
		put(start, start.Add(time.Duration(rng.Int64N(int64(day)))), uint32(i), nil)
	}
	var margin revisit.Margin
	margin.Set(0, &c.policy)
	for now := start; ; {
		rec, ok, err := calendar.Peek(now, queue.Usual)
		must(t, err)
		if !ok {
			if now, ok = calendar.NextDue(now, queue.Usual); !ok || now.Sub(start) > until {
				break
			}
			continue
		}
		i := binary.LittleEndian.Uint32(rec)
		var h revisit.History
		must(t, h.Decode(rec[4:]))
		calendar.Advance(queue.Usual)
		if due := h.Due(); h.Last > 0 && now.Before(due) {
			put(now, due, i, &h)
			continue
		} else if h.Last > 0 && h.Interval > 60 { // the calendar counts seconds
			c.late = max(c.late, now.Sub(due).Seconds()/float64(h.Interval))
		}
		if h.Last == 0 { // until here the page was not held
			pages[i].modified += now.Sub(start).Seconds()
		}
		c.visit(&h, &pages[i], c.rates[i], start, now, rng)
		elapsed := time.Duration(0)
		o := revisit.Outcome{At: now, Body: pages[i].version}
		if c.dated && i%2 == 0 {
			o.Modified = start.Add(time.Duration(pages[i].modified * 1e9)).UTC().Format(http.TimeFormat)
		}
		if h.Last > 0 {
			elapsed = time.Duration(now.Unix()-h.Last) * time.Second
		}
		c.policy.Margin = margin.Seconds()
		c.policy.Note(&h, &o)
		wait, _ := c.policy.Next(&h, 0)
		margin.Note(&c.policy, elapsed, wait, int64(len(pages)))
		due := now.Add(wait)
		put(now, due.Add(-deferred.Lead(wait)), i, &h)
	}
	for i := range pages { // what was seen last stays for some time
		p := &pages[i]
		c.hold(p.seen, min(p.seen+rng.ExpFloat64()/c.rates[i], until.Seconds()))
	}
}

// visit lets the page change as it has since the last visit, and counts how long that visit's copy was
// current.
func (c *changing) visit(h *revisit.History, p *visitedPage, rate float64, start, now time.Time, rng *rand.Rand) {
	at := now.Sub(start).Seconds()
	for i := range c.windows {
		if w := &c.windows[i]; at >= w.from && at < w.to {
			w.visits++
		}
	}
	if h.Last > 0 {
		first := p.seen + rng.ExpFloat64()/rate
		c.hold(p.seen, min(first, at))
		if first < at {
			p.version++
			p.modified = max(first, at-rng.ExpFloat64()/rate) // a Poisson process is one backwards, too
		}
	}
	p.seen = at
}

func (c *changing) hold(from, to float64) {
	for i := range c.windows {
		c.windows[i].add(from, to)
	}
}

// TestFreshness: with rates by a power law the optimal policy keeps as many pages up to date as within a
// tenth of what would be possible with as many visits if the rates were known, and more than the uniform one,
// which keeps more than the proportional one for as many visits. It makes as many visits as the uniform one.
// Visits are as late as stated, and never early.
func TestFreshness(t *testing.T) {
	notShort(t)
	pages, alphas := 1500, []float64{0.5}
	if *longRuns {
		pages, alphas = 20_000, []float64{0.25, 0.5, 1}
	}
	if *changingPages > 0 {
		pages = *changingPages
	}
	const months, month = 6, 30 * day
	for _, alpha := range alphas {
		rates := powerLaw(pages, alpha, rand.New(rand.NewPCG(uint64(*seedFlag), 0)))
		run := func(name string, kind revisit.Kind, each time.Duration, dated bool) *changing {
			c := &changing{rates: rates, dated: dated, windows: []changingWindow{
				{from: 0, to: (2 * month).Seconds()}, {from: (2 * month).Seconds(), to: (months * month).Seconds()}}}
			c.policy = revisit.Policy{Kind: kind, Least: time.Hour, Longest: 60 * day, Default: each, Gone: 2}
			c.run(t, months*month, rand.New(rand.NewPCG(uint64(*seedFlag), 1)))
			for i := range c.windows {
				w := &c.windows[i]
				visits := float64(w.visits) / (w.to - w.from)
				best := optimum(rates, visits)
				t.Logf("alpha %.2f, %-12s months %.0f to %.0f: %5.2f visits of a page in 30 days, fresh %.4f, "+
					"optimum %.4f, ratio %.3f; late by %.3f",
					alpha, name, w.from/month.Seconds()+1, w.to/month.Seconds(), visits/float64(pages)*month.Seconds(),
					w.freshness(pages), best, w.freshness(pages)/best, c.late)
			}
			if c.late > 1.0/16+1e-3 {
				t.Errorf("%s: late by %.3f of an interval", name, c.late)
			}
			return c
		}
		proportional := run("proportional", revisit.Proportional, 7*day, false)
		late := &proportional.windows[1]
		same := time.Duration(float64(late.to-late.from) * float64(pages) / float64(late.visits) * float64(time.Second))
		uniform := run("uniform", revisit.Uniform, min(same, 60*day), false)
		optimal := run("optimal", revisit.Optimal, min(same, 60*day), false)
		dated := run("optimal+date", revisit.Optimal, min(same, 60*day), true)
		p, u, o := &proportional.windows[1], &uniform.windows[1], &optimal.windows[1]
		best := optimum(rates, float64(o.visits)/(o.to-o.from))
		if o.freshness(pages) < 0.9*best {
			t.Errorf("alpha %.2f: freshness %.3f, with known rates %.3f", alpha, o.freshness(pages), best)
		}
		if p.freshness(pages) > u.freshness(pages) || u.freshness(pages) > o.freshness(pages) {
			t.Errorf("alpha %.2f: freshness %.3f proportional, %.3f uniform, %.3f optimal", alpha, p.freshness(pages),
				u.freshness(pages), o.freshness(pages))
		}
		if d := &dated.windows[1]; d.freshness(pages) < 0.99*o.freshness(pages) {
			t.Errorf("alpha %.2f: freshness %.3f with dates, %.3f without", alpha, d.freshness(pages),
				o.freshness(pages))
		}
		if math.Abs(float64(o.visits)/float64(u.visits)-1) > 0.1 {
			t.Errorf("alpha %.2f: %d visits, %d with the uniform policy", alpha, o.visits, u.visits)
		}
	}
}

// versionsWeb serves pages whose text is their version.
func versionsWeb(pages int, version func(i int) int) *tinyWeb {
	return &tinyWeb{Reply: func(req *http.Request) (answer, bool) {
		var i int
		if _, err := fmt.Sscanf(req.RequestURI, "/p%d", &i); err == nil {
			return answer{200, "", fmt.Sprintf("<html>%d %d", i, version(i))}, true
		} else if req.RequestURI != "/" {
			return noRobots, true
		}
		body := "<html>"
		for i := range pages {
			body += fmt.Sprintf("<a href=/p%d>p</a>", i)
		}
		return answer{200, "", body}, true
	}}
}

// drawPages draws the rates of pages, and when they change until the end, in seconds since the start, ascending.
func drawPages(pages int, end time.Duration, rng *rand.Rand) (rates []float64, changes [][]float64) {
	rates = powerLaw(pages, 0.5, rng)
	changes = make([][]float64, pages)
	for i := range rates {
		rates[i] *= 7 * 24 // an hour for a week
		for at := rng.ExpFloat64() / rates[i]; at < end.Seconds(); at += rng.ExpFloat64() / rates[i] {
			changes[i] = append(changes[i], at)
		}
	}
	return rates, changes
}

// TestCrawlFreshness: the whole crawler, with a server whose pages change at known rates: by its log, the
// optimal policy keeps as many pages up to date as within a tenth of the optimum for as many requests, and
// more than the uniform one. What it has learned outlives a stop. The time is an hour for what TestFreshness
// has a week for.
func TestCrawlFreshness(t *testing.T) {
	notShort(t)
	pages, runs := 60, []time.Duration{8 * time.Hour, 24 * time.Hour}
	kinds := []revisit.Kind{revisit.Uniform, revisit.Optimal}
	if *longRuns {
		pages, runs = 500, []time.Duration{40 * time.Hour, 120 * time.Hour}
		kinds = append(kinds, revisit.Proportional)
	}
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 3))
	rates, changes := drawPages(pages, runs[1], rng)
	crawl := func(t *testing.T, kind revisit.Kind) (fresh, visits float64) {
		began := time.Now()
		version := func(i int, at float64) int { n, _ := slices.BinarySearch(changes[i], at); return n }
		web := versionsWeb(pages, func(i int) int { return version(i, time.Since(began).Seconds()) })
		opt := tinyOptions(t, web, memfs.New(*seedFlag), "http://a.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		opt.Recrawl = &revisit.Policy{Kind: kind, Least: time.Minute, Longest: 9 * time.Hour,
			Default: time.Hour, Gone: 2}
		for _, opt.Limits.MaxTime = range runs {
			mustRun(t, t.Context(), opt)
		}
		checkVisits(t, opt.Disk.FS, opt.Disk.Dirs)
		m, _, err := state.ReadManifest(disk.Set{FS: opt.Disk.FS, Paths: opt.Disk.Dirs})
		if err != nil || (m.Margin > 0) != (kind == revisit.Optimal) {
			t.Errorf("the manifest has the margin %v, %v", m.Margin, err)
		}
		checkGaps(t, web, opt.Politeness.HostDelayMin)
		w := changingWindow{from: runs[0].Seconds(), to: time.Since(began).Seconds()}
		last := map[int]float64{}
		hold := func(i int, until float64) {
			if at, ok := last[i]; ok {
				if n := version(i, at); n < len(changes[i]) {
					until = min(until, changes[i][n])
				}
				w.add(at, until)
			}
		}
		for _, r := range web.Got("", "") {
			var i int
			if _, err := fmt.Sscanf(r.Path, "/p%d", &i); err == nil {
				at := r.At.Sub(began).Seconds()
				hold(i, at)
				if last[i] = at; at > w.from {
					w.visits++
				}
			}
		}
		for i := range pages {
			hold(i, w.to)
		}
		return w.freshness(pages), float64(w.visits) / (w.to - w.from)
	}
	fresh := map[revisit.Kind]float64{}
	for _, kind := range kinds {
		inBubble(t, func(t *testing.T) {
			f, visits := crawl(t, kind)
			best := optimum(rates, visits)
			fresh[kind] = f
			t.Logf("policy %d: %.2f visits of a page in an hour, fresh %.3f, optimum %.3f", kind,
				visits/float64(pages)*3600, f, best)
			if kind == revisit.Optimal && f < 0.9*best {
				t.Errorf("freshness %.3f, with known rates %.3f", f, best)
			}
		})
	}
	if fresh[revisit.Optimal] < fresh[revisit.Uniform] {
		t.Errorf("freshness %.3f with the optimal policy, %.3f with the uniform one", fresh[revisit.Optimal],
			fresh[revisit.Uniform])
	}
}

// checkGaps: no two requests are closer than the delay.
func checkGaps(t *testing.T, web *tinyWeb, delay time.Duration) {
	t.Helper()
	var asked time.Time
	for _, r := range web.Got("", "") {
		if r.At.Sub(asked) < delay {
			t.Errorf("%s is requested %v after another URL", r.Path, r.At.Sub(asked))
		}
		asked = r.At
	}
}
