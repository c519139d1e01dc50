package crawl

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/internal/tabular"
	"drumbeat/internal/walk"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/export"
	"drumbeat/weburl"
)

// sampledClasses are classes of pages whose shares a sample estimates: about a quarter, a quarter and a sixth
// of the pages.
var sampledClasses = [...]string{"few links to it", "on a large host", "over https"}

// sampledWeb knows of each page that a walk can reach which classes it is in.
type sampledWeb struct {
	of    map[string][len(sampledClasses)]bool
	truth shares
}

func newSampledWeb(web *simweb.Web) *sampledWeb {
	want := web.Expected("drumbeat")
	linked, hosts := map[uint64]int{}, want.ByHost()
	for from := range want.Nodes() {
		to := map[uint64]bool{from: true}
		for _, node := range want.AppendTargets(nil, from) {
			if !to[node] {
				to[node] = true
				linked[node]++
			}
		}
	}
	s := &sampledWeb{of: map[string][len(sampledClasses)]bool{}}
	for node := range want.Nodes() {
		if want.Page(node) {
			url := want.URL(node)
			s.of[url] = [...]bool{linked[node] < 5,
				hosts[string(weburl.Split([]byte(url)).Host)].Fetched >= want.Fetched/20,
				strings.HasPrefix(url, "https:")}
		}
	}
	for _, in := range s.of {
		for c := range in {
			s.truth[c] += float64(boolInt(in[c])) / float64(len(s.of))
		}
	}
	return s
}

// shares are the shares of the classes among a set of pages.
type shares [len(sampledClasses)]float64

// estimates returns the shares of the classes among the exported rows: of the pages as they were visited, and the
// quotients of two sums that Horvitz and Thompson's weights make, of the class and of all pages.
func (s *sampledWeb) estimates(t *testing.T, rows []map[string]any) (visited, weighted shares) {
	t.Helper()
	sum := 0.0
	for _, row := range rows {
		in, ok := s.of[row["url"].(string)]
		if !ok {
			t.Errorf("sampled %v, which is no page of the web", row["url"])
		}
		w := row["weight"].(float64)
		sum += w
		for c := range in {
			visited[c] += float64(boolInt(in[c])) / float64(len(rows))
			weighted[c] += w * float64(boolInt(in[c]))
		}
	}
	for c := range weighted {
		weighted[c] /= sum
	}
	return visited, weighted
}

// exportedSample exports the sample of the last checkpoint to target, and returns its rows.
func exportedSample(t *testing.T, fs disk.FS, dirs []string, target string) []map[string]any {
	t.Helper()
	_, err := export.Run(t.Context(), export.Options{FS: fs, Dirs: dirs, Kind: export.Sample, Format: tabular.JSONL,
		Target: target, TempDir: target + ".tmp", PartBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return exportedRows(t, fs, target)
}

// TestRandomWalkSample: in the mean of twelve walks through the whole crawler, the weights of the exported
// samples take away at least 45 % of what the visits are off, for each class of pages.
//
// One walk says little: the visits of a walk depend on each other, so the estimates of 60 walks spread by up
// to 2.9 points about means that are 1.8, 0.5 and 0.3 points off, with two outliers of 7; the visits are 11, 5
// and 4 points off. The mean of twelve is five standard errors within the bound. Most of what stays is of
// pages that a walk of three quarters of the URLs had no chance to see: pages with one link stand for them.
func TestRandomWalkSample(t *testing.T) {
	notShort(t)
	t.Parallel()
	const walks = 12
	var visited, weighted shares // how far they are off, in the mean
	for range walks {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) { o.Pages, o.HTTPS = 1500, 0.2 })
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Order.Strategy, opt.Disk.CheckpointEvery = strategy.RandomWalk, time.Minute
			opt.Order.Walk = walk.Options{Walkers: 30, URLs: 1050}
			mustRun(t, t.Context(), opt)
			s := newSampledWeb(web)
			v, w := s.estimates(t, exportedSample(t, opt.Disk.FS, opt.Disk.Dirs, "sample"))
			for c, truth := range s.truth {
				visited[c] += (v[c] - truth) / walks
				weighted[c] += (w[c] - truth) / walks
			}
		})
	}
	for c, class := range sampledClasses {
		t.Logf("%s: as visited %+.1f points, by weight %+.1f", class, 100*visited[c], 100*weighted[c])
		if math.Abs(weighted[c]) > 0.55*math.Abs(visited[c]) {
			t.Errorf("%s: as visited the shares are off by %+.1f points, by weight by %+.1f", class,
				100*visited[c], 100*weighted[c])
		}
	}
}

// checkSampled checks that a walk that has visited all pages has each of them in its sample once, and that it
// is sure that it visited them.
func (e *endOf) checkSampled(set disk.Set, m *state.Manifest) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	w, err := loadWalk(&Options{}, set, m)
	if err != nil {
		return []string{err.Error()}
	}
	if n := w.Waiting(); n != 0 {
		fault("walkers wait for %d URLs that were neither fetched nor refused", n)
	}
	sample := map[string]walk.Sampled{}
	for _, s := range w.Sample() {
		if _, twice := sample[s.URL]; twice || e.stored[s.URL] != 1 {
			fault("%s was stored %d times; in the sample twice: %t", s.URL, e.stored[s.URL], twice)
		}
		sample[s.URL] = s
	}
	pages := 0
	for node := range e.want.Nodes() {
		if e.want.Page(node) {
			pages++
			if s, ok := sample[e.want.URL(node)]; !ok || s.Chance < 0.9 {
				fault("the sample has %+v of %s", s, e.want.URL(node))
			}
		}
	}
	if n := m.Accounts.Counters[state.CountPages]; n != int64(len(sample)) || pages > len(sample) {
		fault("%d pages in the sample, %d were fetched, the web has %d", len(sample), n, pages)
	}
	return faults
}

// loadWalk returns the walk of a checkpoint.
func loadWalk(opt *Options, set disk.Set, m *state.Manifest) (*walk.Walk, error) {
	return state.LoadWalk(set, m, opt.walkOptions(1<<30))
}

// checkWalked compares a random walk that was killed with the web: it visited as many URLs as it was to; all
// that was fetched was to be fetched, and is in the output once. The shares of its sample are for
// TestRandomWalkSample, in virtual time: here a hundred pages that kills at any moment have left are too few,
// and no two runs draw the same.
func (k *killTest) checkWalked(opt *Options, snap *simweb.Snapshot) {
	k.t.Helper()
	want := k.web.Expected("drumbeat")
	rep, err := audit.Deep(audit.Options{FS: disk.OS(), Dirs: opt.Disk.Dirs, RAMBytes: 1 << 20})
	if err != nil || !rep.Balanced() {
		k.t.Errorf("audit: %v, %+v", err, rep)
	}
	opt.Disk.FS = disk.OS()
	checkWalk(k.t, opt)
	for url, n := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			k.t.Errorf("fetched, but must not be: %s", url)
		}
		k.repeated += n - 1
		k.urls++
	}
	k.close()
}
