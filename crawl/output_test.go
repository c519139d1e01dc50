package crawl

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// outputNames returns the output files of directories.
func outputNames(fs disk.FS, dirs []string) (all []string) {
	for _, dir := range dirs {
		for _, sub := range []string{"/warc/", "/log/"} {
			names, _ := fs.List(dir + sub)
			for _, name := range names {
				all = append(all, dir+sub+name)
			}
		}
	}
	return all
}

// outputFiles returns the content of each output file.
func outputFiles(t *testing.T, fs disk.FS, dirs []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range outputNames(fs, dirs) {
		all[name] = string(contentOf(t, fs, name))
	}
	return all
}

// checkFinished checks that every output file has its final name and every index is sorted.
func checkFinished(t *testing.T, files map[string]string) {
	t.Helper()
	for name, data := range files {
		if strings.HasSuffix(name, ".open") || len(data) == 0 {
			t.Errorf("%s: %d bytes, not a final name or empty after an orderly stop", name, len(data))
		}
		if lines := strings.SplitAfter(data, "\n"); strings.HasSuffix(name, ".cdxj") &&
			(!slices.IsSorted(lines[:len(lines)-1]) || lines[len(lines)-1] != "") {
			t.Errorf("%s: not sorted, or truncated", name)
		}
	}
}

// TestStopsLeaveFinishedFiles: after each kind of orderly stop all output must be in files with final
// names, and the next run must not change them.
func TestStopsLeaveFinishedFiles(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		before := map[string]string{}
		for i, way := range []struct {
			stop  string
			limit func(o *Options) time.Duration
		}{
			{StopCancelled, func(*Options) time.Duration { return 1500 * time.Millisecond }},
			{StopTime, func(o *Options) time.Duration { o.Limits.MaxTime = 3 * time.Second; return time.Hour }},
			{StopPages, func(o *Options) time.Duration { o.Limits.MaxPages = 100; return time.Hour }},
			{StopCancelled, func(*Options) time.Duration { return 0 }}, // fetches nothing, so opens no file
			{StopDone, func(*Options) time.Duration { return time.Hour }},
		} {
			opt := opt
			ctx, cancel := context.WithTimeout(t.Context(), way.limit(&opt))
			res, err := Run(ctx, opt)
			cancel()
			if err != nil || res.Stop != way.stop {
				t.Fatalf("run %d: %v, %v, want %q", i, res, err, way.stop)
			}
			files := outputFiles(t, fs, opt.Disk.Dirs)
			checkFinished(t, files)
			stored := 0
			for _, n := range checkWARCs(t, fs, opt.Disk.Dirs) {
				stored += n
			}
			if want := int(res.Snapshot.Count(state.CountResponses)); stored != want {
				t.Errorf("run %d: finished files have %d responses, the crawl fetched %d", i, stored, want)
			}
			if i == 3 && len(files) != len(before) {
				t.Errorf("%d files of output, %d before a run that fetched nothing", len(files), len(before))
			}
			for name, data := range before {
				if files[name] != data {
					t.Errorf("run %d changed %s", i, name)
				}
			}
			before = files
			checkBalanced(t, fs, opt.Disk.Dirs)
		}
		checkFetched(t, web, &opt)
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("the crawl has not ended: %v", err)
		}
	})
}

// TestOutputRollsByAge: with RollEvery, files must get their final names while the crawl runs, also while
// it is idle, and must not change afterwards. The crawl, its audit and a resumed crawl must not need them
// when they are moved away.
func TestOutputRollsByAge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Disk.CheckpointEvery, opt.Output.RollEvery = time.Second, 2*time.Second
		opt.Limits.Linger = time.Minute // idle time of the crawl
		must(t, fs.MkdirAll("away/warc"))
		moved := 0
		carry := func() (open int) { // leave the logs: the audit needs their keys of ended URLs
			for _, name := range outputNames(fs, opt.Disk.Dirs) {
				if !strings.HasSuffix(name, ".warc.gz") && !strings.HasSuffix(name, ".cdxj") {
					if !strings.HasSuffix(name, ".zst") {
						open++
					}
					continue
				}
				if err := fs.Rename(name, "away/warc/"+path.Base(name)); err != nil {
					t.Error(err)
				}
				moved++
			}
			return open
		}
		idle := false
		opt.Observe.SnapshotEvery = 500 * time.Millisecond
		opt.Observe.Snapshot = func(s *Snapshot) {
			// Before the crawl ends.
			if open := carry(); s.Elapsed > 50*time.Second && s.Elapsed < 55*time.Second {
				idle = true
				if open > 0 {
					t.Errorf("after %v, long after the last response, %d files are still open", s.Elapsed, open)
				}
			}
		}
		runFor(t, 5*time.Second, opt)
		if moved < 8 {
			t.Errorf("%d files were finished within 5 s", moved)
		}
		carry()
		for range 2 { // resume without the files
			if rep := deep(t, fs, &opt); !rep.Balanced() || !rep.Output.StoredAll || rep.Output.WARC.AbsentFiles == 0 {
				t.Errorf("%q, %v, %+v", rep.Bad, rep.Damages, rep.Output)
			}
			if _, err := Run(t.Context(), opt); err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatal(err)
			}
		}
		if !idle {
			t.Error("the crawl was never idle")
		}
		carry()
		checkFetched(t, web, &opt)
		stored, want := checkWARCs(t, fs, []string{"away"}), web.Log().Snapshot().Fetches
		for url, n := range want {
			if !isRobots(url) && stored[url] != n {
				t.Errorf("%s: fetched %d times, %d records in the files moved away", url, n, stored[url])
			}
		}
	})
}

// TestWarcinfo: each WARC file must name the machine, program and operator that made it, and the rules that
// it obeyed.
func TestWarcinfo(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			fs := memfs.New(*seedFlag)
			opt := simOptions(t, smallWeb(t, nil), fs)
			opt.Limits.MaxPages, opt.Identity.Host, opt.Identity.Version, opt.Identity.UserAgent,
				opt.Links.IgnoreNofollow = 5, "crawler-7.example", "1.2", "drumbeat/1.2 (x)", ignore
			mustRun(t, t.Context(), opt)
			files, err := warc.Files(disk.Set{FS: fs, Paths: opt.Disk.Dirs})
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			robots := "RFC 9309, Crawl-delay and nofollow obeyed"
			if ignore {
				robots = "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
			}
			for _, name := range files {
				if !strings.HasSuffix(name, "-crawler-7.example.warc.gz") {
					t.Errorf("%s: the file name lacks the host", name)
				}
				first := true
				if err := warc.ReadFile(fs, name, 1<<20, func(r *warc.Record) error {
					if !first {
						return nil
					}
					first = false
					for _, line := range []string{
						"format: WARC File Format 1.1",
						"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
						"hostname: crawler-7.example", "software: drumbeat/1.2", "operator: test@example.org",
						"robots: " + robots, "http-header-user-agent: drumbeat/1.2 (x)"} {
						if !strings.Contains(string(r.Block), line+"\r\n") {
							t.Errorf("%s: missing %q in %q", name, line, r.Block)
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// archiveWitness counts the exchanges for robots.txt that got a response, and the DNS answers.
type archiveWitness struct {
	Fetcher
	outage.Resolver
	mu                sync.Mutex     // guards all below
	asked, cut, names map[string]int // cut: ended after the crawl was told to stop
}

func (w *archiveWitness) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	err := w.Fetcher.Do(ctx, req, resp)
	url, bad := weburl.Canonical(req.Scheme + "://" +
		net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))) + req.PathQuery)
	if bad != nil {
		return bad
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if isRobots(url) && err == nil {
		if w.asked[url]++; ctx.Err() != nil {
			w.cut[url]++
		}
	}
	return err
}

func (w *archiveWitness) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	answer, err := w.Resolver.LookupHost(ctx, host, pld)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && len(answer.Addrs) > 0 {
		w.names[host]++
	}
	return answer, err
}

// TestArchive: across stops and resumes, the WARC files must have each robots.txt exchange that got a
// response, including redirects, and each DNS answer once. The accounts must have their number.
func TestArchive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, func(o *simweb.Options) {
			o.Robots.RedirectPath, o.Robots.RedirectHost = 0.2, 0.1
		})
		opt.Output.ArchiveRobots, opt.Output.ArchiveDNS = true, true
		wit := &archiveWitness{Fetcher: opt.Network.Fetcher, Resolver: opt.Network.Resolver, asked: map[string]int{},
			cut: map[string]int{}, names: map[string]int{}}
		opt.Network.Fetcher, opt.Network.Resolver = wit, wit
		for _, span := range []time.Duration{time.Second, 3 * time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), span)
			_, err := Run(ctx, opt)
			cancel()
			must(t, err)
			rep := deep(t, fs, &opt)
			if o := &rep.Output; !rep.Balanced() || o.Robots == 0 || o.Robots != o.RobotsStored || o.DNS == 0 ||
				o.DNS != o.DNSStored {
				t.Fatalf("%v: %q, %v, %+v", span, rep.Bad, rep.Damages, o)
			}
		}
		checkFetched(t, web, &opt)
		stored := checkWARCs(t, fs, opt.Disk.Dirs)
		redirects := 0
		for url, n := range wit.asked {
			if stored[url] < n-wit.cut[url] || stored[url] > n {
				t.Errorf("%s: %d records of %d exchanges, %d of them cut off", url, stored[url], n, wit.cut[url])
			}
			if !strings.HasSuffix(url, "/robots.txt") {
				redirects++
			}
		}
		for name, n := range wit.names {
			if stored["dns:"+name] != n {
				t.Errorf("%d records of %d answers for %s", stored["dns:"+name], n, name)
			}
		}
		if redirects == 0 {
			t.Error("no robots.txt was redirected")
		}
	})
}
