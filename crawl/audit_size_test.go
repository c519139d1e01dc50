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
	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// largeCrawl makes a directory with n URLs, all of them in BEAST, without a crawl.
func largeCrawl(t *testing.T, fs disk.FS, dir string, n int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fs.MkdirAll(dir + "/state"))
	must(disk.WriteIdentity(fs, dir, disk.Identity{Crawl: "large", Count: 1, Kind: kindState}))
	r := newRing(Options{FS: fs, Dirs: []string{dir}, Out: []string{dir}})
	r.crawlID = "large"
	secret, err := r.openSecret(nil)
	must(err)
	r.hasher = weburl.NewHasher(secret)
	must(r.openSuffixes(false))
	m := &manifest{Gen: 1, Crawl: "large", Parts: map[string]json.RawMessage{},
		Frozen: frozen{SecretCheck: r.hasher.ContentKey([]byte(secretCheckText)), Suffixes: r.suffixes.Digest()}}
	tails, err := disk.CreateTails(r.set, 1)
	must(err)
	b, err := beast.Open(beast.Options{Set: r.set, Name: nameBeast}, nil)
	must(err)
	keys := make([]uint64, n)
	rec := weburl.Record{Depth: 3, Found: 1e9, Via: []byte("/some/path/index.html")}
	var coded []byte
	for i := range keys {
		rec.URL = fmt.Appendf(rec.URL[:0], "http://www.h%d.test/some/path/page-%d.html", i%1000, i)
		keys[i] = r.hasher.URLKey(rec.URL)
		coded = rec.Append(coded[:0])
		must(b.Append(1, coded))
		m.Accounts.Unique.Add(keys[i])
	}
	m.Accounts.Places[PlaceBeast] = m.Accounts.Unique
	must(saved(m, nameBeast, b.Freeze(), tails))
	must(b.Close())
	slices.Sort(keys)
	d, err := drum.Open(drum.Options{Set: r.set, Name: nameURLSeen, Buckets: 16, Op: drum.CheckUpdate, Codec: drum.Rice, Aux: drum.AuxLog}, nil)
	must(err)
	must(d.Fill(func(add func(drum.Key, []byte) error) error {
		for _, k := range keys {
			if err := add(drum.Key(k), nil); err != nil {
				return err
			}
		}
		return nil
	}))
	must(saved(m, nameURLSeen, d.Freeze(), tails))
	must(d.Close())
	emptyParts(t, r.set, m, tails)
	must(tails.Close())
	data, err := encodeManifest(m)
	must(err)
	must(disk.WriteFileAtomic(fs, r.set.Path(0, manifestName), data))
}

// emptyParts adds the states of what holds nothing.
func emptyParts(t *testing.T, set disk.Set, m *manifest, tails *disk.Tails) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]int{nameRobotsCache: -1, nameRobotsRequested: 16} {
		d, err := drum.Open(drum.Options{Set: set, Name: name, Buckets: 2, ValueBytes: value}, nil)
		must(err)
		must(saved(m, name, d.Freeze(), tails))
		must(d.Close())
	}
	d, err := drum.Open(drum.Options{Set: set, Name: nameNames, Buckets: 2, Op: drum.CheckUpdate, ValueBytes: -1}, nil)
	must(err)
	must(saved(m, nameNames, d.Freeze(), tails))
	must(d.Close())
	s, err := star.Open(star.Options{Set: set, Name: nameStar, Place: func(*[star.LedgerBytes]byte, uint32) int64 { return -1 }, Emit: func([]star.Placed) error { return nil }}, nil)
	must(err)
	must(saved(m, nameStar, s.Freeze(), tails))
	must(s.Close())
	for _, name := range []string{nameAwaitRobots, nameRobotsFetch, nameReady, nameHeld} {
		q, err := queue.New(queue.Options{Set: set, Name: name})
		must(err)
		must(saved(m, name, q.Freeze(), tails))
	}
	for _, name := range []string{nameLater, nameRobotsLater} {
		c, err := queue.OpenCalendar(queue.Options{Set: set, Name: name}, nil)
		must(err)
		must(saved(m, name, c.Freeze(), tails))
	}
	w, err := warc.Open(warc.Options{Set: set, State: set}, nil)
	must(err)
	must(saved(m, nameWARC, w.Freeze(), tails))
	for name, prefix := range map[string]string{nameCrawlLog: "crawl", nameSeedLog: "seeds"} {
		l, err := crawllog.Open(crawllog.Options{Set: set, Prefix: prefix}, nil)
		must(err)
		must(saved(m, name, l.Freeze(), tails))
	}
}

// TestAuditsTakeBoundedRAM: the heap of audit and of audit --deep doesn't grow with the crawl: what they read, sorts and compares
// is several times of what they may take. -long prints the rates at 16 times the size.
func TestAuditsTakeBoundedRAM(t *testing.T) {
	n := 250_000
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
	opt := AuditOptions{FS: fs, Dirs: []string{dir}, RAMBytes: 1 << 20, ProgressEvery: 5 * time.Millisecond,
		Progress: func(AuditProgress) {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse))
		}}
	const limit = 8 << 20 // of some 15 MB of records and keys as they are in RAM; --ram, the buffers, and what a GC leaves
	for name, audit := range map[string]func() (balanced bool, read int64, err error){
		"audit": func() (bool, int64, error) {
			var last AuditProgress
			o := opt
			o.Progress = func(p AuditProgress) { last = p; opt.Progress(p) }
			rep, err := AuditBalance(o)
			if err != nil {
				return false, 0, err
			}
			return rep.Balanced(), last.Done, nil
		},
		"audit --deep": func() (bool, int64, error) {
			rep, err := AuditDeep(opt)
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
		t.Logf("%s of %d URLs: %d MB read, %.0f MB/s, %.2g URLs/s, heap grew by %d KiB", name, n, read/1e6, float64(read)/1e6/took.Seconds(),
			float64(n)/took.Seconds(), grown>>10)
		if grown > limit {
			t.Errorf("%s of %d URLs took %d bytes of heap more, want at most %d", name, n, grown, limit)
		}
	}
}
