package budget

import (
	"context"
	"errors"
	"flag"
	"math"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/bench/benchtest"
	"drumbeat/disk"
)

var beastSeed = flag.Uint64("beast-seed", 0, "seed of the random tests of budget enforcement; 0 = from the clock")

// smallBeast fills in the defaults of a virtual crawl for tests.
func smallBeast(t *testing.T, b Beast) Beast {
	t.Helper()
	b.Seed = *beastSeed
	if b.Seed == 0 {
		b.Seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-beast-seed %d", b.Seed)
	b.Dirs = []string{t.TempDir()}
	must(t, b.Complete())
	return b
}

// budgetModel implements both schemes with slices and maps, by the rules in the comment of package beast.
type budgetModel struct {
	b       *Beast
	web     *budgetWeb
	links   linkCount
	in, out tally
	pages   int64
}

func (m *budgetModel) seeds(put func(rec []byte)) {
	for x, budget := range m.web.budgets {
		for range budget {
			rec := m.web.appendOf(nil, uint32(x))
			m.in.add(rec)
			put(rec)
		}
	}
}

func (m *budgetModel) crawl(rec []byte, put func(rec []byte)) {
	m.out.add(rec)
	m.pages++
	for range m.links.next() {
		rec := m.web.append(nil)
		m.in.add(rec)
		put(rec)
	}
}

// TestNaiveModel: the naive scheme on disk crawls the same pages as two slices, pass by pass, at the rate
// of Theorem 6.
func TestNaiveModel(t *testing.T) {
	b := smallBeast(t, Beast{PLDs: 200, UniquePerPage: 4.5, Spam: 0.2, NaiveURLs: new(int64(1e5))})
	c, err := openNaiveCrawl(&b, disk.Set{FS: disk.OS(), Paths: b.Dirs}, newBudgetWeb(&b))
	must(t, err)
	defer c.close()
	must(t, c.run(context.Background(), *b.NaiveURLs, func(*naiveCrawl) {}))
	if n := c.in.wrong(c.out, c.left); n != 0 || c.exceeded != 0 {
		t.Errorf("got %d records lost or doubled, %d pages beyond budgets, want none", n, c.exceeded)
	}
	m := &budgetModel{b: &b, web: newBudgetWeb(&b), links: linkCount{perPage: b.UniquePerPage}}
	left := slices.Clone(m.web.budgets)
	var q, failed [][]byte
	put := func(rec []byte) {
		if x := recordPLD(rec); left[x] > 0 {
			left[x]--
			q = append(q, rec)
			return
		}
		failed = append(failed, rec)
	}
	m.seeds(put)
	model := b.model(m.web, float64(c.in.bytes)/float64(c.in.n))
	for i, s := range c.stages {
		for ; len(q) > 0; q = q[1:] {
			m.crawl(q[0], put)
		}
		if m.pages != s.endPages || m.in.n != s.endURLs || int64(len(failed)) != s.failed {
			t.Fatalf("pass %d: got %d pages, %d URLs, %d in QF, want %d, %d, %d", i, s.endPages, s.endURLs, s.failed,
				m.pages, m.in.n, len(failed))
		}
		got, want := pagesPerSecond*s.perPage(s.beastRaw()), model.NaiveRate(float64(s.endPages))
		if d := math.Abs(got-want) / want; i >= 8 && d > 0.03 {
			t.Errorf("pass %d: got %.0f B/s, want Theorem 6's %.0f", i, got, want)
		}
		copy(left, m.web.budgets)
		old := failed
		failed = nil
		for _, rec := range old {
			put(rec)
		}
	}
	if len(c.stages) < 10 || c.out != m.out || c.left.n != int64(len(failed)+len(q)) {
		t.Errorf("got %d passes, out %+v, %d left, want %+v, %d", len(c.stages), c.out, c.left.n, m.out,
			len(failed)+len(q))
	}
}

// modelLedger is the ledger of a PLD: the queue for its next URL, and the number of URLs already there.
type modelLedger struct{ next, used int64 }

// TestBeastModel: the crawl through STAR and BEAST on disk has the same stages as a crawl with slices.
func TestBeastModel(t *testing.T) {
	b := smallBeast(t, Beast{PLDs: 100, UniquePerPage: 3.5, Spam: 0.3, URLs: []int64{1.5e5}})
	ctx := context.Background()
	c, err := openBeastCrawl(ctx, &b, disk.Set{FS: disk.OS(), Paths: b.Dirs}, newBudgetWeb(&b))
	must(t, err)
	defer c.close()
	must(t, c.run(ctx, b.URLs[0], func(*beastCrawl) {}))
	if n := c.in.wrong(c.out, c.left); n != 0 || c.exceeded != 0 {
		t.Errorf("got %d records lost or doubled, %d pages beyond budgets, want none", n, c.exceeded)
	}
	m := &budgetModel{b: &b, web: newBudgetWeb(&b), links: linkCount{perPage: b.UniquePerPage}}
	ledgers := make([]modelLedger, b.PLDs)
	queues, failed := map[int64][][]byte{}, [][]byte(nil)
	s, h, last := int64(0), int64(1), int64(0)
	put := func(rec []byte) {
		x := recordPLD(rec)
		l := ledgers[x]
		if l.next <= s {
			l = modelLedger{next: s + 1}
		}
		if l.used >= int64(m.web.budgets[x]) {
			l = modelLedger{next: l.next + 1}
		}
		if l.next > s+h {
			failed = append(failed, rec)
			return
		}
		l.used++
		ledgers[x] = l
		queues[l.next] = append(queues[l.next], rec)
	}
	m.seeds(put)
	var stages []stage
	for m.in.n < c.in.n {
		s++ // no queue is ever empty here
		if s-last >= h {
			if m.pages > 0 {
				stages = append(stages,
					stage{endPages: m.pages, endURLs: m.in.n, failed: int64(len(failed)), queues: h})
			}
			old := failed
			failed, last, h = nil, s, 2*h
			for _, rec := range old {
				put(rec)
			}
		}
		for _, rec := range queues[s] {
			if m.crawl(rec, put); m.in.n >= c.in.n {
				break
			}
		}
		delete(queues, s)
	}
	if len(stages) != len(c.stages) || len(stages) < 4 || m.pages != c.now.pages {
		t.Fatalf("got %d stages and %d pages, want %d (4 at least) and %d", len(c.stages), c.now.pages,
			len(stages), m.pages)
	}
	for i, want := range stages {
		if got := c.stages[i]; got.endPages != want.endPages || got.endURLs != want.endURLs ||
			got.failed != want.failed || got.queues != want.queues {
			t.Errorf("stage %d: got %+v, want %+v", i, got, want)
		}
	}
	checkRates(t, &b, c)
}

// checkRates compares the last stage with the rates that the rules of package beast predict for full queues. The scan
// at its beginning took place at s = h-1, the scan at its end at s = 2h-1. In units of one queue's pages,
// L(s-1)+1 URLs had been added by then. Those that fitted into queues 1 to s-1, and half of queue s+1, were
// not in QF. Each check costs one write and one read.
func checkRates(t *testing.T, b *Beast, c *beastCrawl) {
	t.Helper()
	m := b.model(c.web, float64(c.in.bytes)/float64(c.in.n))
	stage := &c.stages[len(c.stages)-1]
	l, h := b.UniquePerPage, float64(stage.queues)
	filled := func(s float64) float64 { return s - 1 + (s+1)/2 }
	failed := func(s float64) float64 { return 1 + l*(s-1) - filled(s) }
	s1, s2 := h-1, 2*h-1
	near := func(what string, got int64, queues float64) {
		t.Helper()
		want := queues * float64(c.web.sum) * m.URLBytes
		if math.Abs(float64(got)-want) > 0.03*want {
			t.Errorf("%s: got %d bytes, want %.0f", what, got, want)
		}
	}
	near("BEAST", stage.beastRaw(), failed(s1)+failed(s2)+filled(s2)-filled(s1)+s2-s1)
	near("STAR", stage.checkRaw, 2*(l*h+failed(s1)))
	if got := stage.perPage(stage.beastRaw()) * pagesPerSecond; got > m.RateBound() {
		t.Errorf("got %.0f B/s, bound is %.0f", got, m.RateBound())
	}
	if stage.queueDisk >= stage.beastRaw() || stage.queueDisk == 0 || stage.starDisk <= stage.starRest {
		t.Errorf("got %+v from the meters", stage.moved)
	}
}

// TestRunBeast: at a small size the report is complete, all checks except speed pass, and no file remains.
func TestRunBeast(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	b := smallBeast(t, Beast{PLDs: 100, Spam: 0.2, URLs: []int64{1e3, 5e4, 3e5}, NaiveURLs: new(int64(1e5))})
	var told []string
	progress := func(what string) { told = append(told, what) }
	r, err := b.Measure(context.Background(), progress)
	must(t, err)
	text := benchtest.Text(t, r)
	for _, c := range r.Checks {
		if !c.OK() && c.Unit != "ns" {
			t.Errorf("%s", c)
		}
	}
	if len(r.Checks) < 12 || len(r.Tables) != 2 || len(told) == 0 {
		t.Errorf("got %d checks, %q", len(r.Checks), told)
	}
	benchtest.Has(t, text, "BenchmarkBeast/scheme=beast/urls=3e5 ", "/scheme=naive/urls=5e4 ",
		"No stage ended within 1e3 URLs")
	benchtest.Empty(t, b.Dirs[0])
}

// TestRunBeastStops: a crawl cancelled at any time returns an error and leaves no files.
func TestRunBeastStops(t *testing.T) {
	b := smallBeast(t, Beast{PLDs: 100, URLs: []int64{1e5}, NaiveURLs: new(int64(5e4))})
	for _, at := range []string{"naive", "BEAST"} {
		ctx, cancel := context.WithCancel(context.Background())
		progress := func(what string) {
			if strings.HasPrefix(what, at) {
				cancel()
			}
		}
		if _, err := b.Measure(ctx, progress); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want it cancelled", at, err)
		}
		cancel()
		if left, err := os.ReadDir(b.Dirs[0]); err != nil || len(left) > 0 {
			t.Errorf("%s: got %v, %v, want an empty directory", at, left, err)
		}
	}
}

func TestTally(t *testing.T) {
	var all, a, b tally
	for i, rec := range []string{"x", "y", "zz", "x"} {
		all.add([]byte(rec))
		if i%2 == 0 {
			a.add([]byte(rec))
		} else {
			b.add([]byte(rec))
		}
	}
	if all.wrong(b, a) != 0 || all.wrong(a) != 2 || all.wrong(a, b, b) != 2 {
		t.Errorf("got %d, %d, %d, want 0, 2, 2", all.wrong(b, a), all.wrong(a), all.wrong(a, b, b))
	}
	other := b
	other.hash++
	if all.wrong(a, other) != 1 {
		t.Error("other records not seen")
	}
}

// TestAlias: the draws follow the weights.
func TestAlias(t *testing.T) {
	weights := []float64{1, 0, 5, 0.5, 3.5}
	a := newAlias(weights)
	rng := mathrand.New(mathrand.NewPCG(1, 2))
	var got [5]float64
	const n = 1 << 20
	for range n {
		got[a.draw(rng.Uint64())] += 10. / n
	}
	for i, w := range weights {
		if math.Abs(got[i]-w) > 0.02 {
			t.Errorf("%d: got %.3f, want %.1f", i, got[i], w)
		}
	}
}

// TestBudgetWeb: records are unique, have the requested mean length and contain their PLD; spammers get
// their share of the links.
func TestBudgetWeb(t *testing.T) {
	b := smallBeast(t, Beast{PLDs: 1000, Spam: 0.25, URLBytes: 100})
	w := newBudgetWeb(&b)
	seen, bytes, spam := map[string]bool{}, 0, 0
	const n = 50_000
	for range n {
		rec := w.append(nil)
		if seen[string(rec)] || len(rec) > 1000 {
			t.Fatalf("got %q twice, or too long", rec)
		}
		seen[string(rec)] = true
		bytes += len(rec)
		if x := recordPLD(rec); int(x) >= 1000-w.spammers {
			spam++
		} else if int(x) >= 1000 {
			t.Fatalf("got PLD %d", x)
		}
	}
	if mean := float64(bytes) / n; math.Abs(mean-100) > 5 {
		t.Errorf("got records of %.1f B, want 100", mean)
	}
	if share := float64(spam) / n; math.Abs(share-0.255) > 0.02 {
		t.Errorf("got %.3f of the links lead to spammers, want 0.255", share)
	}
	if rec := w.appendOf(nil, 7); recordPLD(rec) != 7 {
		t.Errorf("got PLD %d, want 7", recordPLD(rec))
	}
}

func TestBeastValidate(t *testing.T) {
	bad := Beast{Dirs: []string{"x"}, URLs: []int64{0}, NaiveURLs: new(int64(-1)), PLDs: -1, Budget: 20_000,
		URLBytes: 10, UniquePerPage: 1, Spam: 1}
	err := bad.Complete()
	if err == nil || strings.Count(err.Error(), "\n") != 6 {
		t.Errorf("got %v, want 7 faults", err)
	}
	if _, err := (Beast{Dirs: []string{t.TempDir()}, URLs: []int64{1e11}}).Measure(context.Background(),
		nil); err == nil ||
		!strings.Contains(err.Error(), "free") {
		t.Errorf("got %v, want an error for want of room", err)
	}
}
