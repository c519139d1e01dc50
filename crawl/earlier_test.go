package crawl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/export"
)

const knownPages, newPages = 120, 30

// knownWorld is a host whose first page links to all others: pages, one that is missing, one that fails, and a feed.
// The second crawl finds new pages.
type knownWorld struct {
	*tinyWeb
	again bool
}

func newKnownWorld() *knownWorld {
	w := &knownWorld{tinyWeb: new(tinyWeb)}
	w.Serve = func(_, path string) answer {
		switch {
		case path == "/":
			page := "<html><a href=/missing>m</a><a href=/fails>f</a><a href=/feed.xml>f</a>"
			for n := range knownPages {
				page += fmt.Sprintf("<a href=/old%d>o</a>", n)
			}
			for n := range newPages {
				if w.again {
					page += fmt.Sprintf("<a href=/new%d>n</a>", n)
				}
			}
			return answer{200, "", page}
		case path == "/fails":
			return answer{500, "", "x"}
		case path == "/robots.txt", path == "/missing":
			return noRobots
		}
		return answer{200, "", "<html>" + path}
	}
	return w
}

func (w *knownWorld) options(t *testing.T, fs disk.FS, dir string, known options.Known, since ...string) Options {
	opt := tinyOptions(t, w.tinyWeb, fs, "http://k.test/")
	opt.Disk.Dirs, opt.Disk.CheckpointEvery = []string{dir}, 10*time.Second
	small(&opt)
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
	opt.Health.Retries = 1
	opt.Output.SinceKnown = known
	for _, d := range since {
		opt.Output.Since = append(opt.Output.Since, []string{d})
	}
	return opt
}

// asked returns the sorted paths of the requests for URLs, each once, and forgets the requests.
func (w *knownWorld) asked() (paths []string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, r := range w.Requests {
		if r.Path != "/robots.txt" {
			paths = append(paths, r.Path)
		}
	}
	w.Requests = nil
	slices.Sort(paths)
	return slices.Compact(paths)
}

// wanted are the paths that a crawl fetches that leaves out what is known.
func wanted(more ...string) (paths []string) {
	for n := range newPages {
		paths = append(paths, fmt.Sprintf("/new%d", n))
	}
	paths = append(paths, more...)
	slices.Sort(paths)
	return paths
}

// TestSinceKnownSkip: a crawl asks for no page that the earlier one has fetched, over kills and power cuts at any
// moment from the start on. By the server's log it asks for the seed, the feed, what had no answer, and all that is
// new; its accounts have a refusal for each URL that is left out.
func TestSinceKnownSkip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 9))
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		inBubble(t, func(t *testing.T) {
			w, fs := newKnownWorld(), memfs.New(*seedFlag)
			mustRun(t, t.Context(), w.options(t, fs, "a", ""))
			w.asked()
			w.again = true
			res, fs := runCrashing(t, fs, rng, 2*round,
				func(fs *memfs.FS) Options { return w.options(t, fs, "b", options.KnownSkip, "a") })
			if got, want := w.asked(), wanted("/", "/fails", "/feed.xml"); !slices.Equal(got, want) {
				t.Errorf("round %d: asked for %v, want %v", round, got, want)
			}
			left := res.Snapshot.Refused[state.ReasonEarlier.String()]
			if left != knownPages+1 { // and the missing page
				t.Errorf("%d URLs were left out, want %d", left, knownPages+1)
			}
			if rows := tableRows(t, fs, "b", export.Refused); len(rows) == 0 {
				t.Error("no URL is in the table of refusals")
			}
			checkBalanced(t, fs, []string{"b"})
		})
	}
}

// TestSinceKnownScope: only URLs of the crawl's scope are counted and left out. A name of a host makes no sitemap, nor
// does a type that has xml in it for another reason.
func TestSinceKnownScope(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := new(knownWorld), memfs.New(*seedFlag)
		w.tinyWeb = &tinyWeb{Serve: func(host, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/":
				return answer{200, "", "<html><a href=/page>p</a><a href=/x.docx>d</a><a href=/p.svg>s</a>" +
					"<a href=/feed>f</a><a href=/my-sitemap>f</a><a href=http://other.example/>o</a>"}
			case "/x.docx":
				const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
				return answer{200, "Content-Type: " + docx + "\r\n", "d"}
			case "/p.svg":
				return answer{200, "Content-Type: image/svg+xml\r\n", "<svg/>"}
			case "/feed":
				return answer{200, "Content-Type: application/atom+xml; charset=utf-8\r\n", "<feed/>"}
			}
			return answer{200, "", "<html>" + host + path}
		}}
		optionsOf := func(dir string, scope state.Scope, since ...string) Options {
			opt := w.options(t, fs, dir, "", since...)
			opt.Admission.SeedLines, opt.Admission.Scope = []string{"http://sitemap.xml.example/"}, scope
			return opt
		}
		mustRun(t, t.Context(), optionsOf("a", state.ScopeAll))
		if got := w.asked(); len(got) != 6 {
			t.Errorf("the earlier crawl asked for %q", got)
		}
		opt := optionsOf("b", state.ScopeHost, "a")
		opt.Output.SinceKnown = options.KnownSkip
		res := mustRun(t, t.Context(), opt)
		if got := w.asked(); !slices.Equal(got, []string{"/", "/feed", "/my-sitemap"}) {
			t.Errorf("asked for %q", got)
		}
		r, err := state.OpenReader(fs, []string{"b"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		e := r.Manifest.Run.Earlier[0]
		if left := res.Snapshot.Refused[state.ReasonEarlier.String()]; e.URLs != 6 || e.LeftOut != 4 || left != 3 {
			t.Errorf("%d URLs were known, %d left out but for seeds; %d are refused", e.URLs, e.LeftOut, left)
		}
		checkBalanced(t, fs, []string{"b"})
	})
}

// TestSinceKnownOut: of an earlier crawl with separate output directories a crawl reads the indexes there, in whatever
// order its directories are named.
func TestSinceKnownOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newKnownWorld(), memfs.New(*seedFlag)
		a := w.options(t, fs, "a", "")
		a.Disk.Out = []string{"out0", "out1"}
		mustRun(t, t.Context(), a)
		w.asked()
		w.again = true
		b := w.options(t, fs, "b", options.KnownSkip)
		b.Output.Since = [][]string{{"out1", "a", "out0"}}
		res := mustRun(t, t.Context(), b)
		if got, want := w.asked(), wanted("/", "/fails", "/feed.xml"); !slices.Equal(got, want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
		if left := res.Snapshot.Refused[state.ReasonEarlier.String()]; left != knownPages+1 { // and the missing page
			t.Errorf("%d URLs were left out, want %d", left, knownPages+1)
		}
		checkBalanced(t, fs, []string{"b"})
	})
}

// TestSinceKnownList: of a list, a crawl fetches what the earlier crawls have not, whichever of them has it.
func TestSinceKnownList(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newKnownWorld(), memfs.New(*seedFlag)
		one := w.options(t, fs, "a", "")
		one.Limits.MaxPages = 40
		one.Admission.SeedLines = append(one.Admission.SeedLines, "http://k.test/a.jpg")
		mustRun(t, t.Context(), one)
		first := w.asked()
		w.again = true
		mustRun(t, t.Context(), w.options(t, fs, "b", options.KnownSkip, "a"))
		second := w.asked()
		list := w.options(t, fs, "c", options.KnownSkip, "a", "b")
		list.Admission.URLRules.SkipExtensions = []string{"jpg"} // of links, and not of a list
		list.Order.Strategy = strategy.Snapshot
		list.Admission.SeedLines = []string{"http://k.test/more"}
		for _, path := range slices.Concat(first, second) {
			list.Admission.SeedLines = append(list.Admission.SeedLines, "http://k.test"+path)
		}
		mustRun(t, t.Context(), list)
		if got := w.asked(); !slices.Equal(got, []string{"/fails", "/feed.xml", "/more"}) {
			t.Errorf("asked for %v", got)
		}
	})
}

// visits returns the requests by path, and forgets them.
func (w *changingWeb) visits() map[string][]request {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	all := map[string][]request{}
	for _, r := range w.Requests {
		all[r.Path] = append(all[r.Path], r)
	}
	w.Requests = nil
	return all
}

// TestSinceKnownDue: what the earlier crawl has planned is visited no earlier. With Recrawl it is visited then, by the
// server's log, with the validators of the earlier crawl; without, it is left out.
func TestSinceKnownDue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newChangingWeb(), memfs.New(*seedFlag)
		optionsOf := func(dir string, recrawl bool) Options {
			opt := tinyOptions(t, w.tinyWeb, fs, "http://r.test/")
			opt.Disk.Dirs, opt.Disk.CheckpointEvery = []string{dir}, 6*time.Hour
			opt.Limits.MaxTime = 3 * day
			if recrawl {
				opt.Recrawl = &revisit.Policy{Least: 6 * time.Hour, Longest: 6 * day, Default: day, Gone: 2}
			}
			if dir != "a" {
				opt.Output.Since, opt.Output.SinceKnown = [][]string{{"a"}}, options.KnownDue
			}
			return opt
		}
		mustRun(t, t.Context(), optionsOf("a", true))
		due := map[string]time.Time{}
		for _, row := range tableRows(t, fs, "a", export.URLs) {
			if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(row["next_due"])); err == nil {
				due[strings.TrimPrefix(fmt.Sprint(row["url"]), "http://r.test")] = at
			}
		}
		visits := w.visits
		visits()
		began := time.Now()
		once := mustRun(t, t.Context(), optionsOf("once", false))
		later := 0
		for path, rs := range visits() {
			if at, ok := due[path]; ok && path != "/" && at.After(began) {
				t.Errorf("%s was asked for %d times, and is due at %v", path, len(rs), at)
			}
		}
		for path, at := range due {
			if path != "/" && at.After(began) {
				later++
			}
		}
		if left := once.Snapshot.Refused[state.ReasonEarlier.String()]; left != int64(later) || later < 3 {
			t.Errorf("%d URLs were left out, %d are due later: %v", left, later, due)
		}
		mustRun(t, t.Context(), optionsOf("again", true))
		all, conditional := visits(), 0
		for path, at := range due {
			if path == "/" { // the seed
				continue
			}
			if len(all[path]) == 0 {
				if at.Before(began.Add(2 * day)) {
					t.Errorf("%s was not visited, and was due at %v", path, at)
				}
				continue
			}
			first := all[path][0]
			if first.At.Before(at.Add(-day / 16)) {
				t.Errorf("%s was visited at %v, and was due at %v", path, first.At, at)
			}
			if first.Header.Get("If-None-Match")+first.Header.Get("If-Modified-Since") != "" {
				conditional++
			}
		}
		if conditional < 2 {
			t.Errorf("%d visits were conditional", conditional)
		}
		checkBalanced(t, fs, []string{"once"})
		checkBalanced(t, fs, []string{"again"})
	})
}

// tableRows returns the rows of a table of the crawl in a directory.
func tableRows(t *testing.T, fs disk.FS, dir string, kind export.Kind) []map[string]any {
	t.Helper()
	opt := export.Options{FS: fs, Dirs: []string{dir}, Kind: kind, Format: tabular.JSONL,
		Target: dir + "-" + string(kind), TempDir: dir + "-tmp"}
	if _, err := export.Run(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	return exportedRows(t, fs, opt.Target)
}
