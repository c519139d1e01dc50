package nodes

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func small(t *testing.T, change func(o *Options)) *Options {
	t.Helper()
	o := &Options{URLs: 20_000, Nodes: 4, Seed: 1, Rate: 20, HostDelay: 2 * time.Second}
	if change != nil {
		change(o)
	}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	return o
}

func crawl(t *testing.T, o *Options, huge float64) *result {
	t.Helper()
	s, err := newSim(o, sizes(o.URLs, o.URLs/o.PLDURLs, o.Exponent, huge))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.held < -1 || n.held > n.mostHeld || n.waiting != 0 || n.queued != 0 {
			t.Errorf("node %d at the end: %v bytes in outboxes, %d links, %d URLs", i, n.held, n.waiting, n.queued)
		}
	}
	return &s.res
}

// TestCrawl: each URL is fetched once, each link that was sent is taken, no node is above its rate, and no link waits
// longer than a checkpoint of its sender and its way.
func TestCrawl(t *testing.T) {
	for _, nodes := range []int{2, 4, 16} {
		o := small(t, func(o *Options) { o.Nodes = nodes })
		x := crawl(t, o, 0)
		if x.Pages != int64(o.URLs) || x.Again != 0 || x.Received != x.Sent || x.Sent == 0 {
			t.Errorf("%d nodes: %d of %d URLs fetched, %d twice; %d of %d links taken", nodes, x.Pages, o.URLs, x.Again, x.Received, x.Sent)
		}
		if x.MostWait > o.every()+latency {
			t.Errorf("%d nodes: a link waited %d s", nodes, x.MostWait)
		}
		sum := 0
		for i, sample := range x.Samples {
			for node, pages := range sample {
				sum += pages
				if pages > o.Rate*sampled {
					t.Errorf("%d nodes: node %d fetched %d pages in sample %d", nodes, node, pages, i)
				}
			}
		}
		if sum != o.URLs {
			t.Errorf("%d nodes: samples have %d pages", nodes, sum)
		}
		if float64(x.Seconds) < o.ideal() {
			t.Errorf("%d nodes: the crawl took %d s, at full rate %v", nodes, x.Seconds, o.ideal())
		}
	}
}

// TestHostDelay: with one host nothing is faster than its delay, however many nodes there are.
func TestHostDelay(t *testing.T) {
	o := small(t, nil)
	s, err := newSim(o, []uint32{hostURLs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if x := &s.res; x.Pages != hostURLs || x.Seconds < (hostURLs-1)*o.hostDelay() {
		t.Errorf("%d pages of one host in %d s", x.Pages, x.Seconds)
	}
}

// TestHuge: a PLD with a share of all URLs makes one node the last, by about what it has more.
func TestHuge(t *testing.T) {
	o := small(t, func(o *Options) { o.URLs = 50_000 })
	plain, huge := crawl(t, o, 0), crawl(t, o, 0.5)
	if got := overMean(huge.NodePages); got < 2.2 || got > 2.8 { // 0.5 + 0.5/4 of all, over 1/4
		t.Errorf("the largest node has %.2f times the mean", got)
	}
	if ratio := float64(huge.Seconds) / float64(plain.Seconds); ratio < 1.5 {
		t.Errorf("the crawl takes %d s with the huge PLD, %d without", huge.Seconds, plain.Seconds)
	}
	if huge.Pages != int64(o.URLs) || huge.Again != 0 {
		t.Errorf("%d pages, %d twice", huge.Pages, huge.Again)
	}
}

// TestSame: the same options give the same result, another seed another one.
func TestSame(t *testing.T) {
	o := small(t, nil)
	a, b := crawl(t, o, 0), crawl(t, o, 0)
	other := crawl(t, small(t, func(o *Options) { o.Seed = 2 }), 0)
	if a.Sent != b.Sent || a.WaitSum != b.WaitSum || a.Seconds != b.Seconds || a.Sent == other.Sent {
		t.Errorf("sent %d, %d; with another seed %d", a.Sent, b.Sent, other.Sent)
	}
}

// TestSizes: sizes have their sum, fall by rank, and have the exponent that was asked for.
func TestSizes(t *testing.T) {
	for _, exponent := range []float64{1.2, 1.5, 2, 3} {
		for _, huge := range []float64{0, 0.3} {
			const urls, plds = 1_000_000, 20_000
			list := sizes(urls, plds, exponent, huge)
			sum := 0
			for r, n := range list {
				if sum += int(n); n < 1 || r > 1 && n > list[r-1]+1 {
					t.Fatalf("exponent %v: rank %d has %d URLs, the one before %d", exponent, r, n, list[r-1])
				}
			}
			if sum != urls || len(list) != plds {
				t.Errorf("exponent %v: %d URLs in %d PLDs", exponent, sum, len(list))
			}
			if want := uint32(huge * urls); huge > 0 && list[0] != want {
				t.Errorf("the huge PLD has %d URLs, want %d", list[0], want)
			}
			if got := math.Log(10) / math.Log(float64(list[10])/float64(list[109])); math.Abs(got-exponent*math.Log(10)/math.Log(109.0/10)) > 0.1*exponent {
				t.Errorf("exponent %v: got %v", exponent, got)
			}
		}
	}
}

// TestDraw: links to other PLDs are in proportion to their sizes, and within a PLD the first URLs have most.
func TestDraw(t *testing.T) {
	w := newWeb([]uint32{6000, 3000, 1000})
	rng := rand.New(rand.NewPCG(1, 2))
	var plds [3]int
	first := 0
	const n = 100_000
	for range n {
		to, url := w.draw(rng, 2, true)
		if url < w.first[to] || url >= w.first[to+1] {
			t.Fatalf("URL %d is not of PLD %d", url, to)
		}
		if plds[to]++; url == w.first[to] {
			first++
		}
	}
	for pld, got := range plds {
		if want := n * int(w.size(uint32(pld))) / 10_000; got < want*97/100 || got > want*103/100 {
			t.Errorf("PLD %d: %d links, want %d", pld, got, want)
		}
	}
	if share := float64(first) / n; share < 0.3 || share > 0.6 { // (1/size)^(1/11)
		t.Errorf("the first URLs have %.2f of the links", share)
	}
	if to, _ := w.draw(rng, 1, false); to != 1 {
		t.Errorf("a local link leads to PLD %d", to)
	}
}

// TestReport: the command's report has all figures, and its checks hold.
func TestReport(t *testing.T) {
	o := small(t, func(o *Options) { o.URLs = 100_000 })
	r, err := o.Measure(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BenchmarkNodes/huge=none", "wait of a link, 50 % and 99 %", "Pages/s of a node over time", "largest of 4 nodes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := o.Measure(ctx, func(string) {}); err == nil {
		t.Error("a cancelled measurement ended well")
	}
	for _, bad := range []Options{{URLs: 5}, {Nodes: 1}, {Nodes: 5000}, {Exponent: 1}, {Huge: 1}, {Links: 3}, {Away: 2}, {HostDelay: time.Millisecond},
		{Checkpoint: 2 * time.Hour}, {Rate: -1}, {PLDURLs: 1}} {
		if err := bad.Complete(); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
