package crawl

import (
	"flag"
	"slices"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

var (
	ratePairs = flag.Int("checkpoint.pairs", 0, "number of pairs of crawls in TestCheckpointRate; 0 skips it")
	rateEvery = flag.Duration("checkpoint.every", 60*time.Second, "time between the checkpoints of TestCheckpointRate")
	ratePages = flag.Int64("checkpoint.pages", 100_000, "pages of each crawl of TestCheckpointRate")
	rateRAM   = flag.Int64("checkpoint.ram", 1<<30, "RAM of each crawl of TestCheckpointRate, in bytes")
)

// TestCheckpointStats: the statistics of checkpoints must be set and consistent, and must keep the maximum
// of each time.
func TestCheckpointStats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		opt := simOptions(t, smallWeb(t, nil), memfs.New(*seedFlag))
		opt.Disk.CheckpointEvery = time.Second
		res := mustRun(t, t.Context(), opt)
		c := res.Snapshot.Checkpoint
		if n := res.Snapshot.Count(state.CountCheckpoints); int64(c.Number) != n || n < 3 || c.Bytes == 0 ||
			c.When.IsZero() || c.Stall < c.Pause || c.LongestPause < c.Pause || c.LongestStall < c.Stall ||
			c.LongestTotal < c.Total {
			t.Errorf("after %d checkpoints: %+v", n, c)
		}
	})
	a := snapshot.CheckpointStats{Pause: 3, Stall: 4, Total: 9}
	a.Since(nil)
	b := snapshot.CheckpointStats{Pause: 1, Stall: 6, Total: 5}
	b.Since(&a)
	if b.LongestPause != 3 || b.LongestStall != 6 || b.LongestTotal != 9 {
		t.Errorf("got %+v", b)
	}
}

// TestCheckpointRate compares the rates of crawls on the real disk with and without checkpoints. The two
// kinds alternate, since the machine's speed drifts.
func TestCheckpointRate(t *testing.T) {
	if *ratePairs == 0 {
		t.Skip("-checkpoint.pairs is 0")
	}
	var ratios []float64
	for i := range *ratePairs {
		kinds := []time.Duration{*rateEvery, 24 * time.Hour}
		if i%2 == 1 {
			slices.Reverse(kinds)
		}
		var rates [2]float64
		for _, every := range kinds {
			rate, c := crawlRate(t, every)
			with := 0
			if every == *rateEvery {
				with = 1
			}
			rates[with] = rate
			t.Logf("pair %d, every %v: %.0f pages/s; %d checkpoints, longest pause %v, stall %v, total %v, last "+
				"checkpoint wrote %d bytes", i,
				every, rate, c.Number, c.LongestPause, c.LongestStall, c.LongestTotal, c.Bytes)
		}
		ratios = append(ratios, rates[1]/rates[0])
	}
	slices.Sort(ratios)
	median := (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
	t.Logf("rate with checkpoints every %v by rate without: median %.3f, from %.3f to %.3f, %d pairs",
		*rateEvery, median, ratios[0], ratios[len(ratios)-1], len(ratios))
	if median < 0.95 {
		t.Errorf("checkpoints cost %.1f %% of the rate, want less than 5 %%", 100*(1-median))
	}
}

// crawlRate returns the pages per second of a crawl between its first tenth and its last.
func crawlRate(t *testing.T, every time.Duration) (float64, snapshot.CheckpointStats) {
	o := simweb.Defaults(*seedFlag)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LinksPerPage, o.PageBytes = 2000, 5000, 1<<29, 4000, 60, 8000
	o.HTTPS, o.LogRequests, o.Page, o.SeedURLs = 0, 1, simweb.PageMix{}, 200
	o.Robots = simweb.RobotsMix{AllowAll: 1}
	web, err := simweb.New(o)
	must(t, err)
	opt := simOptions(t, web, disk.OS())
	opt.Disk.Dirs = []string{t.TempDir()}
	opt.Network.Connections, opt.Order.StockTarget, opt.Limits.MaxPages, opt.Limits.RAMBytes = 128, 4000,
		*ratePages, *rateRAM
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Millisecond, time.Millisecond
	opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin = time.Millisecond, time.Millisecond
	opt.Disk.CheckpointEvery, opt.Observe.SnapshotEvery, opt.Limits.DiskBytes = every, 100*time.Millisecond, 50<<30
	var first, last *Snapshot
	opt.Observe.Snapshot = func(s *Snapshot) {
		switch n := s.Count(state.CountPages); {
		case n < *ratePages/10:
		case first == nil:
			first = s
		case n < *ratePages*9/10:
			last = s
		}
	}
	res := mustRun(t, t.Context(), opt)
	if first == nil || last == nil {
		t.Fatalf("%d pages in %v, too few to measure", res.Snapshot.Count(state.CountPages), res.Snapshot.Elapsed)
	}
	pages := last.Count(state.CountPages) - first.Count(state.CountPages)
	return float64(pages) / last.Time.Sub(first.Time).Seconds(), res.Snapshot.Checkpoint
}
