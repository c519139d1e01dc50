package erase_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/state/repair"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// world is a stopped crawl.
type world struct {
	fs  *memfs.FS
	opt crawl.Options
	web *simweb.Web // nil for mirrors
	// also are outputs outside of the crawl (addOutputs).
	also []string
}

// on returns the crawl on another file system.
func (w *world) on(fs *memfs.FS) *world { return &world{fs, w.opt, w.web, w.also} }

// stopped crawls a part of a small web: URLs wait in all kinds of places.
func stopped(t *testing.T) *world {
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 1500, 0.2 })
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, fs)
	opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxPages = crawl.Unlimited, 100, 250
	opt.Output.ArchiveRobots, opt.Output.ArchiveDNS, opt.Output.WARCFileBytes = true, true, 60_000
	crawltest.MustRun(t, t.Context(), opt)
	return &world{fs: fs, opt: opt, web: web}
}

// mirrored crawls hosts with the same pages: most captures are revisits.
func mirrored(t *testing.T) *world {
	w := testworld.Mirrors(5, 12)
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.WebOptions(t, w, fs, "http://m0.test/")
	opt.Output.ArchiveRobots, opt.Output.ArchiveDNS, opt.Output.WARCFileBytes = true, true, 8_000
	crawltest.MustRun(t, t.Context(), opt)
	return &world{fs: fs, opt: opt}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) options(src erase.Source) erase.Options {
	return erase.Options{FS: w.fs, Dirs: w.opt.Disk.Dirs, Source: src, Also: w.also, Reason: "a test",
		RAMBytes: 64 << 20, OpenStore: w.openStore}
}

// found is what a crawl has: records of WARC files by target, lines of logs by URL, and URLs that wait, with
// all texts that name a URL beside them.
type found struct {
	records []string // type, target, payload digest
	lines   []string // log, URL, reason
	waiting []string
	named   map[string]string // a URL that a record, line or index names, and where
	bodies  map[string]bool   // payload digests of responses
	revisit map[string]string // digest of a revisit, and its target
}

func (w *world) open(t testing.TB) (*state.Saved, *state.Manifest) {
	r, m, err := audit.Open(&audit.Options{FS: w.fs, Dirs: w.opt.Disk.Dirs, Remote: audit.RemoteRead,
		OpenStore: w.openStore})
	must(t, err)
	return r, m
}

// record takes a record of a WARC file.
func (f *found) record(t testing.TB, file string, rec *warc.Record) error {
	if rec.Type() == "warcinfo" {
		if name := rec.Get("WARC-Filename"); name != file {
			t.Errorf("%s has the name %s", file, name)
		}
		return nil
	}
	target, digest := rec.Get("WARC-Target-URI"), rec.Get("WARC-Payload-Digest")
	f.named[target] = file
	f.named[rec.Get("WARC-Refers-To-Target-URI")] = file + ", a revisit record"
	kind := rec.Type()
	switch kind {
	case "metadata":
		for _, m := range warc.MetaFields(rec.Block) {
			if warc.NamesTarget(m.Name) {
				f.named[m.Value] = file + ", metadata"
			}
		}
	case "response":
		f.bodies[digest] = true
	case "revisit":
		f.revisit[digest], kind = rec.Get("WARC-Refers-To-Target-URI"), "response"
	}
	f.records = append(f.records, kind+" "+target+" "+digest)
	return nil
}

func (w *world) read(t testing.TB) *found {
	t.Helper()
	r, m := w.open(t)
	defer func() { must(t, r.Unlock()) }()
	f := &found{named: map[string]string{}, bodies: map[string]bool{}, revisit: map[string]string{}}
	record := func(file string, rec *warc.Record) error { return f.record(t, file, rec) }
	files, err := warc.Files(r.Out)
	must(t, err)
	for _, file := range files {
		must(t, warc.ReadFile(r.Out.FS, file, 1<<30, func(rec *warc.Record) error {
			return record(file[strings.LastIndexByte(file, '/')+1:], rec)
		}))
	}
	st, err := state.Part[warc.State](m, state.NameWARC)
	must(t, err)
	must(t, warc.Walk(r.WARCFiles(), st, 1<<30, record))
	must(t, warc.WalkIndexes(r.WARCFiles(), st, func(x *warc.Index) error {
		return x.Lines(func(line []byte) error {
			one, err := x.Parse(line)
			if err == nil {
				f.named[one.URL], f.named[one.Redirect] = "index "+x.Name, "index "+x.Name
			}
			return err
		})
	}))
	for name, prefix := range map[string]string{state.NameCrawlLog: "crawl", state.NameSeedLog: "seeds",
		state.NameRobotsLog: "robots"} {
		st, err := state.Part[crawllog.State](m, name)
		must(t, err)
		_, err = crawllog.Scan(crawllog.Options{Set: r.Set, Prefix: prefix}, st, func(e *crawllog.Entry) error {
			f.lines = append(f.lines, prefix+" "+e.URL+" "+e.Reason)
			for _, url := range []string{e.URL, e.Via, e.Canonical, e.Refresh, e.Redirect, e.DuplicateOf} {
				f.named[url] = "log " + prefix
			}
			return nil
		}, func(err error) error { return err })
		must(t, err)
	}
	waits := func(where string, data []byte) error {
		var rec weburl.Record
		err := rec.Decode(data)
		f.waiting = append(f.waiting, string(rec.URL))
		f.named[string(rec.URL)], f.named[string(rec.AppendVia(nil))] = where, where+", via"
		return err
	}
	// An erasure may make links of unique texts that URLseen has not passed on.
	must(t, r.ScanURLs(m, state.URLScan{Places: state.WaitingPlaces[1:], Visit: func(at state.Spot, data []byte) error {
		return waits(at.Place.String(), data)
	}}))
	_, err = drum.ScanState(r.Set, state.NameURLSeen, testworld.PartOf[drum.State](t, m, state.NameURLSeen).Waiting(),
		drum.Scan{Text: func(data []byte, _ bool) error { return waits("URLseen", data) }})
	must(t, err)
	delete(f.named, "")
	slices.Sort(f.records)
	slices.Sort(f.lines)
	slices.Sort(f.waiting)
	f.waiting = slices.Compact(f.waiting) // links of URLseen; the audit counts the others
	return f
}

// without returns what a crawl has after an erasure, by a simple model.
func (f *found) without(gone func(url string) bool) *found {
	del := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
			fields := strings.Split(s, " ")
			return gone(fields[min(1, len(fields)-1)])
		})
	}
	return &found{records: del(f.records), lines: del(f.lines), waiting: del(f.waiting)}
}

// check compares a crawl with the model, and searches all files for the targets.
func (w *world) check(t *testing.T, before *found, gone func(url string) bool, texts ...string) {
	t.Helper()
	want, got := before.without(gone), w.read(t)
	// Metadata records may have lost lines and so have no digest in common; they have none here.
	for _, c := range []struct {
		what      string
		got, want []string
	}{{"records", got.records, want.records}, {"log lines", got.lines, want.lines},
		{"waiting URLs", got.waiting, want.waiting}} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%d %s, the model has %d", len(c.got), c.what, len(c.want))
		}
	}
	for url, where := range got.named {
		if gone(strings.TrimPrefix(url, "urn:rendered:")) {
			t.Errorf("%s is named by %s", url, where)
		}
	}
	for digest, of := range got.revisit {
		if before.bodies[digest] && !got.bodies[digest] && of != "urn:drumbeat:erased" {
			t.Errorf("the body %s, of revisits of %s, is gone", digest, of)
		}
	}
	rep := w.audit(t)
	if !rep.Balanced() || !rep.Output.StoredAll || !rep.Output.RefusedAll {
		t.Errorf("the audit afterwards: %q, %v; all stored %v, all refused %v", rep.Bad, rep.Damages,
			rep.Output.StoredAll, rep.Output.RefusedAll)
	}
	for _, dir := range w.opt.Disk.Dirs {
		files, err := repair.FilesIn(w.fs, dir, true)
		must(t, err)
		for _, file := range files {
			data, err := disk.ReadFile(w.fs, file)
			must(t, err)
			for _, text := range texts {
				if bytes.Contains(data, []byte(text)) && !strings.HasSuffix(file, "state/changes") &&
					!strings.Contains(file, state.ErasedDir) {
					t.Errorf("%s has the bytes of %q", file, text)
				}
			}
			if strings.Contains(file, "tmp") || strings.Contains(file, "damaged") || strings.Contains(file, "ERASE") {
				t.Errorf("%s is left", file)
			}
		}
	}
}

// hosts returns the hosts of a crawl with most captures and URLs that wait.
func (f *found) hosts() []string {
	n := map[string]int{}
	for url := range f.named {
		if host := string(weburl.Split([]byte(url)).Host); host != "" {
			n[host]++
		}
	}
	return slices.SortedFunc(maps.Keys(n), func(a, b string) int { return n[b] - n[a] })
}

// hostOf returns a function that reports URLs and DNS answers of a host.
func hostOf(host string) func(string) bool {
	return func(url string) bool {
		return url == "dns:"+host || string(weburl.Split([]byte(url)).Host) == host
	}
}

// TestHost erases hosts one after the other. The crawl balances each time, and resumes in the end: no erased URL is
// fetched again, and all others are.
func TestHost(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		var erased []string
		waiting := int64(0)
		for i := range 3 {
			before := w.read(t)
			host := before.hosts()[i*2]
			erased = append(erased, host)
			rep, err := erase.Run(w.options(erase.Source{Hosts: []string{host}}))
			must(t, err)
			c := rep.Record.Erased
			waiting += c.Waiting
			if rep.Record.Number != i+1 || c.Captures == 0 || waiting == 0 || c.LogLines == 0 || c.Files == 0 {
				t.Errorf("%s: %+v", host, rep.Record)
			}
			w.check(t, before, hostOf(host), "//"+host+"/")
		}
		of := func(url string) bool {
			return slices.ContainsFunc(erased, func(host string) bool { return hostOf(host)(url) })
		}
		fetched := w.web.Log().Snapshot().Fetches
		w.opt.Limits.MaxPages, w.opt.Limits.Linger = 0, 6*time.Hour
		res, err := crawl.Run(t.Context(), w.opt)
		must(t, err)
		if n := res.Snapshot.Refused[state.ReasonErased.String()]; n == 0 {
			t.Error("no URL counts as erased")
		}
		others := 0
		for url, n := range w.web.Log().Snapshot().Fetches {
			if of(url) && n > fetched[url] {
				t.Errorf("%s was fetched again", url)
			}
			if n > fetched[url] {
				others++
			}
		}
		if others < 100 {
			t.Errorf("the resumed crawl fetched %d URLs", others)
		}
		if rep := testworld.Deep(t, w.fs, w.opt.Disk.Dirs); !rep.Balanced() {
			t.Errorf("at the end: %q, %v", rep.Bad, rep.Damages)
		}
		for url, where := range w.read(t).named {
			if of(url) && !strings.Contains(where, "metadata") && !strings.HasPrefix(where, "log") &&
				!strings.HasPrefix(where, "index") {
				t.Errorf("at the end %s is named by %s", url, where)
			}
		}
	})
}

// TestURLs erases single URLs by a list, among them one that the crawl does not know. Later links to them are
// dropped.
func TestURLs(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		rng := rand.New(rand.NewPCG(*testworld.Seed, 5))
		gone := map[string]bool{}
		for _, line := range before.lines {
			if url := strings.Split(line, " ")[1]; strings.HasPrefix(line, "crawl ") && rng.IntN(6) == 0 {
				gone[url] = true
			}
		}
		for _, url := range before.waiting {
			if rng.IntN(20) == 0 {
				gone[url] = true
			}
		}
		unknown := 0
		for _, url := range testworld.AllURLs(w.web) {
			if before.named[url] == "" && rng.IntN(10) == 0 {
				gone[url] = true
				unknown++
			}
		}
		list := "# pages\n\n" + strings.Join(slices.Sorted(maps.Keys(gone)), "\n")
		opt := w.options(erase.Source{List: strings.NewReader(list), ListName: "list"})
		opt.Hide = true
		rep, err := erase.Run(opt)
		must(t, err)
		if c := rep.Record.Erased; c.Captures == 0 || c.Waiting == 0 || c.Fetched == 0 || c.Barred == 0 ||
			c.Changed == 0 || len(rep.Record.Targets) > 0 || rep.Record.URLs != int64(len(gone)) {
			t.Errorf("%d URLs, %d unknown: %+v", len(gone), unknown, rep.Record)
		}
		w.check(t, before, func(url string) bool { return gone[url] })
		fetched := w.web.Log().Snapshot().Fetches
		w.opt.Limits.MaxPages, w.opt.Limits.Linger = 0, 6*time.Hour
		crawltest.MustRun(t, t.Context(), w.opt)
		for url, n := range w.web.Log().Snapshot().Fetches {
			if gone[url] && n > fetched[url] {
				t.Errorf("%s was fetched again", url)
			}
		}
		if rep := testworld.Deep(t, w.fs, w.opt.Disk.Dirs); !rep.Balanced() {
			t.Errorf("at the end: %q, %v", rep.Bad, rep.Damages)
		}
	})
}

// TestBodiesMove: of mirrors, the one that was first goes. Its bodies move to the next mirror, to which the
// revisits of the others refer.
func TestBodiesMove(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		for range 3 {
			before := w.read(t)
			firsts := map[string]int{}
			for _, of := range before.revisit {
				firsts[string(weburl.Split([]byte(of)).Host)]++
			}
			host := slices.MaxFunc(slices.Collect(maps.Keys(firsts)),
				func(a, b string) int { return firsts[a] - firsts[b] })
			rep, err := erase.Run(w.options(erase.Source{Hosts: []string{host}}))
			must(t, err)
			if c := rep.Record.Erased; c.Moved == 0 || c.Bodiless > 0 {
				t.Errorf("%s: %+v", host, c)
			}
			w.check(t, before, hostOf(host), "dns:"+host, "//"+host+"/")
		}
	})
}

// TestDryRun: a dry run counts what goes, and changes no byte. The list is counted as the erasure counts it.
func TestDryRun(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		content := func() map[string]string {
			all := map[string]string{}
			for _, dir := range w.opt.Disk.Dirs {
				files, err := repair.FilesIn(w.fs, dir, true)
				must(t, err)
				for _, f := range files {
					data, err := disk.ReadFile(w.fs, f)
					must(t, err)
					all[f] = string(data)
				}
			}
			return all
		}
		before := content()
		opt := w.options(erase.Source{Hosts: w.read(t).hosts()[:2]})
		opt.DryRun = true
		dry, err := erase.Run(opt)
		must(t, err)
		if after := content(); !maps.Equal(before, after) {
			t.Error("a dry run has changed files")
		}
		opt.DryRun = false
		rep, err := erase.Run(opt)
		must(t, err)
		if dry.Record.Erased != rep.Record.Erased || dry.Record.Erased.Captures == 0 {
			t.Errorf("the dry run has %+v, the erasure %+v", dry.Record.Erased, rep.Record.Erased)
		}
	})
}

// TestRefused: faulty requests change nothing, and name their lines.
func TestRefused(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		for _, c := range []struct {
			src    erase.Source
			reason string
			want   string
		}{
			{erase.Source{Hosts: []string{"m0.test"}}, " ", "--reason"},
			{erase.Source{}, "x", "no host"},
			{erase.Source{Hosts: []string{"m0.test/p"}}, "x", "not the name of a host"},
			{erase.Source{PLDs: []string{"www.m0.test"}}, "x", "m0.test"},
			{erase.Source{URLs: []string{"m0.test/p"}}, "x", "not a URL"},
			{erase.Source{List: strings.NewReader("http://m0.test/\n\nftp://m0.test/"), ListName: "l"}, "x", "l:3:"},
		} {
			opt := w.options(c.src)
			opt.Reason = c.reason
			_, err := erase.Run(opt)
			var refused *erase.RequestError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.src, err, c.want)
			}
		}
		if all, err := erase.Records(disk.Set{FS: w.fs, Paths: w.opt.Disk.Dirs}); err != nil || len(all) > 0 {
			t.Errorf("%d records, %v", len(all), err)
		}
		if _, err := w.fs.Size("d0/" + state.EraseName); err == nil {
			t.Error("an erasure is under way")
		}
	})
}

// TestHidden: with Hide, neither the record nor the blacklist has the names, but the crawl keeps to them, and refuses
// to enqueue erased URLs.
func TestHidden(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		hosts := before.hosts()[:3]
		page := ""
		for _, line := range before.lines {
			if url := strings.Split(line, " ")[1]; strings.HasPrefix(line, "crawl ") && strings.HasSuffix(line, " ") &&
				!slices.ContainsFunc(hosts, func(h string) bool { return hostOf(h)(url) }) {
				page = url
			}
		}
		opt := w.options(erase.Source{Hosts: hosts, URLs: []string{page, "http://unknown.test/x"}})
		opt.Hide = true
		_, err := erase.Run(opt)
		must(t, err)
		gone := func(url string) bool {
			return url == page || slices.ContainsFunc(hosts, func(h string) bool { return hostOf(h)(url) })
		}
		w.check(t, before, gone)
		if rep := w.prove(t, erase.Source{Hosts: hosts, URLs: []string{page}}); rep.Found+rep.Rules+rep.Kept > 0 {
			t.Errorf("%d leftovers, %d rules, %d names in records", rep.Found, rep.Rules, rep.Kept)
		}
		settings, err := changes.Read(w.fs, "d0/"+state.ChangesName)
		must(t, err)
		if len(settings.Blocked) != 3 || !strings.HasPrefix(settings.Blocked[0], "- host sha256:") {
			t.Errorf("rules %q", settings.Blocked)
		}
		fetched := w.web.Log().Snapshot().Fetches
		w.opt.Limits.MaxPages, w.opt.Limits.Linger = 0, 6*time.Hour
		control := new(crawl.Control)
		w.opt.Observe.Control = control
		done := make(chan error)
		go func() {
			_, err := crawl.Run(t.Context(), w.opt)
			done <- err
		}()
		synctest.Wait()
		urls := []string{page, "http://" + hosts[0] + "/", "http://unknown.test/x"}
		answers, made, err := control.Enqueue(t.Context(), "test", urls)
		if must(t, err); made.Count > 0 || len(answers) != 3 {
			t.Errorf("%d URLs are enqueued of %d", made.Count, len(answers))
		}
		for i, want := range []string{"the operator has erased it", "blacklist", "the operator has erased it"} {
			if !strings.Contains(answers[i].Refused, want) {
				t.Errorf("%s: %q, want %q", urls[i], answers[i].Refused, want)
			}
		}
		must(t, <-done)
		for url, n := range w.web.Log().Snapshot().Fetches {
			if gone(url) && n > fetched[url] {
				t.Errorf("%s was fetched again", url)
			}
		}
		if rep := testworld.Deep(t, w.fs, w.opt.Disk.Dirs); !rep.Balanced() {
			t.Errorf("at the end: %q, %v", rep.Bad, rep.Damages)
		}
	})
}

// TestEnqueueUnknownOutcome: without a log the crawl does not know what became of refused URLs. They are not enqueued
// after an erasure either.
func TestEnqueueUnknownOutcome(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 600, 0 })
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, web, fs)
		opt.Output.CrawlLog = state.LogOff
		crawltest.MustRun(t, t.Context(), opt)
		w := &world{fs: fs, opt: opt, web: web}
		refused := ""
		fetched := map[string]bool{}
		for url := range web.Expected("drumbeat").FetchedURLs() {
			fetched[url] = true
		}
		for _, url := range testworld.AllURLs(web) {
			if !fetched[url] && strings.Contains(url, "/private/") && !strings.Contains(url, "no-such") {
				refused = url
			}
		}
		rep, err := erase.Run(w.options(erase.Source{URLs: []string{refused}}))
		must(t, err)
		if c := rep.Record.Erased; c.Barred+c.Fetched+c.Waiting > 0 {
			t.Fatalf("the outcome of %s is known: %+v", refused, c)
		}
		r, m := w.open(t)
		defer func() { must(t, r.Unlock()) }()
		_, err = r.OpenSecret(m)
		must(t, err)
		if is, err := r.Barred(r.Hasher.URLKey([]byte(refused))); err != nil || len(is) != 1 {
			t.Errorf("%s is not known as erased: %v", refused, err)
		}
		if is, err := r.Barred(r.Hasher.URLKey([]byte("http://other.test/"))); err != nil || len(is) != 0 {
			t.Errorf("another URL is: %v, %v", is, err)
		}
	})
}
