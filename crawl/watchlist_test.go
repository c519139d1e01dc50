package crawl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// watchWorld is a host whose first page links to many pages, and a second host whose pages are only on the watch list.
func watchWorld() *tinyWeb {
	return &tinyWeb{Serve: func(host, path string) answer {
		switch {
		case path == "/robots.txt" && host == "shut.test":
			return answer{200, "", "User-agent: *\nDisallow: /"}
		case path == "/robots.txt":
			return noRobots
		case path == "/":
			page := "<html>"
			for n := range 200 {
				page += fmt.Sprintf("<a href=/p%d>p</a>", n)
			}
			return answer{200, "", page}
		}
		return answer{200, "", "<html>" + host + path}
	}}
}

// watchOptions are those of a crawl with a list, of lines of a path on w.test and the time until its deadline.
func watchOptions(t *testing.T, w *tinyWeb, fs disk.FS, list string) Options {
	t.Helper()
	opt := tinyOptions(t, w, fs, "http://w.test/")
	opt.Disk.CheckpointEvery = 10 * time.Second
	small(&opt)
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
	if _, err := fs.Size("list"); err != nil {
		must(t, disk.WriteFileAtomic(fs, "list", []byte(list)))
	}
	opt.Order.Watch = "list"
	return opt
}

func watchLine(url string, deadline time.Duration) string {
	return url + " " + time.Now().Add(deadline).UTC().Format(time.RFC3339) + "\n"
}

// watchCounts returns the numbers of URLs watched, fetched in time, and missed.
func watchCounts(s *Snapshot) [3]int64 {
	return [3]int64{s.Count(state.CountWatched), s.Count(state.CountWatchMet), s.Count(state.CountWatchMissed)}
}

// TestWatch: watched URLs come before all others, in the order of the list; those that politeness makes late, that
// robots.txt forbids and that the scope drops are missed; a fetched URL is fetched again.
func TestWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := watchWorld(), memfs.New(*seedFlag)
		list := ""
		for n := range 30 { // the host takes one a second
			list += watchLine(fmt.Sprintf("http://w.test/p%d", 199-n), time.Duration(15+n/15*1000)*time.Second)
		}
		list += watchLine("http://shut.test/x", time.Hour) + watchLine("http://w.test:9/port", time.Hour) +
			"http://w.test/never\n"
		opt := watchOptions(t, w, fs, list)
		res := mustRun(t, t.Context(), opt)
		var order []string
		for _, r := range w.Pages("w.test") {
			order = append(order, r.Path)
		}
		want := []string{"/p199", "/p198", "/p197", "/p196", "/p195"}
		from := slices.Index(order, "/p199")
		if from < 0 || from > 3 || !slices.Equal(order[from:from+5], want) || slices.Index(order, "/never") > 36 {
			t.Errorf("asked for %v", order)
		}
		fetched := map[string]int{}
		for _, path := range order {
			fetched[path]++
		}
		for path, n := range fetched {
			if n != 1 {
				t.Errorf("%s was fetched %d times", path, n)
			}
		}
		if len(fetched) != 202 {
			t.Errorf("%d URLs were fetched, want 202", len(fetched))
		}
		// By the server's log: how many of those with the first deadline came in time.
		began, met := time.Time{}, int64(0)
		for _, line := range strings.Split(list, "\n")[:30] {
			url, text, _ := strings.Cut(line, " ")
			deadline, err := time.Parse(time.RFC3339, text)
			must(t, err)
			for _, r := range w.Got("w.test", strings.TrimPrefix(url, "http://w.test")) {
				if began = r.At; !began.Truncate(time.Second).After(deadline) {
					met++
				}
			}
		}
		if got := watchCounts(&res.Snapshot); got != [3]int64{33, met + 1, 33 - met - 1} || met < 20 || met > 29 {
			t.Errorf("%d watched, in time, missed; by the server's log %d of 30 were in time", got, met)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)

		// The same list asks for nothing, and another one for its URLs.
		before := len(w.Pages(""))
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) || len(w.Pages("")) != before {
			t.Errorf("the same list again: %v, %d requests", err, len(w.Pages(""))-before)
		}
		must(t, disk.WriteFileAtomic(fs, "list", []byte(watchLine("http://w.test/p7", time.Minute))))
		res = mustRun(t, t.Context(), opt)
		if got := watchCounts(&res.Snapshot); got[0] != 34 || got[1] != met+2 || len(w.Got("w.test", "/p7")) != 2 {
			t.Errorf("another list: %d watched, in time, missed", got)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

// TestWatchKilled: over kills and power cuts each watched URL is counted once, and fetched.
func TestWatchKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 5))
	for round := range 4 {
		inBubble(t, func(t *testing.T) {
			w, fs := watchWorld(), memfs.New(*seedFlag)
			list := ""
			const lines = 600 // several lots
			for n := range lines {
				list += watchLine(fmt.Sprintf("http://w%d.test/x%d", n%40, n), time.Duration(10+n)*time.Hour)
			}
			must(t, disk.WriteFileAtomic(fs, "list", []byte(list)))
			res, fs := runCrashing(t, fs, rng, 3*round,
				func(fs *memfs.FS) Options { return watchOptions(t, w, fs, "") })
			if got := watchCounts(&res.Snapshot); got != [3]int64{lines, lines, 0} {
				t.Errorf("round %d: %d watched, in time, missed", round, got)
			}
			asked := map[string]bool{}
			for _, r := range w.Pages("w") {
				asked[r.Path] = true
			}
			for n := range lines {
				if !asked[fmt.Sprintf("/x%d", n)] {
					t.Errorf("/x%d was not fetched", n)
				}
			}
			checkBalanced(t, fs, watchOptions(t, w, fs, "").Disk.Dirs)
		})
	}
}
