package crawltest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/backups"
	"drumbeat/crawl/output"
	"drumbeat/crawl/render"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/objstore"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/backup"
)

// SimOptions returns the options of a small crawl of web over a virtual network, on fs.
func SimOptions(t testing.TB, web *simweb.Web, fs disk.FS) crawl.Options {
	t.Helper()
	client := testworld.Client(t, fetch.Options{
		Dial: web.Dial, Ports: ports.Of(8080),
		TLS: fetch.TLSOptions{Roots: web.CAPool()},
	})
	t.Cleanup(func() { client.Close() })
	opt := crawl.Options{
		Disk:      crawl.DiskOptions{FS: fs, Dirs: []string{"d0", "d1"}, CheckpointEvery: 5 * time.Second},
		Admission: crawl.AdmissionOptions{SeedLines: web.Seeds()},
		Identity:  crawl.IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
		Network: crawl.NetworkOptions{Resolver: testworld.SimResolver{Web: web}, Fetcher: client,
			CloseIdle: client.CloseIdle, AllowedAddr: client.AllowedAddr,
			Ports: client.Ports(), Connections: 64, KeepAlive: 10 * time.Second},
		Limits: crawl.LimitsOptions{RAMBytes: 128 << 20, DiskBytes: 10 << 30, Linger: 5 * time.Second,
			MaxDepth: crawl.Unlimited},
		Health: crawl.HealthOptions{Retries: 2},
		Politeness: crawl.PolitenessOptions{HostDelay: 200 * time.Millisecond, HostDelayMin: 50 * time.Millisecond,
			ServerDelay: 20 * time.Millisecond, ServerDelayMin: 5 * time.Millisecond},
		Output: crawl.OutputOptions{Store: true, CrawlLog: state.LogAll}, Order: crawl.OrderOptions{StockTarget: 2000},
	}
	if *testworld.Verbose {
		opt.Observe.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		opt.Observe.Snapshot = func(s *crawl.Snapshot) {
			t.Logf("%v: %v fetched %d pages %d waiting for %q deferred %v refused %v robots %d+%d s=%d h=%d",
				s.Elapsed, s.Places, s.Counters[state.CountResponses], s.Counters[state.CountPages], s.Wait.Text,
				s.Deferred, s.Refused, s.RobotsInFlight, s.RobotsQueued, s.Queue, s.Horizon)
		}
		opt.Observe.SnapshotEvery = 10 * time.Second
	}
	return opt
}

// WebOptions returns the options of a crawl of w with the program's default delays, on fs.
func WebOptions(t testing.TB, w *testworld.Web, fs disk.FS, seeds ...string) crawl.Options {
	t.Helper()
	client := testworld.Client(t, fetch.Options{Dial: w.Dial})
	return crawl.Options{
		Disk:      crawl.DiskOptions{FS: fs, Dirs: []string{"d0", "d1"}, CheckpointEvery: time.Hour},
		Admission: crawl.AdmissionOptions{SeedLines: seeds},
		Identity:  crawl.IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
		Network:   crawl.NetworkOptions{Resolver: w, Fetcher: client, Connections: 200},
		Limits: crawl.LimitsOptions{RAMBytes: 128 << 20, DiskBytes: 10 << 30, MaxDepth: crawl.Unlimited,
			Linger: time.Minute},
		Health: crawl.HealthOptions{Retries: 3},
		Politeness: crawl.PolitenessOptions{HostDelay: 40 * time.Second, HostDelayMin: time.Second,
			ServerDelay: time.Second, ServerDelayMin: 200 * time.Millisecond},
		Output: crawl.OutputOptions{Store: true, CrawlLog: state.LogAll},
	}
}

// WithoutBrowser has the pages below /r rendered by a browser that never answers.
func WithoutBrowser(t *testing.T, o *crawl.Options) {
	o.Render = &crawl.RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20,
		Rules: testworld.RenderRules(t, o.Disk.FS),
		Dial: func(context.Context, string) (render.Browser, error) {
			return nil, errors.New("connection refused")
		}}
}

// WithStore gives a crawl an object store.
func WithStore(o *crawl.Options, b objstore.Bucket) {
	o.ObjectStore = &output.ObjectStoreOptions{Bucket: b, Place: objstore.Place{Bucket: "b", Prefix: "pages"},
		PartBytes: 20_000, SpoolBytes: 10 << 20}
}

// WithBackup has a crawl backed up.
func WithBackup(o *crawl.Options, place backup.Place, every time.Duration) {
	o.Backup = &backups.Options{Place: place, Every: every}
}

// AtOnce removes all delays.
func AtOnce(o *crawl.Options) {
	o.Politeness.HostDelay, o.Politeness.HostDelayMin, o.Politeness.ServerDelay, o.Politeness.ServerDelayMin = 0, 0, 0,
		0
}

// MustRun runs a crawl to its end.
func MustRun(t *testing.T, ctx context.Context, opt crawl.Options) *crawl.Result {
	t.Helper()
	res, err := crawl.Run(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// StoppedCrawl returns a directory with URLs in every kind of place.
func StoppedCrawl(t *testing.T) (*memfs.FS, crawl.Options) {
	t.Helper()
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 3000, 0.2 })
	fs := memfs.New(*testworld.Seed)
	opt := SimOptions(t, web, fs)
	opt.Budgets.QueuePages = crawl.Unlimited
	opt.Order.StockTarget = 100
	opt.Limits.MaxPages = 300
	if _, err := crawl.Run(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	return fs, opt
}
