package crawl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/export"
	"drumbeat/warc"
)

// fakeHook is a hook in this process.
type fakeHook struct {
	wants  hook.Wants
	procs  int           // 0: 2
	most   int           // bytes of a body; 0: much
	think  time.Duration // until it answers
	answer func(r *hook.Request) (*hook.Answer, hook.Outcome)

	mu             sync.Mutex
	asked          map[string]*hook.Request
	with, together int // pages that are with it, now and at most
}

func (h *fakeHook) Wants() hook.Wants   { return h.wants }
func (h *fakeHook) BodyBytes() int      { return cmp.Or(h.most, 1<<30) }
func (h *fakeHook) TakeRestarts() int64 { return 1 }
func (h *fakeHook) Procs() int          { return cmp.Or(h.procs, 2) }

func (h *fakeHook) Ask(ctx context.Context, r *hook.Request) (*hook.Answer, hook.Outcome) {
	kept := *r
	kept.Body = slices.Clone(r.Body)
	h.mu.Lock()
	if h.asked == nil {
		h.asked = map[string]*hook.Request{}
	}
	h.asked[r.URL] = &kept
	h.with++
	h.together = max(h.together, h.with)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.with--
		h.mu.Unlock()
	}()
	if h.think > 0 && !account.Sleep(ctx, h.think) {
		return nil, hook.Cancelled
	}
	return h.answer(r)
}

// yes is the answer of a hook without an opinion.
func yes() (*hook.Answer, hook.Outcome) { return &hook.Answer{Keep: true, Follow: true}, hook.Answered }

// outputWithMeta returns the kind of record that the output has of each path of http://a.test, and the fields of its
// metadata record.
func outputWithMeta(t *testing.T, opt *Options) (kinds map[string]string, meta map[string]map[string]string) {
	t.Helper()
	kinds, meta = map[string]string{}, map[string]map[string]string{}
	eachRecord(t, opt.Disk.FS, opt.Disk.Dirs, func(r *warc.Record) {
		path, ok := strings.CutPrefix(r.Get("WARC-Target-URI"), "http://a.test")
		switch {
		case !ok || path == "/robots.txt":
		case r.Type() == "response" || r.Type() == "revisit":
			kinds[path] += "response "
		case r.Type() == "metadata":
			if r.Get("WARC-Concurrent-To") == "" {
				kinds[path] += "metadata "
			}
			meta[path] = map[string]string{}
			for line := range strings.Lines(string(r.Block)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				meta[path][name] = value
			}
		}
	})
	return kinds, meta
}

// hookedWeb serves pages that the hook treats in all its ways.
func hookedWeb() *tinyWeb {
	page := func(links string) answer { return answer{200, "X-A: b\r\n", "<html><p>Text &amp; more</p>" + links} }
	w := &tinyWeb{Serve: func(_, path string) answer {
		switch path {
		case "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /no"}
		case "/":
			return page("<a href=drop>d</a> <a href=drop>d</a> <a href=stop>s</a> <a href=to>t</a> <a " +
				"href=gone>g</a> <a href=late>l</a>")
		case "/drop":
			return page("<a href=under-drop>")
		case "/stop":
			return page("<a href=under-stop> <a href=under-stop> <a href=http://c.test/>")
		case "/to":
			return answer{302, "Location: /there\r\n", ""}
		case "/gone":
			return answer{404, "", "<html><title>Gone</title><p>It is <b>gone</b>"}
		}
		return page("")
	}}
	w.Raw = func(c net.Conn, _, path string) bool {
		if path == "/file" {
			_, err := fmt.Fprintf(c,
				"HTTP/1.1 200 X\r\nContent-Type: text/plain; charset=iso-8859-1\r\nConnection: close\r\n\r\n%s",
				strings.Repeat("\xfc", 1200))
			return err == nil
		}
		return false
	}
	return w
}

// hookAnswer is the answer for a page of hookedWeb.
func hookAnswer(r *hook.Request) (*hook.Answer, hook.Outcome) {
	a, _ := yes()
	switch strings.TrimPrefix(r.URL, "http://a.test") {
	case "/":
		a.Links = []string{"/no/1", "/added", "http://b.test/", "mailto:x", "http://", "drop", "/added"}
	case "/drop":
		a.Keep, a.Fields = false, []byte(`{"why":"\"x\""}`)
	case "/stop":
		a.Follow, a.Links, a.Score, a.Scored = false, []string{"file"}, 0.75, true
	case "/gone":
		a.Links = []string{"from-gone"}
	case "/added":
		a.Fields, a.Scored = []byte(`{"n":1}`), true
	case "/late":
		return nil, hook.TimedOut
	case "/file":
		return nil, hook.Refused
	case "/from-gone":
		return nil, hook.Failed
	case "/there":
		return nil, hook.Unasked
	}
	return a, hook.Answered
}

// checkHookRequests checks the requests to the hook.
func checkHookRequests(t *testing.T, h *fakeHook) {
	t.Helper()
	r := h.asked["http://a.test/stop"]
	if h.asked["http://a.test/to"] != nil || r == nil {
		t.Fatalf("asked about %v", slices.Collect(maps.Keys(h.asked)))
	}
	if !slices.Contains(r.Headers, [2]string{"X-A", "b"}) ||
		!strings.HasPrefix(string(r.Body), "<html><p>Text &amp; more") || r.Text != "Text & more\n" ||
		r.Via != "http://a.test/" || r.Depth != 1 || r.Status != 200 || r.Truncated ||
		r.Links[0] != "http://a.test/under-stop" {
		t.Errorf("request %+v with body %q", r, r.Body)
	}
	if r := h.asked["http://a.test/file"]; r.MIME != "text/plain" || len(r.Body) != 1000 ||
		r.Text != strings.Repeat("ü", 500) || !r.Truncated {
		t.Errorf("request %+v", r)
	}
	if r := h.asked["http://a.test/gone"]; r.Status != 404 || r.MIME != "text/html" ||
		r.Text != "Gone\nIt is gone\n" {
		t.Errorf("request %+v", r)
	}
}

// TestHook: what a hook says of a page is done: it is stored or not, its links are followed or not, links are added
// and checked like others, score and fields are stored. The accounts balance.
func TestHook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := hookedWeb()
		h := &fakeHook{wants: hook.Wants{Headers: true, Body: true, Text: true, Links: true},
			think: time.Second, most: 1000}
		h.answer = hookAnswer
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
		opt.Admission.Scope, opt.opened.asker = state.ScopeHost, h
		opt.Observe.Log = nil
		res := mustRun(t, t.Context(), opt)

		kinds, meta := outputWithMeta(t, &opt)
		want := map[string]string{"/drop": "metadata "}
		for _, path := range []string{"/", "/under-drop", "/stop", "/to", "/there", "/gone", "/late", "/file", "/added",
			"/from-gone"} {
			want[path] = "response "
		}
		if !maps.Equal(kinds, want) {
			t.Errorf("output %v, want %v", kinds, want)
		}
		for path, fields := range map[string]string{
			"/drop": `stored=nothing, because the hook does not keep it;hookFields={"why":"\"x\""}`,
			"/stop": "hookScore=0.75", "/added": `hookScore=0;hookFields={"n":1}`} {
			for pair := range strings.SplitSeq(fields, ";") {
				name, value, _ := strings.Cut(pair, "=")
				if meta[path][name] != value {
					t.Errorf("%s: %s is %q, want %q", path, name, meta[path][name], value)
				}
			}
		}
		if meta["/"]["hookScore"] != "" || meta["/"]["hookFields"] != "" {
			t.Errorf("the seed has %v", meta["/"])
		}

		checkHookRequests(t, h)
		s := &res.Snapshot
		got := map[string]int64{}
		for c := state.CountHookAnswers; c <= state.CountLinksHook; c++ {
			got[c.String()] = s.Count(c)
		}
		wantCounts := map[string]int64{"hook_answers": 6, "hook_timeouts": 1, "hook_failures": 1, "hook_refused": 1,
			"hook_unasked": 1, "hook_restarts": 10, "hook_wait_micros": 10e6, "hook_dropped": 1, "hook_unfollowed": 1,
			"hook_links": 7, "links_hook": 2}
		if !maps.Equal(got, wantCounts) {
			t.Errorf("counters %v\nwant     %v", got, wantCounts)
		}
		if s.Refused["robots"] != 1 || s.Count(state.CountLinksScope) < 2 {
			t.Errorf("refused %v, %d links out of scope", s.Refused, s.Count(state.CountLinksScope))
		}
		rep, err := audit.Deep(audit.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out})
		if err != nil || !rep.Balanced() || !rep.Output.StoredAll {
			t.Errorf("audit: %v, %+v, %q", err, rep.Output, rep.Bad)
		}
		checkHookExport(t, &opt)
	})
}

// checkHookExport checks the columns of the table of pages.
func checkHookExport(t *testing.T, opt *Options) {
	t.Helper()
	var out strings.Builder
	if _, err := export.Run(t.Context(),
		export.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL,
			Stream: &out, TempDir: "tmp"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var row struct {
			URL    string
			Score  *float64 `json:"hook_score"`
			Fields *string  `json:"hook_fields"`
		}
		must(t, json.Unmarshal([]byte(line), &row))
		text := ""
		if row.Score != nil {
			text = fmt.Sprint(*row.Score)
		}
		if row.Fields != nil {
			text += *row.Fields
		}
		got[row.URL] = text
	}
	for url, want := range map[string]string{"http://a.test/": "", "http://a.test/stop": "0.75",
		"http://a.test/added": `0{"n":1}`} {
		if text, ok := got[url]; !ok || text != want {
			t.Errorf("row of %s: %q, %t, want %q", url, text, ok, want)
		}
	}
}

// chance returns a number below n that depends on a URL only.
func chance(url, of string, n uint32) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, of, url)
	return h.Sum32() % n
}

// erraticAnswer is that of a hook whose effect on the set of fetched URLs is none: some pages it does not answer for,
// of some it takes the links itself and hands them back, and some it drops.
func erraticAnswer(r *hook.Request) (*hook.Answer, hook.Outcome) {
	if chance(r.URL, "fails", 3) == 0 {
		return nil, hook.Outcome(1 + chance(r.URL, "outcome", 4))
	}
	a := &hook.Answer{Keep: chance(r.URL, "keep", 4) > 0, Follow: true}
	if chance(r.URL, "follow", 2) == 0 {
		a.Follow, a.Links = false, r.Links
	}
	if chance(r.URL, "fields", 2) == 0 {
		a.Scored, a.Score, a.Fields = true, 0.5, []byte(`{"a":"b"}`)
	}
	return a, hook.Answered
}

// TestHookLosesNothing: with a hook that fails for each third page, a crawl of a closed web fetches what it must.
func TestHookLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		opt := simOptions(t, web, memfs.New(*seedFlag))
		h := &fakeHook{wants: hook.Wants{Links: true}, think: 50 * time.Millisecond, answer: erraticAnswer, procs: 3}
		opt.opened.asker = h
		res := mustRun(t, t.Context(), opt)
		s := &res.Snapshot
		if s.Count(state.CountHookAnswers) == 0 || s.Count(state.CountHookUnasked) == 0 ||
			s.Count(state.CountHookDropped) == 0 {
			t.Errorf("counters %v", s.Counters)
		}
		// The workers, and the one for spools.
		if most := 3 + runtime.GOMAXPROCS(0) + 1 + 1; h.together > most || h.together < 3 {
			t.Errorf("%d pages were with the hook at once, want at most %d", h.together, most)
		}
		want := map[string]bool{}
		for url := range web.Expected("drumbeat").FetchedURLs() {
			want[url] = true
		}
		_, m, err := lastManifest(opt.Disk.FS, opt.Disk.Dirs)
		must(t, err)
		set := disk.Set{FS: opt.Disk.FS, Paths: opt.Disk.Dirs}
		got, err := outputOf(new(sync.Map), set, set, m)
		must(t, err)
		for url := range want {
			if got[url] != 1 {
				t.Errorf("%d records of %s, want 1", got[url], url)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d URLs, want %d", len(got), len(want))
		}
		if _, err := audit.Run(opt.Disk.FS, opt.Disk.Dirs); err != nil {
			t.Error(err)
		}
	})
}
