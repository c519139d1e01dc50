package condition_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// soon is the time until a fault must show.
const soon = 15 * time.Second

// world is a crawl with a fault that begins at faultAt.
type world struct {
	web  *testworld.Web
	fs   *memfs.FS
	opt  crawl.Options
	down atomic.Bool // the fault is there
	cut  atomic.Bool // no connection succeeds while down
	hang atomic.Bool // no connection answers while down
}

const (
	faultAt = 30 * time.Second
	lasts   = 3 * time.Minute
)

// newWorld has one host whose pages are found at a page a second.
func newWorld(t *testing.T) *world {
	w := &world{fs: memfs.New(1), web: &testworld.Web{}}
	w.web.Serve = func(_, path string) testworld.Answer {
		switch {
		case path == "/robots.txt":
			return testworld.NoRobots
		case path == "/":
			var page strings.Builder
			for i := range 400 {
				page.WriteString("<a href=/r" + string(rune('a'+i%20)) + string(rune('a'+i/20)) + ">x</a>")
			}
			return testworld.Answer{200, "", page.String()}
		}
		return testworld.Answer{200, "", "<p>x"}
	}
	w.opt = crawltest.WebOptions(t, w.web, w.fs, "http://a.test/")
	w.web.Connect = w.connect
	w.opt.Politeness.HostDelay, w.opt.Politeness.HostDelayMin = time.Second, time.Second
	return w
}

// connect has the fault of a connection.
func (w *world) connect() (net.Conn, error) {
	switch {
	case !w.down.Load():
	case w.cut.Load():
		return nil, syscall.ECONNREFUSED
	case w.hang.Load():
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
	return nil, nil
}

// seen is a condition at a time after the start.
type seen struct {
	at time.Duration
	condition.Condition
}

// run runs the crawl for lasts and returns the condition of each second. fault begins the fault.
func (w *world) run(t *testing.T, fault func()) (list []seen) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.opt.Observe.SnapshotEvery = time.Second
	w.opt.Observe.Snapshot = func(s *crawl.Snapshot) {
		s.RAM = snapshot.Space{} // of the tests' process
		v := condition.Of(s)
		list = append(list, seen{s.Elapsed, v})
		silent := s.Elapsed
		if !s.Answered.IsZero() {
			silent = s.Time.Sub(s.Answered)
		}
		if silent > soon && v.State == condition.Working && !s.Stopping {
			t.Errorf("at %v: working, without a response for %v", s.Elapsed, silent)
		}
		says := !v.Since.IsZero() && strings.Contains(v.Text, "No response for")
		if silent > soon && v.Level == condition.OK && !s.Stopping && !says {
			t.Errorf("at %v: ok without a response for %v, and the text does not say so: %q", s.Elapsed, silent, v.Text)
		}
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(faultAt):
		}
		w.down.Store(true)
		if fault != nil {
			fault()
		}
		select {
		case <-ctx.Done():
		case <-time.After(lasts - faultAt):
			cancel()
		}
	}()
	if _, err := crawl.Run(ctx, w.opt); err != nil {
		t.Fatal(err)
	}
	return list
}

// fault is a fault of a world and the condition that shows it.
type fault struct {
	name string
	// build prepares a world. It returns what begins the fault, nil for nothing but down.
	build func(*testing.T, *world) (begin func())
	from  time.Duration   // when it begins
	state condition.State // Slow admits Standing
	level condition.Level // at the end
	what  string          // of the worst problem
	text  string          // part of the last text
}

var faults = []fault{
	{"works", nil, 0, condition.Working, condition.OK, "", "The crawl works: "},
	{"the only host refuses", func(_ *testing.T, w *world) func() { w.cut.Store(true); return nil }, faultAt,
		condition.Standing, condition.Bad, "sites", "a.test"},
	{"the only host hangs", func(_ *testing.T, w *world) func() { w.hang.Store(true); return nil }, faultAt,
		condition.Slow, condition.Bad, "sites", "No response"},
	{"the only host is overloaded", func(_ *testing.T, w *world) func() {
		serve := w.web.Serve
		w.web.Serve = func(host, path string) testworld.Answer {
			if w.down.Load() {
				return testworld.Answer{503, "", ""}
			}
			return serve(host, path)
		}
		return nil
	}, faultAt, condition.Slow, condition.Bad, "sites", "a.test"},
	{"robots.txt fails from the start", func(_ *testing.T, w *world) func() {
		w.web.Serve = func(string, string) testworld.Answer { return testworld.Answer{500, "", ""} }
		return nil
	}, 0, condition.Standing, condition.Bad, "sites", "robots"},
	{"no name has an address", func(_ *testing.T, w *world) func() {
		w.web.Lookup = func(string) (string, error) { return "", errors.New("no answer") }
		return nil
	}, 0, condition.Standing, condition.Bad, "", ""},
	{"the disk is full", func(_ *testing.T, w *world) func() {
		return func() { w.fs.SetCapacity(1) }
	}, faultAt, condition.Standing, condition.Bad, "disk", ""},
	{"no browser", func(t *testing.T, w *world) func() {
		crawltest.WithoutBrowser(t, &w.opt)
		return nil
	}, 3 * time.Second, condition.Slow, condition.Warn, "browser", "connection refused"},
	{"a delay of ten minutes", func(_ *testing.T, w *world) func() {
		w.opt.Politeness.HostDelay, w.opt.Politeness.HostDelayMin = 10*time.Minute, 10*time.Minute
		return nil
	}, 0, condition.Waiting, condition.OK, "", "--host-delay; the next request is due in"},
}

// TestWorlds: each fault shows in the state within 15 s, and stays. A wait that the operator chose is no fault.
func TestWorlds(t *testing.T) {
	t.Parallel()
	for i := range faults {
		t.Run(faults[i].name, func(t *testing.T) { testworld.InBubble(t, faults[i].check) })
	}
}

// check runs the world of a fault.
func (f *fault) check(t *testing.T) {
	w := newWorld(t)
	var begin func()
	if f.build != nil {
		begin = f.build(t, w)
	}
	list := w.run(t, begin)
	first := time.Duration(-1)
	for i := range list {
		v := &list[i]
		if testing.Verbose() {
			t.Logf("%v: %s %s %q", v.at, v.State, v.Level, v.Text)
		}
		switch {
		case v.at < f.from:
		case v.State == f.state || f.state == condition.Slow && v.State == condition.Standing:
			if first < 0 {
				first = v.at
			}
		case first >= 0 && v.at < lasts:
			t.Errorf("%v after the fault it is %s: %s", v.at-f.from, v.State, v.Text)
		}
	}
	if first < 0 || first-f.from > soon {
		t.Errorf("%s shows %v after the fault, want %v", f.state, first-f.from, soon)
	}
	last := list[len(list)-2] // the last one may be of the end
	if last.Level != f.level || !strings.Contains(last.Text, f.text) ||
		f.what != "" && (len(last.Problems) == 0 || last.Problems[0].What != f.what) {
		t.Errorf("at last: %+v", last.Condition)
	}
}

// noNames answers that no name exists.
type noNames struct{}

func (noNames) LookupHost(_ context.Context, host, _ string) (crawl.Lookup, error) {
	return crawl.Lookup{}, &crawl.LookupError{Host: host, NotFound: true, Err: errors.New("no such name")}
}

// TestDoubtedNames: a crawl with nothing but a name that does not exist doubts its name servers for a while. It says so
// within 15 s, also if it is resumed meanwhile.
func TestDoubtedNames(t *testing.T) {
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.opt.Network.Resolver = noNames{}
		w.opt.Politeness.HostDelay = 40 * time.Second // names are looked up again no sooner
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if _, err := crawl.Run(ctx, w.opt); err != nil {
			t.Fatal(err)
		}
		said := 0
		for _, v := range w.run(t, nil) {
			if testing.Verbose() {
				t.Logf("%v: %s %s %q", v.at, v.State, v.Level, v.Text)
			}
			if v.State == condition.Standing && strings.Contains(v.Text, "each is repeated") {
				said++
			} else if v.at > soon && said == 0 {
				t.Errorf("at %v: %s: %s", v.at, v.State, v.Text)
			}
		}
		if said < 2 {
			t.Errorf("%d conditions say that lookups fail and are repeated, want more", said)
		}
	})
}

// TestSpaceBeforeARun: a crawl that waits for disk space before it runs again can be read by Control, not changed, and
// works again when there is room.
func TestSpaceBeforeARun(t *testing.T) {
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		w := newWorld(t)
		control := new(crawl.Control)
		w.opt.Observe.Control = control
		look := func(at string) condition.Condition {
			t.Helper()
			s, err := control.Snapshot()
			if err != nil {
				t.Errorf("%s: %v", at, err)
				return condition.Condition{}
			}
			return condition.Of(s)
		}
		go func() {
			time.Sleep(faultAt)
			w.fs.SetCapacity(1)
			time.Sleep(time.Minute)
			if c := look("full"); c.State != condition.Standing || c.Problems[0].What != "disk" {
				t.Errorf("full: %+v", c)
			}
			if _, err := control.Structures(); err == nil {
				t.Error("the structures of a crawl that does not run are read")
			}
			w.fs.SetCapacity(1 << 40)
			time.Sleep(time.Minute)
			if c := look("with room"); c.State != condition.Working {
				t.Errorf("with room: %+v", c)
			}
			if _, err := control.Structures(); err != nil {
				t.Errorf("with room: %v", err)
			}
		}()
		if _, err := crawl.Run(t.Context(), w.opt); err != nil {
			t.Fatal(err)
		}
	})
}
