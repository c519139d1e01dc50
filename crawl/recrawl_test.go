package crawl

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/state/audit"
)

const day = 24 * time.Hour

// changingWeb is a host whose pages change at fixed times after it was made: /often each 12 hours, /seldom
// each 5 days, /never; /leaves is gone after 6 days, /back is away from day 6 to day 8, and the first page
// links to /late from day 10 on. /never has an ETag and /seldom a Last-Modified. /twin has the body of /never
// and an ETag. /blinks has an ETag and is gone from day 3 to day 5.
type changingWeb struct {
	*tinyWeb
	began       time.Time
	conditional int // requests answered with 304
}

func newChangingWeb() *changingWeb {
	w := &changingWeb{began: time.Now()}
	text := strings.Repeat("text ", 100)
	w.tinyWeb = &tinyWeb{Reply: func(req *http.Request) (answer, bool) {
		age := time.Since(w.began)
		version := func(every time.Duration) answer {
			return answer{200, "", fmt.Sprintf("<html>%s%s %d", text, req.RequestURI, age/every)}
		}
		switch req.RequestURI {
		case "/robots.txt":
			return noRobots, true
		case "/":
			late := ""
			if age > 10*day {
				late = "<a href=late>l</a>"
			}
			return answer{200, "", "<html><a href=often>o</a><a href=seldom>s</a><a href=never>n</a><a " +
				"href=leaves>g</a><a href=back>b</a>" +
				"<a href=missing>m</a><a href=twin>t</a><a href=blinks>b</a>" + late}, true
		case "/often":
			return version(12 * time.Hour), true
		case "/seldom":
			a, modified := version(5*day), w.began.Add(age/(5*day)*5*day).UTC().Format(http.TimeFormat)
			if a.Header = "Last-Modified: " + modified + "\r\n"; req.Header.Get("If-Modified-Since") == modified {
				w.conditional++
				return answer{304, a.Header, ""}, true
			}
			return a, true
		case "/never":
			a := version(1000 * day)
			if a.Header = "ETag: \"x\"\r\n"; req.Header.Get("If-None-Match") == "\"x\"" {
				w.conditional++
				return answer{304, a.Header, ""}, true
			}
			return a, true
		case "/twin":
			a := answer{200, "ETag: \"y\"\r\n", fmt.Sprintf("<html>%s%s %d", text, "/never", 0)}
			if req.Header.Get("If-None-Match") == "\"y\"" {
				w.conditional++
				return answer{304, a.Header, ""}, true
			}
			return a, true
		case "/blinks":
			a := version(1000 * day)
			a.Header = "ETag: \"z\"\r\n"
			if age > 3*day && age < 5*day {
				return answer{404, "", "gone"}, true
			} else if req.Header.Get("If-None-Match") == "\"z\"" {
				w.conditional++
				return answer{304, a.Header, ""}, true
			}
			return a, true
		case "/leaves":
			if age > 6*day {
				return answer{404, "", "gone"}, true
			}
			return version(1000 * day), true
		case "/back":
			if age > 6*day && age < 8*day {
				return answer{503, "", "away"}, true
			}
			return version(1000 * day), true
		case "/late":
			return version(1000 * day), true
		}
		return answer{404, "", "no page"}, true
	}}
	return w
}

// TestRecrawl: pages are visited again, those that change often more often, within the bounds; what the
// server says is unchanged is a revisit record; a page that is gone is looked for again and given up; new
// links are followed. The crawl continues after a stop.
func TestRecrawl(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		w := newChangingWeb()
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w.tinyWeb, fs, "http://r.test/")
		opt.Recrawl = &revisit.Policy{Least: 6 * time.Hour, Longest: 6 * day, Default: day, Gone: 2}
		opt.Disk.CheckpointEvery = 6 * time.Hour
		var visits map[string]int
		for _, until := range []time.Duration{4 * day, 16 * day} { // a stop in between
			opt.Limits.MaxTime = until
			res := mustRun(t, t.Context(), opt)
			if res.Stop != StopTime {
				t.Errorf("stopped by %q", res.Stop)
			}
			visits = map[string]int{}
			for _, r := range w.Got("", "") {
				visits[r.Path]++
			}
			s := &res.Snapshot
			t.Logf("until %v: %v; %d visits, %d unchanged, %d of them 304, %d gone", until, visits,
				s.Count(state.CountVisits), s.Count(state.CountUnchanged), s.Count(state.CountNotModified),
				s.Count(state.CountGone))
			if int(s.Count(state.CountNotModified)) != w.conditional || w.conditional == 0 {
				t.Errorf("%d responses with 304, the server sent %d", s.Count(state.CountNotModified), w.conditional)
			}
			checkVisits(t, opt.Disk.FS, opt.Disk.Dirs)
		}
		if visits["/often"] < 2*visits["/seldom"] || visits["/seldom"] < visits["/never"] || visits["/never"] < 4 {
			t.Errorf("visits by page: %v", visits)
		}
		for i, least := range []time.Duration{opt.Recrawl.Least, 0} {
			last := map[string]time.Time{}
			for _, r := range w.Got("", "") {
				if was, ok := last[r.Path]; ok && i == 0 && r.Path != "/robots.txt" && r.Path != "/back" &&
					r.At.Sub(was) < least {
					t.Errorf("%s is visited after %v", r.Path, r.At.Sub(was))
				}
				last[r.Path] = r.At
			}
			for _, path := range []string{"/", "/often", "/seldom", "/never", "/back"} {
				if i == 1 && time.Since(last[path]) > opt.Recrawl.Longest+opt.Recrawl.Longest/4 {
					t.Errorf("%s was visited %v ago", path, time.Since(last[path]))
				}
			}
		}
		if visits["/missing"] != 1 || visits["/late"] == 0 {
			t.Errorf("visits of a page that never was: %d; of one that came later: %d", visits["/missing"],
				visits["/late"])
		}
		records := checkRevisits(t, &opt)
		// Of two URLs with the same body, the one that came second has no record that a 304 could refer to.
		never, twin := records["304 http://r.test/never"], records["304 http://r.test/twin"]
		if min(never, twin) > 0 || never+twin != visits["/never"]-1 && never+twin != visits["/twin"]-1 ||
			never+twin < 3 || records["304 http://r.test/blinks"] < 3 ||
			records["http://r.test/often"] != visits["/often"] {
			t.Errorf("records: %v, visits %v", records, visits)
		}
		if visits["/leaves"] > 12 || visits["/leaves"] < 3 {
			t.Errorf("%d visits of a page that is gone after 6 days", visits["/leaves"])
		}
	})
}

// checkRevisits: a revisit record refers to a response. It counts the records by URL, those of a 304 by "304 " and URL.
func checkRevisits(t *testing.T, opt *Options) map[string]int {
	t.Helper()
	records, captures := map[string]int{}, map[string]bool{}
	for _, rec := range storedRecords(t, opt.Disk.FS, opt.Disk.Dirs) {
		if rec.Type() == "response" {
			captures[rec.Get("WARC-Target-URI")+" "+rec.Get("WARC-Date")] = true
		}
	}
	for _, rec := range storedRecords(t, opt.Disk.FS, opt.Disk.Dirs) {
		uri := rec.Get("WARC-Target-URI")
		if of := rec.Get("WARC-Refers-To-Target-URI") + " " +
			rec.Get("WARC-Refers-To-Date"); rec.Type() == "revisit" && !captures[of] {
			t.Errorf("%s of %s refers to %s, which is no response", uri, rec.Get("WARC-Date"), of)
		}
		if rec.Type() == "revisit" && strings.HasSuffix(rec.Get("WARC-Profile"), "server-not-modified") {
			records["304 "+uri]++
			if rec.Get("WARC-Refers-To-Target-URI") != uri ||
				rec.Get("WARC-Refers-To-Date") >= rec.Get("WARC-Date") {
				t.Errorf("%s of %s refers to %s of %s", uri, rec.Get("WARC-Date"),
					rec.Get("WARC-Refers-To-Target-URI"), rec.Get("WARC-Refers-To-Date"))
			}
		} else if strings.HasPrefix(uri, "http") {
			records[uri]++
		}
	}
	return records
}

// cutVisits crawls in many runs, and cuts three of four. It returns what is left, and the times of the cuts.
func cutVisits(t *testing.T, fs *memfs.FS, opt Options, rng *rand.Rand) (left *memfs.FS, cuts []time.Time) {
	t.Helper()
	began := time.Now()
	for run := range longOr(100, 10) {
		if opt.Disk.FS, opt.Limits.MaxTime = fs, time.Since(began)+
			time.Duration(rng.Int64N(int64(14*time.Hour))); run%4 < 3 {
			fs.CrashAfter(1 + rng.IntN(200))
		}
		if _, err := Run(t.Context(), opt); err != nil {
			cuts = append(cuts, time.Now())
		}
		fs = fs.Crash()
		if run%4 == 0 { // the machine is off, for less than a visit may be late
			time.Sleep(time.Duration(rng.Int64N(int64(9 * time.Minute))))
		}
	}
	return fs, cuts
}

// TestRecrawlKeepsTimes: with power cuts at random moments, by the server's log, no URL is visited before it
// is due, or later than stated, or twice for one due time, unless a cut took back the visit; and no cut
// brings two requests of a host nearer to each other than its delay.
func TestRecrawlKeepsTimes(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(*seedFlag), 17))
		w := newChangingWeb()
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w.tinyWeb, fs, "http://r.test/", "http://s.test/", "http://t.test/")
		const each = 8 * time.Hour
		const late = each/16 + 10*time.Minute
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 20*time.Second, 20*time.Second
		opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: each, Longest: each, Default: each, Gone: 100}
		opt.Disk.CheckpointEvery = 2 * time.Hour
		began := time.Now()
		fs, cuts := cutVisits(t, fs, opt, rng)
		opt.Disk.FS, opt.Limits.MaxTime = fs, time.Since(began)+day
		res := mustRun(t, t.Context(), opt)
		waiting := int64(0) // in BEAST and the queues, if they are due
		for p := state.PlaceUnstreamed; p < state.PlaceFetched; p++ {
			waiting += res.Snapshot.Place(p)
		}
		if waiting < 21 || len(cuts) < 3 {
			t.Errorf("%d URLs wait for a visit, want 21 and more; %d cuts", waiting, len(cuts))
		}
		checkVisits(t, opt.Disk.FS, opt.Disk.Dirs)
		takenBack := func(visit, next time.Time) bool { // a cut came before a checkpoint had the visit
			return slices.ContainsFunc(cuts, func(cut time.Time) bool {
				return !cut.Before(visit) && !cut.After(next) && cut.Sub(visit) <= opt.Disk.CheckpointEvery+time.Minute
			})
		}
		last, asked := map[string]time.Time{}, map[string]time.Time{}
		visits, again := 0, 0
		for _, r := range w.Got("", "") {
			if was, ok := asked[r.Host]; ok && r.At.Sub(was) < opt.Politeness.HostDelayMin {
				t.Errorf("%s%s is requested %v after another URL", r.Host, r.Path, r.At.Sub(was))
			}
			asked[r.Host] = r.At
			if r.Path == "/robots.txt" || r.Path == "/missing" || r.Path == "/back" { // retried, as it is away for days
				continue
			}
			url := r.Host + r.Path
			if was, ok := last[url]; ok {
				visits++
				switch gap := r.At.Sub(was); {
				case takenBack(was, r.At):
					again++
				case gap < each-time.Second || gap > each+late:
					t.Errorf("%s is visited again after %v, want %v", url, gap, each)
				}
			}
			last[url] = r.At
		}
		for url, at := range last {
			// Given up, in the long form.
			if gap := time.Since(at); gap > each+late && !strings.HasSuffix(url, "/leaves") {
				t.Errorf("%s was visited %v ago", url, gap)
			}
		}
		t.Logf("%d cuts in %v, %d visits, %d of them after one that a cut took back", len(cuts),
			time.Since(began), visits, again)
	})
}

// TestRecrawlExplained: explain says when a URL is visited again, and what became of one that is not.
func TestRecrawlExplained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newChangingWeb()
		opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://r.test/")
		opt.Recrawl = &revisit.Policy{Least: time.Hour, Longest: 6 * day, Default: day, Kind: revisit.Uniform, Gone: 2}
		opt.Limits.MaxTime = 2*day + 3*time.Hour
		mustRun(t, t.Context(), opt)
		x := explainer(t, opt.Disk.FS, opt.Disk.Dirs)
		reps, err := x.URLs([]string{"http://r.test/never", "http://r.test/missing"})
		must(t, err)
		visits := w.Got("r.test", "/never")
		last := visits[len(visits)-1].At
		if wait := reps[0].Due.Sub(last); wait < day-time.Second || wait > day+time.Second {
			t.Errorf("the next visit is due %v after the last one, want %v", wait, day)
		}
		if got := reps[0]; got.Place != "deferred" || !strings.Contains(strings.Join(got.Why, " "), "next visit") ||
			got.Due.Before(time.Now()) {
			t.Errorf("%+v", got)
		}
		if got := reps[1]; got.Place != "fetched" || got.Ended == nil || got.Ended.Status != 404 {
			t.Errorf("%+v", got)
		}
	})
}

// checkVisits audits a crawl, each URL by its key.
func checkVisits(t *testing.T, fs disk.FS, dirs []string) {
	t.Helper()
	checkBalanced(t, fs, dirs)
	rep, err := audit.Deep(audit.Options{FS: fs, Dirs: dirs, RAMBytes: 1 << 20})
	if err != nil || !rep.Balanced() {
		t.Errorf("audit: %v, %q, keys %+v, damages %+v", err, rep.Bad, rep.Keys, rep.Damages)
	}
}

// TestRecrawlWithinLimits: visits do not count for --max-pages pld and --max-pages host, which bound URLs.
func TestRecrawlWithinLimits(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		w := newChangingWeb()
		opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://r.test/")
		opt.Recrawl = &revisit.Policy{Least: day, Longest: day, Default: day, Kind: revisit.Uniform, Gone: 2}
		opt.Limits.MaxTime, opt.Admission.MaxPagesPerPLD, opt.Health.MaxPagesPerHost = 9*day, 10, 10
		res := mustRun(t, t.Context(), opt)
		if n := len(w.Got("r.test", "/never")); res.Stop != StopTime || n < 8 {
			t.Errorf("stopped by %q, %d visits of a page; refused: %v", res.Stop, n, res.Snapshot.Refused)
		}
		checkVisits(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestRecrawlListed: the dates of a sitemap say how soon a page is visited the second time, if they are not
// all the same.
func TestRecrawlListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newChangingWeb()
		pages := w.Reply
		w.Reply = func(req *http.Request) (answer, bool) {
			entries := func(date func(i int) time.Duration) (a answer, _ bool) {
				a = answer{200, "Content-Type: text/xml\r\n", "<urlset>"}
				for i := range 6 {
					modified := w.began.Add(-date(i)).UTC().Format(time.RFC3339)
					a.Body += fmt.Sprintf("<url><loc>http://%s/p%d</loc><lastmod>%s</lastmod></url>",
						req.Host, i, modified)
				}
				a.Body += "</urlset>"
				return a, true
			}
			switch path := req.RequestURI; {
			case path == "/robots.txt":
				return answer{200, "", "Sitemap: http://" + req.Host + "/map.xml"}, true
			case path == "/map.xml" && req.Host == "r.test": // the first three are old
				return entries(func(i int) time.Duration {
					return []time.Duration{2 * year, time.Hour}[i/3] + time.Duration(i)*time.Second
				})
			case path == "/map.xml":
				return entries(func(int) time.Duration { return time.Hour })
			case strings.HasPrefix(path, "/p"):
				return answer{200, "",
					fmt.Sprintf("<html>%s %s %d", path, req.Host, time.Since(w.began)/time.Hour)}, true
			}
			return pages(req)
		}
		opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://r.test/", "http://same.test/")
		opt.Links.Sitemaps = true
		opt.Recrawl = &revisit.Policy{Least: time.Hour, Longest: 10 * day, Default: day, Gone: 2}
		opt.Limits.MaxTime = 2 * day
		mustRun(t, t.Context(), opt)
		second := func(host, path string) time.Duration {
			visits := w.Got(host, path)
			if len(visits) < 2 {
				return opt.Limits.MaxTime
			}
			return visits[1].At.Sub(visits[0].At)
		}
		for i := range 6 {
			path := fmt.Sprintf("/p%d", i)
			if got := second("r.test", path); i < 3 && got < opt.Limits.MaxTime || i >= 3 && got >= day {
				t.Errorf("r.test%s is visited again after %v", path, got)
			}
			if got := second("same.test", path); got < day || got > day*17/16 {
				t.Errorf("same.test%s is visited again after %v, want a day", path, got)
			}
		}
		checkVisits(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}
