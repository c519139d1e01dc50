package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")
	longFlag = flag.Bool("long", false, "more rounds of random tests")
)

// manifest is the manifest of the test crawl: how many captures the state covers.
type manifest struct {
	Gen     uint64
	Covered int
	State   *State
}

// crashCrawl is a crawl that only appends numbered captures and takes checkpoints.
type crashCrawl struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *memfs.FS
	opt  Options
	w    *Writer
	enc  *Encoder
	next int
	last manifest
	// set sets the format; nil: gz.
	set func(*Options)
	// quiet: no appends during checkpoints. busy: a checkpoint is running.
	quiet, busy bool
}

func (c *crashCrawl) start() {
	c.opt = testOptions(c.mem, 1+c.rng.IntN(3))
	if c.last.State != nil {
		c.opt = testOptions(c.mem, c.dirs())
	}
	if c.set != nil {
		c.set(&c.opt)
	}
	c.opt.FileBytes, c.opt.IndexBytes, c.opt.BufferBytes = 30_000, 6_000, 4096<<c.rng.IntN(2)
	for _, dir := range append([]string{"/state"}, c.opt.Set.Paths...) {
		if err := c.mem.MkdirAll(dir); err != nil {
			c.t.Fatal(err)
		}
	}
	// The manifest may exist without being durable, after a kill between its rename and the directory's
	// sync. Open acts on it, so it is made durable first.
	if err := c.mem.SyncFS("/state"); err != nil {
		c.t.Fatal(err)
	}
	c.last = c.readManifest()
	w, err := Open(c.opt, c.last.State)
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	c.w, c.enc, c.next = w, w.NewEncoder(), c.last.Covered
}

func (c *crashCrawl) dirs() int {
	n := 0
	for {
		if _, err := c.mem.List(fmt.Sprintf("/out%d", n)); err != nil {
			return max(n, 1)
		}
		n++
	}
}

func (c *crashCrawl) readManifest() (m manifest) {
	if err := damage.LoadManifest(c.mem, "/state/manifest", &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// capture returns exchange number n. Its sizes and kinds follow from n.
func capture(n int) *Exchange {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	x := sampleExchange()
	x.URL = fmt.Appendf(nil, "http://h%d.example/%d", n%17, n)
	x.Body = bytes.Repeat(fmt.Appendf(nil, "page %d ", n), rng.IntN(400))
	if x.Encoded = rng.IntN(2) == 0; x.Encoded && rng.IntN(8) == 0 {
		x.Body = make([]byte, 40_000)
		for i := range x.Body {
			x.Body[i] = byte(rng.Uint32())
		}
	}
	return x
}

func (c *crashCrawl) add(count int) error {
	var p Prepared
	for range count {
		if c.quiet {
			break
		}
		if c.next%13 == 5 {
			if err := c.stream(); err != nil {
				return err
			}
			continue
		}
		if err := c.enc.Prepare(&p, capture(c.next)); err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.w.Append(&p, when.Add(time.Duration(c.next)*time.Second)); err != nil {
			return err
		}
		c.next++
	}
	return nil
}

// stream adds a capture by Stream. Sometimes it first streams one that it discards, and sometimes a checkpoint
// comes between Stream and Attach.
func (c *crashCrawl) stream() error {
	x := capture(c.next)
	x.Large, x.Body = io.NewSectionReader(bytes.NewReader(x.Body), 0, int64(len(x.Body))), nil
	for {
		s, err := c.w.Stream(c.t.Context(), c.enc, x, when.Add(time.Duration(c.next)*time.Second))
		if err != nil {
			return err
		}
		if c.rng.IntN(3) == 0 {
			if err := s.Discard(); err != nil {
				return err
			}
			continue
		}
		if !c.busy && c.rng.IntN(3) == 0 {
			c.quiet = true // the next number is taken
			err := c.checkpoint()
			if c.quiet = false; err != nil {
				return err
			}
		}
		_, err = c.w.Attach(s)
		if c.next++; err != nil {
			return err
		}
		return nil
	}
}

// checkpoint follows the protocol; appends continue between its stages.
func (c *crashCrawl) checkpoint() error {
	c.busy = true
	defer func() { c.busy = false }()
	m := manifest{Gen: c.last.Gen + 1, Covered: c.next}
	frozen := c.w.Freeze()
	if err := c.add(c.rng.IntN(20)); err != nil {
		return err
	}
	tails, err := disk.CreateTails(c.opt.State, m.Gen)
	for gen := m.Gen; errors.Is(err, fs.ErrExist); { // left by a crash
		if err := disk.RemoveTails(c.opt.State, func(g uint64) bool { return g != gen }); err != nil {
			return err
		}
		tails, err = disk.CreateTails(c.opt.State, m.Gen)
	}
	if err != nil {
		return err
	}
	if m.State, err = frozen.Save(tails); err != nil {
		return err
	}
	if err := tails.Close(); err != nil {
		return err
	}
	if err := c.add(c.rng.IntN(5)); err != nil {
		return err
	}
	dirs := append([]string{"/state"}, c.opt.Set.Paths...)
	if err := damage.StoreManifest(c.mem, "/state/manifest", m, dirs...); err != nil {
		return err
	}
	c.last = m
	if err := frozen.Commit(); err != nil {
		return err
	}
	return disk.RemoveTails(c.opt.State, func(gen uint64) bool { return gen == m.Gen })
}

// check reads all files: each capture below covered must be there exactly once, and nothing else.
func (c *crashCrawl) check() {
	c.t.Helper()
	m := c.readManifest()
	if m.State == nil {
		return
	}
	seen := make(map[string]int)
	visit := func(file string, r *Record) error {
		if r.Type() != "response" {
			return nil
		}
		x := capture(atoi(c.t, r.Get("WARC-Target-URI")))
		if want := append(slices.Clone(x.Head), x.Body...); !bytes.Equal(r.Block, want) {
			c.t.Errorf("%s at %d: %s has another block", file, r.Offset, r.Get("WARC-Target-URI"))
		}
		seen[fmt.Sprintf("%s %d %d %s", file, r.Offset, r.Length, r.Get("WARC-Target-URI"))]++
		return nil
	}
	paths, err := Files(c.opt.Set)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range paths {
		base := path[strings.LastIndexByte(path, '/')+1:]
		if err := ReadFile(c.mem, path, 1<<20, func(r *Record) error { return visit(base, r) }); err != nil {
			c.t.Fatal(err)
		}
		c.checkIndex(path, indexOf(path), seen)
	}
	if err := Walk(c.opt, m.State, 1<<20, visit); err != nil {
		c.t.Fatal(err)
	}
	numbers := make(map[int]bool)
	for key, times := range seen {
		n := atoi(c.t, key)
		if times != 1 || numbers[n] || n >= m.Covered {
			c.t.Errorf("capture %d of %d is there more than once, or should not be", n, m.Covered)
		}
		numbers[n] = true
	}
	if len(numbers) != m.Covered || m.State.Counts.Captures != int64(m.Covered) {
		c.t.Errorf("got %d captures, counted %d, want %d", len(numbers), m.State.Counts.Captures, m.Covered)
	}
}

// checkIndex compares a final index with the records of its file, which are in seen.
func (c *crashCrawl) checkIndex(dataPath, path string, seen map[string]int) {
	data, err := disk.ReadFile(c.mem, path)
	if err != nil {
		c.t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if !slices.IsSorted(lines[:len(lines)-1]) {
		c.t.Errorf("%s isn't sorted", path)
	}
	file, found := dataPath[strings.LastIndexByte(dataPath, '/')+1:], 0
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		_, object, _ := strings.Cut(sc.Text(), " {")
		var v map[string]string
		if err := json.Unmarshal([]byte("{"+object), &v); err != nil {
			c.t.Fatal(err)
		}
		if seen[fmt.Sprintf("%s %s %s %s", v["filename"], v["offset"], v["length"], v["url"])] == 0 {
			c.t.Errorf("%s: no record for %s", path, sc.Text())
		}
		found++
	}
	for key := range seen {
		if strings.HasPrefix(key, file+" ") {
			found--
		}
	}
	if found != 0 {
		c.t.Errorf("%s: %d lines more than records", path, found)
	}
}

func atoi(t *testing.T, url string) (n int) {
	if _, err := fmt.Sscan(url[strings.LastIndexByte(url, '/')+1:], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCrashes stops crawls at random operations, by kill and by power cut, and resumes them.
func TestCrashes(t *testing.T) {
	eachFormat(t, testCrashes)
	t.Run("changing", func(t *testing.T) {
		n := 0
		testCrashes(t, func(o *Options) {
			n++ // each start has another format than the one before
			o.Format, o.Dict = Format(n%2), nil
			if n%4 == 1 {
				o.Dict = testDict
			}
		})
	})
}

func testCrashes(t *testing.T, set func(*Options)) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", seed)
	crawls := 10
	switch {
	case *longFlag:
		crawls = 1000
	case testing.Short():
		crawls = 3
	}
	for i := range crawls {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := &crashCrawl{t: t, rng: rng, mem: memfs.New(rng.Uint64()), set: set}
		for range 6 {
			c.start()
			c.mem.CrashAfter(1 + rng.IntN(120))
			var err error
			for err == nil {
				if err = c.add(rng.IntN(60)); err == nil {
					if rng.IntN(6) == 0 {
						err = c.w.Roll()
					}
					if err == nil {
						err = c.checkpoint()
					}
				}
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("crawl %d: %v", i, err)
			}
			c.w.Close()
			if rng.IntN(2) == 0 {
				c.mem = c.mem.Kill()
			} else {
				c.mem = c.mem.Crash()
			}
			c.last = c.readManifest()
			c.start() // recovery
			c.check()
			c.w.Close()
			if t.Failed() {
				t.Fatalf("crawl %d", i)
			}
			c.mem = c.mem.Kill()
		}
	}
}

// TestRoll: after Roll and a checkpoint all files are final. Foreign files are untouched.
func TestRoll(t *testing.T) { eachFormat(t, testRoll) }

func testRoll(t *testing.T, set func(*Options)) {
	c := &crashCrawl{t: t, set: set, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	must(t, disk.WriteFileAtomic(c.mem, "/out0/warc/OTHER-1.warc.gz.open", []byte("x")))
	must(t, c.add(30))
	must(t, c.w.Roll())
	c.quiet = true
	must(t, c.checkpoint())
	c.check()
	for _, dir := range c.opt.Set.Paths {
		names, err := c.mem.List(dir + "/warc")
		must(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".open") && !strings.HasPrefix(name, "OTHER") {
				t.Errorf("%s/warc/%s is not final", dir, name)
			}
		}
	}
	c.w.Close()
	c.start()
	if _, err := c.mem.Size("/out0/warc/OTHER-1.warc.gz.open"); err != nil {
		t.Errorf("a foreign file is gone: %v", err)
	}
	if c.next != 30 || c.w.Counts().Captures != 30 {
		t.Errorf("resumed with %d captures, counted %d, want 30", c.next, c.w.Counts().Captures)
	}
}

// TestFailStop: after a full disk nothing more is accepted or saved.
func TestFailStop(t *testing.T) { eachFormat(t, testFailStop) }

func testFailStop(t *testing.T, set func(*Options)) {
	c := &crashCrawl{t: t, set: set, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	c.mem.SetCapacity(20_000)
	var err error
	for err == nil {
		err = c.add(1)
	}
	c.mem.SetCapacity(1 << 30)
	if again := c.add(1); again == nil {
		t.Error("append after a failed write: no error")
	}
	frozen := c.w.Freeze()
	tails, err := disk.CreateTails(c.opt.State, 1)
	must(t, err)
	if _, err := frozen.Save(tails); err == nil {
		t.Error("save after a failed write: no error")
	}
}

// TestConcurrent appends from several goroutines, with checkpoints between. Every capture is there once.
func TestConcurrent(t *testing.T) { eachFormat(t, testConcurrent) }

func testConcurrent(t *testing.T, set func(*Options)) {
	c := &crashCrawl{t: t, set: set, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1), quiet: true}
	c.start()
	c.w.opt.Random = nil  // counting is not safe for concurrent use
	var lock sync.RWMutex // the crawl's: appends share it, Freeze holds it alone
	var wg sync.WaitGroup
	const workers, each = 4, 100
	for g := range workers {
		wg.Go(func() {
			enc := c.w.NewEncoder()
			var p Prepared
			for i := range each {
				if err := enc.Prepare(&p, capture(g*each+i)); err != nil {
					t.Error(err)
				}
				lock.RLock()
				if _, err := c.w.Append(&p, when); err != nil {
					t.Error(err)
				}
				lock.RUnlock()
			}
		})
	}
	for gen := range uint64(5) {
		lock.Lock()
		frozen := c.w.Freeze()
		lock.Unlock()
		tails, err := disk.CreateTails(c.opt.State, gen+1)
		must(t, err)
		if _, err := frozen.Save(tails); err != nil {
			t.Fatal(err)
		}
		must(t, tails.Close())
		must(t, frozen.Commit())
	}
	wg.Wait()
	c.last.Gen, c.next = 10, workers*each
	must(t, c.checkpoint())
	c.check()
}
