package crawllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")
	longFlag = flag.Bool("long", false, "more rounds of random tests")
)

var when = time.Date(2026, 11, 21, 22, 43, 5, 678e6, time.UTC)

func sample() Entry {
	return Entry{
		Time: when, URL: "https://example.org/a?b=\"c\"", Status: 200, Reason: "r", Truncated: "length", Page: true,
		Bytes: 12345, Depth: 3,
		Key: 0xdef, Via: "https://example.org/via", Parent: 0xabc, IP: netip.MustParseAddr("192.0.2.7"),
		Elapsed: 87 * time.Millisecond, Attempts: 1, MIME: "text/html", Charset: "windows-1252",
		Robots: "noindex", Canonical: "https://example.org/c", Refresh: "https://example.org/r",
		Redirect: "https://example.org/d", Dropped: "too-many-redirects",
		File: "DRUMBEAT-1.warc.gz", Offset: 99, DuplicateOf: "https://example.org/e", Score: 0.25, Scored: true,
		Fields: `{"a":"b"}`, TLS: "self-signed",
	}
}

func TestGoldenLine(t *testing.T) {
	e := sample()
	want := `{"ts":"2026-11-21T22:43:05.678Z","url":"https://example.org/a?b=\"c\"","key":"0000000000000def",` +
		`"status":200,"reason":"r",` +
		`"truncated":"length","page":true,"bytes":12345,"depth":3,"via":"https://example.org/via",` +
		`"parent":"0000000000000abc","ip":"192.0.2.7","ms":87,"attempts":1,` +
		`"mime":"text/html","charset":"windows-1252","robots":"noindex","canonical":"https://example.org/c",` +
		`"refresh":"https://example.org/r",` +
		`"redirect":"https://example.org/d","dropped":"too-many-redirects","tls":"self-signed",` +
		`"file":"DRUMBEAT-1.warc.gz","offset":99,"duplicate_of":"https://example.org/e",` +
		`"score":0.25,"fields":"{\"a\":\"b\"}"}` + "\n"
	if got := string(e.Append(nil)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	var back Entry
	if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, e) {
		t.Errorf("got %+v, %v, want %+v", back, err, e)
	}
	e.MIME, e.Elapsed = "text/html; charset=utf-8", 87*time.Millisecond+900*time.Microsecond
	if got := string(e.Append(nil)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	short := Entry{Time: when, URL: "http://x/"}
	if got := string(short.Append(nil)); got != `{"ts":"2026-11-21T22:43:05.678Z","url":"http://x/"}`+"\n" {
		t.Errorf("got %s", got)
	}
}

// TestFieldsWhole: fields are written whole or not at all, and the longest line fits.
func TestFieldsWhole(t *testing.T) {
	long := strings.Repeat("\u2028", 5000)
	e := Entry{Time: when, URL: long, Reason: long, Truncated: long, Via: long, MIME: long, Charset: long, Robots: long,
		Canonical: long, Refresh: long, Redirect: long, Dropped: long, TLS: long, File: long, DuplicateOf: long,
		Key: 1 << 63, Parent: 1 << 63, Status: math.MaxInt, Bytes: math.MinInt64, Depth: math.MinInt,
		Attempts: math.MinInt, Offset: math.MinInt64, Elapsed: math.MinInt64,
		IP: netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666"), Scored: true, Score: -1.0 / 3e300}
	for _, fields := range []string{`{"a":"` + strings.Repeat(`\"`, 508) + `"}`,
		`{"a":"` + strings.Repeat("\u2028", 338) + `"}`} {
		e.Fields = fields
		line := e.Append(nil)
		var back Entry
		if err := json.Unmarshal(line, &back); err != nil || back.Fields != fields || back.Score != e.Score ||
			len(line) > MaxLine {
			t.Errorf("line of %d bytes, %v, fields %.100q", len(line), err, back.Fields)
		}
		e.Fields = fields + strings.Repeat(" ", 10)
		if err := json.Unmarshal(e.Append(nil), &back); err != nil || back.Fields != "" || !back.Scored {
			t.Errorf("%v, fields %.100q", err, back.Fields)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("https://example.org/", "robots", "text/html", 200, uint64(7))
	f.Add("\xff\x00\"\\\u2028ü", "\n", "", -1, uint64(0))
	f.Add(strings.Repeat("\x00", 20000), strings.Repeat("ü", 500), "", 0, uint64(0))
	f.Fuzz(func(t *testing.T, url, reason, mime string, status int, parent uint64) {
		e := Entry{Time: when, URL: url, Reason: reason, MIME: mime, Status: status, Parent: parent}
		line := e.Append(nil)
		if len(line) > MaxLine || bytes.Count(line, []byte{'\n'}) != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("got %d bytes: %q", len(line), line)
		}
		if strings.ContainsFunc(string(line[:len(line)-1]), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("line %q has unprintable characters", line)
		}
		var back Entry
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		valid := func(s string, limit int) string { return strings.ToValidUTF8(s, "\ufffd") }
		if back.Status != status || back.Parent != e.Parent || len(url) < 1000 && len(reason) < 40 &&
			(strings.ToValidUTF8(url, "") == url && back.URL != valid(url, maxURL) ||
				strings.ToValidUTF8(reason, "") == reason && back.Reason != reason) {
			t.Fatalf("got %+v, want %+v", back, e)
		}
	})
}

func FuzzRead(f *testing.F) {
	l, _ := Open(Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"/out"}},
		State: disk.Set{FS: memfs.New(1), Paths: []string{"/state"}}}, nil)
	e := sample()
	f.Add(l.zstd.EncodeAll(e.Append(e.Append(nil)), nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		Read(bytes.NewReader(b), func(*Entry) error {
			if n++; n > 1000 {
				return errors.New("enough")
			}
			return nil
		})
	})
}

// manifest is the manifest of the test crawl.
type manifest struct {
	Gen     uint64
	Covered int
	State   *State
}

// testCrawl appends entries, with consecutive numbers in Bytes, and takes checkpoints.
type testCrawl struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *memfs.FS
	opt  Options
	log  *Log
	next int
}

func (c *testCrawl) start() {
	c.opt = Options{
		Set:       disk.Set{FS: c.mem, Paths: []string{"/out", "/other"}},
		State:     disk.Set{FS: c.mem, Paths: []string{"/state"}},
		FileBytes: 100_000, BlockBytes: minBlock,
	}
	for _, dir := range []string{"/state", "/out"} {
		if err := c.mem.MkdirAll(dir); err != nil {
			c.t.Fatal(err)
		}
	}
	// The manifest may be visible but not durable: killed between its rename and the sync of the directory.
	// Open relies on it, so sync it first.
	if err := c.mem.SyncFS("/state"); err != nil {
		c.t.Fatal(err)
	}
	m := c.manifest()
	l, err := Open(c.opt, m.State)
	if err != nil {
		c.t.Fatal(err)
	}
	c.log, c.next = l, m.Covered
}

func (c *testCrawl) manifest() (m manifest) {
	if err := damage.LoadManifest(c.mem, "/state/manifest", &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// now is the time of the next entry.
func (c *testCrawl) now() time.Time { return when.Add(time.Duration(c.next) * time.Second) }

func (c *testCrawl) add(count int) error {
	for range count {
		e := sample()
		e.Bytes, e.Time = int64(c.next)+1, c.now()
		e.URL = fmt.Sprintf("https://example.org/%x/%s", c.rng.Uint64(), strings.Repeat("x", c.rng.IntN(300)))
		if err := c.log.Append(&e); err != nil {
			return err
		}
		c.next++
	}
	return nil
}

func (c *testCrawl) checkpoint(more int) error {
	old := c.manifest()
	m := manifest{Gen: old.Gen + 1, Covered: c.next}
	if err := disk.RemoveTails(c.opt.State, func(gen uint64) bool { return gen == old.Gen }); err != nil {
		return err
	}
	frozen := c.log.Freeze()
	if err := c.add(more); err != nil {
		return err
	}
	tails, err := disk.CreateTails(c.opt.State, m.Gen)
	if err != nil {
		return err
	}
	if m.State, err = frozen.Save(tails); err != nil {
		return err
	}
	if err := c.add(more); err != nil {
		return err
	}
	if err := tails.Close(); err != nil {
		return err
	}
	if err := damage.StoreManifest(c.mem, "/state/manifest", m, "/state", "/out"); err != nil {
		return err
	}
	return frozen.Commit()
}

// check reads all files: entries 0 to covered-1 must be there, in order.
func (c *testCrawl) check() {
	c.t.Helper()
	m := c.manifest()
	if m.State == nil {
		return
	}
	n := 0
	visit := func(e *Entry) error {
		if n++; e.Bytes != int64(n) {
			return fmt.Errorf("entry %d has number %d", n, e.Bytes)
		}
		return nil
	}
	if _, err := Scan(c.opt, m.State, visit, func(err error) error { return err }); err != nil {
		c.t.Fatal(err)
	}
	if n != m.Covered || m.State.Entries != int64(n) {
		c.t.Errorf("got %d entries, counted %d, want %d", n, m.State.Entries, m.Covered)
	}
}

func TestCrashes(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", seed)
	crawls := 4
	if testing.Short() {
		crawls = 2
	}
	if *longFlag {
		crawls = 500
	}
	for i := range crawls {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := &testCrawl{t: t, rng: rng, mem: memfs.New(rng.Uint64())}
		for range 5 {
			c.start()
			c.mem.CrashAfter(1 + rng.IntN(60))
			var err error
			for err == nil {
				if err = c.add(rng.IntN(600)); err == nil && rng.IntN(6) == 0 {
					err = c.log.Roll(c.now()) // the names of files, and so their order, are by time
				}
				if err == nil {
					err = c.checkpoint(rng.IntN(200))
				}
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("crawl %d: %v", i, err)
			}
			c.log.Close()
			if rng.IntN(2) == 0 {
				c.mem = c.mem.Kill()
			} else {
				c.mem = c.mem.Crash()
			}
			c.start()
			c.check()
			if t.Failed() {
				t.Fatalf("crawl %d", i)
			}
			c.mem = c.mem.Kill()
		}
	}
}

func TestRotation(t *testing.T) {
	c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	must(t, c.add(5000))
	must(t, c.log.Roll(when))
	must(t, c.checkpoint(0))
	c.check()
	names, err := c.mem.List("/out/log")
	must(t, err)
	for _, name := range names {
		size, err := c.mem.Size("/out/log/" + name)
		if err != nil || size > 100_000 || strings.HasSuffix(name, ".open") {
			t.Errorf("got file %s of %d bytes, %v", name, size, err)
		}
	}
	if len(names) < 2 || c.log.Entries() != 5000 {
		t.Errorf("got files %v, %d entries", names, c.log.Entries())
	}
	c.log.Close()
	if err := c.add(1); err == nil {
		t.Error("a closed log accepts entries")
	}
}

// TestFailStop: after a write error Append and Save fail.
func TestFailStop(t *testing.T) {
	c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	c.mem.SetCapacity(40_000)
	var err error
	for err == nil {
		err = c.add(1)
	}
	c.mem.SetCapacity(1 << 30)
	if again := c.add(1); again == nil {
		t.Error("append after a failed write: no error")
	}
	frozen := c.log.Freeze()
	tails, err := disk.CreateTails(c.opt.State, 1)
	must(t, err)
	if _, err := frozen.Save(tails); err == nil {
		t.Error("save after a failed write: no error")
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	e, buf := sample(), make([]byte, 0, MaxLine)
	if n := testing.AllocsPerRun(100, func() { buf = e.Append(buf[:0]) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	mem := memfs.New(1)
	l, err := Open(Options{Set: disk.Set{FS: mem, Paths: []string{"/out"}},
		State: disk.Set{FS: mem, Paths: []string{"/state"}}}, nil)
	must(b, err)
	e := sample()
	rng := rand.New(rand.NewPCG(1, 1))
	urls := make([]string, 4096)
	for i := range urls {
		urls[i] = fmt.Sprintf("https://www.example-%d.org/section/%x/page-%d.html", rng.IntN(900), rng.Uint32(), i)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e.URL, e.Bytes, e.Offset = urls[n%len(urls)], int64(n*7919%100000), int64(n)*9000
		n++
		must(b, l.Append(&e))
	}
	lane := l.files.Acquire()
	b.ReportMetric(float64(lane.Size(0))/float64(n), "stored-B/op")
	lane.Release()
}
