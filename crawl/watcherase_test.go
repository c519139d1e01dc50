package crawl

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/erase"
	"drumbeat/state/export"
)

// watchCopy is the file where an erasure looks for the watch list.
const watchCopy = "d0/watch.txt"

// eraseWatched erases some URLs of w.test and all of x.test.
func eraseWatched(fs disk.FS, urls ...string) error {
	_, err := erase.Run(erase.Options{FS: fs, Dirs: []string{"d0", "d1"}, Reason: "a test",
		Source: erase.Source{Hosts: []string{"x.test"}, URLs: urls}})
	return err
}

// watchList80 is a list of 80 URLs of two hosts.
func watchList80() (list string) {
	for n := range 40 {
		list += watchLine(fmt.Sprintf("http://w.test/q%d", n), time.Duration(n+1)*24*time.Hour) +
			watchLine(fmt.Sprintf("http://x.test/q%d", n), time.Duration(n+1)*24*time.Hour)
	}
	return list
}

// asked returns the pages that were asked for after the first n.
func askedAfter(w *tinyWeb, n int) (urls []string) {
	for _, r := range w.Pages("")[n:] {
		urls = append(urls, r.Host+r.Path)
	}
	return urls
}

// watched80 crawls a world, and then the 80 URLs of a list.
func watched80(t *testing.T) (w *tinyWeb, fs *memfs.FS, opt Options, list string) {
	w, fs = watchWorld(), memfs.New(*seedFlag)
	opt = watchOptions(t, w, fs, "")
	opt.Order.Watch = ""
	mustRun(t, t.Context(), opt)
	opt.Order.Watch = watchCopy
	list = watchList80()
	must(t, disk.WriteFileAtomic(fs, watchCopy, []byte(list)))
	mustRun(t, t.Context(), opt)
	return w, fs, opt, list
}

// TestWatchErased: after an erasure the same list asks for nothing, whether its lines are blanked or it was written
// again as it was. Another list asks for what was not erased; the crawl log has the others.
func TestWatchErased(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs, opt, list := watched80(t)
		must(t, eraseWatched(fs, "http://w.test/q3", "http://w.test/q39"))
		blanked, err := disk.ReadFile(fs, watchCopy)
		must(t, err)
		if len(blanked) != len(list) || strings.Contains(string(blanked), "x.test") ||
			strings.Contains(string(blanked), "/q3 ") || !strings.Contains(string(blanked), "http://w.test/q4 ") {
			t.Errorf("after the erasure the list is %.300q", blanked)
		}
		for _, text := range []string{string(blanked), list} {
			must(t, disk.WriteFileAtomic(fs, watchCopy, []byte(text)))
			before := len(w.Pages(""))
			if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) || len(w.Pages("")) != before {
				t.Errorf("the same list again: %v, asked for %q", err, askedAfter(w, before))
			}
		}
		before := len(w.Pages(""))
		must(t, disk.WriteFileAtomic(fs, watchCopy, []byte("http://w.test/q3\nhttp://w.test/new\nhttp://x.test/q0\n")))
		res := mustRun(t, t.Context(), opt)
		if got := askedAfter(w, before); len(got) != 1 || got[0] != "w.test/new" {
			t.Errorf("another list asked for %q", got)
		}
		if got := watchCounts(&res.Snapshot); got != [3]int64{83, 81, 2} {
			t.Errorf("%d watched, in time, missed", got)
		}
		if why := ordersLogged(t, &opt); len(why) > 0 {
			t.Errorf("the log names erased URLs: %q", why)
		}
		checkReasons(t, &opt, map[string]string{"http://w.test/q3": "erased", "http://x.test/q0": "erased",
			"http://w.test/q4": "", "http://w.test/unknown": ""})
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// TestWatchEraseKilled: an erasure is killed or loses its power anywhere; the list is written again as it was, and the
// crawl starts. It asks for no URL of the list again.
func TestWatchEraseKilled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, first, opt, list := watched80(t)
		before, ops := len(w.Pages("")), 0
		rng := rand.New(rand.NewPCG(*seedFlag, 8))
		erased := func(fs *memfs.FS, cut int) bool {
			fs.CrashAfter(cut)
			err := eraseWatched(fs, "http://w.test/q3")
			if err != nil && !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			return err == nil
		}
		whole := first.Fork(1)
		was := whole.Ops()
		must(t, eraseWatched(whole, "http://w.test/q3"))
		ops = whole.Ops() - was
		for range 12 {
			fs := first.Fork(rng.Uint64())
			if !erased(fs, 1+rng.IntN(ops)) {
				if rng.IntN(2) == 0 {
					fs = fs.Crash()
				} else {
					fs = fs.Kill()
				}
			}
			fs.CrashAfter(0)
			must(t, disk.WriteFileAtomic(fs, watchCopy, []byte(list)))
			opt.Disk.FS = fs
			for range 2 {
				if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) || len(w.Pages("")) != before {
					t.Fatalf("the same list again: %v, asked for %q", err, askedAfter(w, before))
				}
			}
			checkBalanced(t, fs, opt.Disk.Dirs)
		}
	})
}

// TestWatchLog: the crawl log has the URLs of the list that are not taken, and why; and those whose order is refused
// although they were fetched before. They do not count as ends of URLs.
func TestWatchLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := watchWorld(), memfs.New(*seedFlag)
		serve, shut := w.Serve, false
		w.Serve = func(host, path string) answer {
			if shut && path == "/robots.txt" {
				return answer{200, "", "User-agent: *\nDisallow: /"}
			}
			return serve(host, path)
		}
		long := "http://w.test/" + strings.Repeat("x", 3000)
		list := "http://w.test/q1\nhttp://other.test/\nhttp://w.test:9/port\n" + long + "\nftp://x.test/\n"
		opt := watchOptions(t, w, fs, list)
		opt.Admission.Scope = state.ScopeHost
		res := mustRun(t, t.Context(), opt)
		if got := watchCounts(&res.Snapshot); got != [3]int64{5, 1, 4} {
			t.Errorf("%d watched, in time, missed", got)
		}
		shut = true
		time.Sleep(25 * time.Hour) // longer than the robots.txt is kept
		must(t, disk.WriteFileAtomic(fs, "list", []byte("http://w.test/q1\n")))
		mustRun(t, t.Context(), opt)
		why := ordersLogged(t, &opt)
		want := map[string]string{"http://w.test/q1": "robots", "http://other.test/": "out-of-scope",
			"http://w.test:9/port": "forbidden-address", long: "too-long", "ftp://x.test/": "bad-url"}
		if !maps.Equal(why, want) {
			t.Errorf("the log has %.600q", why)
		}
		checkReasons(t, &opt, map[string]string{"http://w.test/q1": "", "http://other.test/": "out-of-scope",
			long: "too-long"})
		checkBalanced(t, fs, opt.Disk.Dirs)
		checkDeep(t, &opt)
	})
}

// ordersLogged returns the reasons of the orders that the crawl log has, by URL.
func ordersLogged(t *testing.T, opt *Options) map[string]string {
	t.Helper()
	why := map[string]string{}
	checkLogged(t, opt, func(e *crawllog.Entry) {
		if e.Order {
			why[e.URL] = e.Reason
		}
	})
	return why
}

// checkReasons compares the reasons that a list of URLs gets with the ones that are wanted.
func checkReasons(t *testing.T, opt *Options, want map[string]string) {
	t.Helper()
	list := func(fn func(url string, deadline time.Time) error) (err error) {
		for url := range want {
			err = errors.Join(err, fn(url, time.Time{}))
		}
		return err
	}
	o := export.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, TempDir: "coverage-tmp"}
	if _, err := export.Coverage(t.Context(), o, list, func(u *export.Covered) error {
		if u.Reason != want[u.URL] {
			t.Errorf("%.80s has the reason %q, want %q", u.URL, u.Reason, want[u.URL])
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestWatchEraseWaiting: URLs of the list that wait when they are erased are missed. The others are fetched.
func TestWatchEraseWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := watchWorld(), memfs.New(*seedFlag)
		must(t, fs.MkdirAll("d0"))
		opt := watchOptions(t, w, fs, "")
		must(t, disk.WriteFileAtomic(fs, "list", []byte(watchList80())))
		opt.Limits.MaxPages = 20
		mustRun(t, t.Context(), opt)
		must(t, eraseWatched(fs, "http://w.test/q39"))
		opt.Limits.MaxPages = 0
		res := mustRun(t, t.Context(), opt)
		got := watchCounts(&res.Snapshot)
		if fetched := int64(len(w.Pages("x.test"))); got != [3]int64{80, 39 + fetched, 41 - fetched} || fetched > 20 {
			t.Errorf("%d watched, in time, missed; %d fetched before the erasure", got, fetched)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// TestWatchEraseRunning: a running crawl rests for an erasure, and then continues its list where it was.
func TestWatchEraseRunning(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := watchWorld(), memfs.New(*seedFlag)
		opt := watchOptions(t, w, fs, "")
		opt.Order.Watch, opt.Limits.MaxPages = "", 5
		mustRun(t, t.Context(), opt)
		opt.Order.Watch, opt.Limits.MaxPages = watchCopy, 0
		must(t, disk.WriteFileAtomic(fs, watchCopy, []byte(watchList80())))
		control, ended := new(Control), make(chan *Result)
		opt.Observe.Control = control
		go func() { ended <- mustRun(t, t.Context(), opt) }()
		for len(w.Pages("x.test")) < 10 {
			time.Sleep(time.Second)
		}
		time.Sleep(opt.Politeness.HostDelay / 2) // no request to the host is under way
		_, err := control.Erase(t.Context(), &erase.Ask{Who: "eve", Reason: "a test",
			Source: erase.Source{Hosts: []string{"x.test"}, URLs: []string{"http://w.test/q2", "http://w.test/q39"}}})
		must(t, err)
		before := len(w.Pages("x.test"))
		res := <-ended
		if got := watchCounts(&res.Snapshot); got[0] != 80 || got[1]+got[2] != 80 || got[1] < 39+10 {
			t.Errorf("%d watched, in time, missed", got)
		}
		if n := len(w.Pages("x.test")); n != before || len(w.Got("w.test", "/q39")) > 0 {
			t.Errorf("the erased host had %d requests at the answer, %d at the end", before, n)
		}
		for n := range 39 {
			if got := len(w.Got("w.test", fmt.Sprintf("/q%d", n))); got != 1 {
				t.Errorf("/q%d was fetched %d times", n, got)
			}
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}
