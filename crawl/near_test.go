package crawl

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/state/erase"
	"drumbeat/warc"
)

// nearWeb has hosts with the same texts. Each has articles, /a0 to /a<n-1>, each also as a print version, /p<i>, with
// another date, another advertisement and a link that it alone has, /l<i>; pages of one template, /t<i>, which share
// 95 % of their words; and short pages, /s<i>, which differ in one word.
type nearWeb struct {
	*tinyWeb
	began time.Time
	n     int
	// own makes the print versions articles of their own from a time on.
	own time.Duration
	// gone are the paths of pages that are gone, with their status.
	gone map[string]int
}

func newNearWeb(n int) *nearWeb {
	w := &nearWeb{began: time.Now(), n: n}
	w.tinyWeb = &tinyWeb{Serve: w.serve}
	return w
}

// prose returns words without sense that depend on the seed.
func prose(seed, words int) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 9))
	var b strings.Builder
	for range words {
		for range 2 + rng.IntN(6) {
			b.WriteByte('a' + byte(rng.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func (w *nearWeb) serve(host, path string) answer {
	if status := w.gone[path]; status != 0 {
		return answer{status, "", "<html>gone"}
	}
	var i int
	kind := path[:min(2, len(path))]
	if _, err := fmt.Sscanf(path[len(kind):], "%d", &i); path != "/" && (err != nil || i >= w.n) {
		return noRobots
	}
	body := ""
	switch kind {
	case "/":
		for i := range w.n {
			for _, k := range "apts" {
				body += fmt.Sprintf("<a href=%c%d>x</a> ", k, i)
			}
		}
	case "/a":
		body = fmt.Sprintf("%d. 5. 2026 Buy tea. ", time.Since(w.began)/time.Hour) + prose(i, 1500)
	case "/p":
		body = fmt.Sprintf("<a href=l%d></a>8. 6. 2026 %d Buy beer. ", i, i) + prose(i, 1500)
		if w.own > 0 && time.Since(w.began) >= w.own {
			body += prose(3000+i, 1500)
		}
	case "/l":
		body = prose(1000+i, 300)
	case "/t":
		body = prose(-1, 950) + prose(2000+i, 50)
	case "/s":
		body = prose(-2, 60) + prose(i, 1)
	}
	return answer{200, "", "<html><title>" + host + "</title><body>" + body}
}

// nearOf returns the pages that the metadata records name as kept, by the page, and the numbers of records of each
// page with and without a body. Each note must name a capture with a body.
func nearOf(t *testing.T, fs disk.FS, dirs []string) (near map[string]string, whole, heads map[string]int) {
	t.Helper()
	near, whole, heads = map[string]string{}, map[string]int{}, map[string]int{}
	bodies, named := map[string]bool{}, map[string]bool{}
	testworld.EachRecord(t, fs, dirs, func(r *warc.Record) {
		url := r.Get("WARC-Target-URI")
		switch {
		case r.Get("WARC-Resource-Type") != "":
		case r.Type() == "response" && r.Get("WARC-Truncated") == "":
			whole[url]++
			bodies[url+" "+r.Get("WARC-Date")] = true
		case r.Type() == "response":
			heads[url]++
		case r.Type() == "metadata":
			of := ""
			for _, f := range warc.MetaFields(r.Block) {
				if f.Name == warc.NearDuplicateOf {
					of, near[url] = f.Value, f.Value
				} else if f.Name == "nearDuplicateDate" && of != "" { // an erasure takes the name away
					named[of+" "+f.Value] = true
				}
			}
		}
	})
	for capture := range named {
		if !bodies[capture] {
			t.Errorf("a note names %s, which has no body", capture)
		}
	}
	return near, whole, heads
}

// TestNearDuplicates: of an article and its print version one is kept whole and the other becomes a note that names
// it, whatever the filter in RAM knows. Pages of other hosts, pages of a template and short ones stay whole; the links
// of copies are followed.
func TestNearDuplicates(t *testing.T) {
	const n = 12
	for _, tt := range []struct {
		seen   state.ContentSeen
		filter int64 // with 1 KiB or less, nothing is found in RAM
		whole  bool
	}{{state.ContentRecord, 1 << 20, false}, {state.ContentRecord, 64, false}, {state.ContentSkip, 1 << 20, false},
		{state.ContentSkip, 64, false}, {state.ContentRecord, 1 << 20, true}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newNearWeb(n)
				opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://n0.test/", "http://n1.test/")
				opt.Output.Store, opt.Output.ContentSeen, opt.Output.CrawlLog = true, tt.seen, state.LogAll
				opt.Output.NearDuplicates = state.NearDuplicates{KeepOne: true, Bits: state.NearBits, Whole: tt.whole}
				opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = tt.filter }
				res := mustRun(t, t.Context(), opt)
				s := &res.Snapshot
				near, whole, heads := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
				notes := 2 * n
				if tt.whole {
					notes = 0
				}
				if s.Count(state.CountNearCopies) != 2*n || int(s.Count(state.CountNearNotes)) != notes ||
					len(near) != notes || len(heads) != notes || (s.Count(state.CountBytesNear) > 0) == tt.whole {
					t.Errorf("%d copies, %d notes of %d bytes; %d metadata records, %d records without a body; want %d",
						s.Count(state.CountNearCopies), s.Count(state.CountNearNotes), s.Count(state.CountBytesNear),
						len(near), len(heads), notes)
				}
				for url, of := range near {
					i := len("http://n0.test/")
					if url[:i] != of[:i] || url[i+1:] != of[i+1:] || url == of || !strings.Contains("ap", url[i:i+1]) ||
						whole[of] != 1 || heads[url] != 1 || whole[url] != 0 {
						t.Errorf("%s is a note of %s; records of it %d and %d, of the kept page %d", url, of,
							whole[url], heads[url], whole[of])
					}
				}
				if want := 2*(1+5*n) - notes; len(whole) != want {
					t.Errorf("%d pages are stored whole, want %d", len(whole), want)
				}
				logged := 0
				checkLogged(t, &opt, func(e *crawllog.Entry) {
					if of := near[e.URL]; of != "" && e.NearDuplicateOf != of || e.NearDuplicateOf == e.URL {
						t.Errorf("the log has %s as near-duplicate of %q, its record %q", e.URL, e.NearDuplicateOf, of)
					} else if e.NearDuplicateOf != "" {
						logged++
					}
				})
				if logged != 2*n {
					t.Errorf("the log has %d copies, want %d", logged, 2*n)
				}
				checkDeep(t, &opt)
			})
		})
	}
}

// checkLogged calls f with each line of the crawl log.
func checkLogged(t *testing.T, opt *Options, f func(e *crawllog.Entry)) {
	t.Helper()
	set, st := lastPart[crawllog.State](t, opt.Disk.FS, opt.Disk.Dirs, state.NameCrawlLog)
	_, err := crawllog.Scan(crawllog.Options{Set: set, Prefix: "crawl"}, st,
		func(e *crawllog.Entry) error { f(e); return nil }, func(err error) error { return err })
	must(t, err)
}

// TestNearRecrawl: copies are visited less, until they have a text of their own. Pages whose text changes a little
// from visit to visit are no copies of themselves. All of this is so after a stop as well, and with copies stored
// whole.
func TestNearRecrawl(t *testing.T) {
	notShort(t)
	const n, day = 4, 3 * time.Hour // an eighth of a day
	for _, keepWhole := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := newNearWeb(n)
			w.own = 20 * day
			opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://n0.test/")
			opt.Output.Store, opt.Output.NearDuplicates.KeepOne = true, true
			opt.Output.NearDuplicates.Bits, opt.Output.NearDuplicates.Whole = state.NearBits, keepWhole
			opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: day / 24, Longest: 8 * day, Default: day,
				Gone: 2, Copies: 5}
			opt.Disk.CheckpointEvery = day / 4
			copies := map[string]bool{}
			for _, until := range []time.Duration{10 * day, 19 * day, 40 * day} { // the run time of all runs
				opt.Limits.MaxTime = until
				mustRun(t, t.Context(), opt)
				near, _, _ := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
				for url := range near {
					copies[url] = true
				}
				visits := map[string]int{}
				for _, r := range w.Got("n0.test", "") {
					visits["http://n0.test"+r.Path]++
				}
				for i := range n {
					a, p := fmt.Sprintf("http://n0.test/a%d", i), fmt.Sprintf("http://n0.test/p%d", i)
					if copies[a] {
						a, p = p, a
					}
					few, many := min(visits[a], visits[p]), max(visits[a], visits[p])
					if !keepWhole && (copies[a] || !copies[p]) {
						t.Errorf("after %v: copies %v, want one of %s and %s", until, copies, a, p)
					}
					if until == 19*day && !keepWhole {
						rep, err := testworld.Explainer(t, opt.Disk.FS, opt.Disk.Dirs).URLs([]string{a, p})
						if err != nil || rep[0].Copy || !rep[1].Copy ||
							!strings.Contains(strings.Join(rep[1].Why, "\n"), "another page of its host") {
							t.Errorf("explain: %+v, %v", rep, err)
						}
					}
					if until < 20*day && (many < 4*few || few < 2) {
						t.Errorf("after %v: %d and %d visits of %s and %s", until, visits[a], visits[p], a, p)
					}
					if until > 20*day && few < 15 { // as often as others after day 20
						t.Errorf("after %v: %d and %d visits of %s and %s", until, visits[a], visits[p], a, p)
					}
				}
			}
			checkDeep(t, &opt)
		})
	}
}

// TestNearErased: when the page that is kept is erased, nothing of it is left, and its copy is kept from its next
// visit on.
func TestNearErased(t *testing.T) {
	notShort(t)
	const n = 4
	inBubble(t, func(t *testing.T) {
		w := newNearWeb(n)
		opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://n0.test/")
		opt.Output.Store, opt.Output.NearDuplicates = true, state.NearDuplicates{KeepOne: true, Bits: state.NearBits}
		opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: time.Hour, Longest: 8 * day, Default: day, Gone: 2}
		opt.Limits.MaxTime = 12 * time.Hour
		mustRun(t, t.Context(), opt)
		near, _, _ := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
		var gone []string
		for _, of := range near {
			gone = append(gone, of)
		}
		if len(gone) != n {
			t.Fatalf("copies %v", near)
		}
		_, err := erase.Run(erase.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Source: erase.Source{URLs: gone},
			Reason: "a test", RAMBytes: 16 << 20})
		must(t, err)
		proof, err := erase.Prove(erase.ProofOptions{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs,
			Source: erase.Source{URLs: gone}})
		if err != nil || len(proof.Leftovers) > 0 {
			t.Fatalf("left: %+v, %v", proof, err)
		}
		opt.Limits.MaxTime = 3 * day
		mustRun(t, t.Context(), opt)
		again, whole, heads := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
		for url := range near {
			if whole[url] == 0 || heads[url] != 1 || again[url] != "" {
				t.Errorf("%s: %d records, and %d without a body, of %q", url, whole[url], heads[url], again[url])
			}
		}
		checkDeep(t, &opt)
	})
}

// TestNearGone: when the page that is kept is gone at a revisit, its copy is kept from its next visit on, in a crawl
// that visits pages again and in one that is asked to. A page that cannot be reached, or may not be read, stays in the
// list.
func TestNearGone(t *testing.T) {
	t.Parallel()
	for _, recrawl := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			const n = 4
			w := newNearWeb(n)
			opt := tinyOptions(t, w.tinyWeb, memfs.New(*seedFlag), "http://n0.test/")
			opt.Output.Store = true
			opt.Output.NearDuplicates = state.NearDuplicates{KeepOne: true, Bits: state.NearBits}
			if recrawl {
				opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: time.Hour, Longest: day, Default: day,
					Gone: 9}
				opt.Limits.MaxTime = 12 * time.Hour
			}
			mustRun(t, t.Context(), opt)
			near, _, _ := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
			if len(near) != n {
				t.Fatalf("copies %v", near)
			}
			w.gone = map[string]int{}
			var kept, copies string
			status := map[string]int{} // of the page that it repeats, by the copy
			for url, of := range near {
				status[url] = []int{404, 410, 403, 0}[len(status)]
				w.gone[strings.TrimPrefix(of, "http://n0.test")] = status[url]
				kept, copies = kept+of+"\n", copies+url+"\n"
			}
			lists := []string{kept, copies}
			if recrawl {
				opt.Limits.MaxTime = 5 * day
				lists = []string{""}
			}
			for _, list := range lists {
				if list != "" {
					must(t, disk.WriteFileAtomic(opt.Disk.FS, "list", []byte(list)))
					opt.Order.Watch = "list"
				}
				mustRun(t, t.Context(), opt)
			}
			_, whole, heads := nearOf(t, opt.Disk.FS, opt.Disk.Dirs)
			for url, status := range status {
				if gone := status == 404 || status == 410; (whole[url] > 0) != gone || heads[url] < 1 {
					t.Errorf("recrawl %v: the copy of a page with status %d has %d records, and %d without a body",
						recrawl, status, whole[url], heads[url])
				}
			}
			checkDeep(t, &opt)
		})
	}
}
