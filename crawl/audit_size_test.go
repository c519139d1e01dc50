package crawl

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// largeCrawl writes a directory with n URLs, all in BEAST, without running a crawl.
func largeCrawl(t *testing.T, fs disk.FS, dir string, n int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(fs.MkdirAll(dir + "/state"))
	must(disk.WriteIdentity(fs, dir, disk.Identity{Crawl: "large", Count: 1, Kind: state.KindState}))
	c := newCrawler(Options{Disk: DiskOptions{FS: fs, Dirs: []string{dir}, Out: []string{dir}}})
	c.CrawlID = "large"
	secret, err := c.OpenSecret(nil)
	must(err)
	c.Hasher = weburl.NewHasher(secret)
	must(c.OpenSuffixes(false, false))
	m := &state.Manifest{Gen: 1, Crawl: "large", Parts: map[string]json.RawMessage{},
		Frozen: state.Frozen{SecretCheck: c.Hasher.ContentKey([]byte(state.SecretCheckText)),
			Suffixes: c.Suffixes.Digest()}}
	tails, err := disk.CreateTails(c.Set, 1)
	must(err)
	b, err := beast.Open(beast.Options{Set: c.Set, Name: state.NameBeast}, nil)
	must(err)
	keys := make([]uint64, n)
	rec := weburl.Record{Depth: 3, Found: 1e9, Via: []byte("/some/path/index.html")}
	var coded []byte
	for i := range keys {
		rec.URL = fmt.Appendf(rec.URL[:0], "http://www.h%d.test/some/path/page-%d.html", i%1000, i)
		keys[i] = c.Hasher.URLKey(rec.URL)
		coded = rec.Append(coded[:0])
		must(b.Append(1, coded))
		m.Accounts.Unique.Add(keys[i])
	}
	m.Accounts.Places[state.PlaceBeast] = m.Accounts.Unique
	must(saved(m, state.NameBeast, b.Freeze(), tails))
	must(b.Close())
	slices.Sort(keys)
	d, err := drum.Open(drum.Options{Set: c.Set, Name: state.NameURLSeen, Buckets: 16, Op: drum.CheckUpdate,
		Codec: drum.Rice, Aux: drum.AuxLog}, nil)
	must(err)
	must(d.Fill(func(add func(drum.Key, []byte) error) error {
		for _, k := range keys {
			if err := add(drum.Key(k), nil); err != nil {
				return err
			}
		}
		return nil
	}))
	must(saved(m, state.NameURLSeen, d.Freeze(), tails))
	must(d.Close())
	emptyParts(t, c.Set, m, tails)
	must(tails.Close())
	data, err := state.EncodeManifest(m)
	must(err)
	must(disk.WriteFileAtomic(fs, c.Set.Path(0, state.ManifestName), data))
}

// emptyParts adds the states of empty structures.
func emptyParts(t *testing.T, set disk.Set, m *state.Manifest, tails *disk.Tails) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	for name, value := range map[string]int{state.NameRobotsCache: -1, state.NameRobotsRequested: 16} {
		d, err := drum.Open(drum.Options{Set: set, Name: name, Buckets: 2, ValueBytes: value}, nil)
		must(err)
		must(saved(m, name, d.Freeze(), tails))
		must(d.Close())
	}
	d, err := drum.Open(drum.Options{Set: set, Name: state.NameNames, Buckets: 2, Op: drum.CheckUpdate, ValueBytes: -1},
		nil)
	must(err)
	must(saved(m, state.NameNames, d.Freeze(), tails))
	must(d.Close())
	s, err := star.Open(star.Options{Set: set, Name: state.NameStar, Place: func(*[star.LedgerBytes]byte, uint32, uint8,
		uint8) int64 {
		return -1
	}, Emit: func([]star.Placed) error { return nil }}, nil)
	must(err)
	must(saved(m, state.NameStar, s.Freeze(), tails))
	must(s.Close())
	for _, name := range []string{state.NameAwaitRobots, state.NameRobotsFetch, state.NameReady, state.NameHeld} {
		q, err := queue.New(queue.Options{Set: set, Name: name})
		must(err)
		must(saved(m, name, q.Freeze(), tails))
	}
	for _, name := range []string{state.NameDeferred, state.NameRobotsDeferred} {
		c, err := queue.OpenCalendar(queue.Options{Set: set, Name: name}, nil)
		must(err)
		must(saved(m, name, c.Freeze(), tails))
	}
	w, err := warc.Open(warc.Options{Set: set, State: set}, nil)
	must(err)
	must(saved(m, state.NameWARC, w.Freeze(), tails))
	for name, prefix := range map[string]string{state.NameCrawlLog: "crawl", state.NameSeedLog: "seeds",
		state.NameRobotsLog: "robots"} {
		l, err := crawllog.Open(crawllog.Options{Set: set, Prefix: prefix}, nil)
		must(err)
		must(saved(m, name, l.Freeze(), tails))
	}
}

// TestAuditsTakeBoundedRAM: the heap of audit and audit --deep must not grow with the crawl, which is
// several times as large as the RAM that they may use. -long prints the rates at 5 times the size.
func TestAuditsTakeBoundedRAM(t *testing.T) {
	notShort(t)
	n := 750_000
	if *longRuns {
		n = 4_000_000
	}
	fs, dir := disk.OS(), t.TempDir()
	largeCrawl(t, fs, dir, n)
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	opt := audit.Options{FS: fs, Dirs: []string{dir}, RAMBytes: 1 << 20, ProgressEvery: 5 * time.Millisecond,
		Progress: func(state.Progress) {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse))
		}}
	const limit = 16 << 20 // the sorter, buffers and garbage; the records and keys would take about 45 MB of RAM
	for name, audit := range map[string]func() (balanced bool, read int64, err error){
		"audit": func() (bool, int64, error) {
			var last state.Progress
			o := opt
			o.Progress = func(p state.Progress) { last = p; opt.Progress(p) }
			rep, err := audit.Balance(o)
			if err != nil {
				return false, 0, err
			}
			return rep.Balanced(), last.Done, nil
		},
		"audit --deep": func() (bool, int64, error) {
			rep, err := audit.Deep(opt)
			if err != nil {
				return false, 0, err
			}
			return rep.Balanced() && rep.Keys.Nowhere == 0, rep.Bytes, nil
		},
	} {
		peak.Store(0)
		began := time.Now()
		balanced, read, err := audit()
		took := time.Since(began)
		if err != nil || !balanced {
			t.Fatalf("%s: balanced %t, %v", name, balanced, err)
		}
		grown := int64(peak.Load()) - int64(before.HeapInuse)
		t.Logf("%s of %d URLs: %d MB read, %.0f MB/s, %.2g URLs/s, heap grew by %d KiB", name, n, read/1e6,
			float64(read)/1e6/took.Seconds(), float64(n)/took.Seconds(), grown>>10)
		if grown > limit {
			t.Errorf("%s of %d URLs: heap grew by %d bytes, want at most %d", name, n, grown, limit)
		}
	}
}
