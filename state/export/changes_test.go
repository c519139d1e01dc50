package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/erase"
	"drumbeat/state/export"
)

// feedRow is a row of the feed.
type feedRow struct {
	Change   string    `json:"change"`
	Time     time.Time `json:"time"`
	URL      string    `json:"url"`
	Status   int       `json:"fetch_status"`
	Redirect string    `json:"fetch_redirect"`
	Digest   string    `json:"content_digest"`
	Reason   string    `json:"reason"`
	Last     string    `json:"last_change"`
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	Token    string    `json:"token"`
}

func (r *feedRow) name() string { return fmt.Sprint(r.Time.Unix(), " ", r.URL, " ", r.Change) }

// changesOf returns the rows of the feed, and the report.
func changesOf(t *testing.T, fs disk.FS, opt *crawl.Options, x export.Options) (rows []feedRow, rep *export.Report) {
	t.Helper()
	rows, rep, err := tryChanges(t, fs, opt, x)
	must(t, err)
	return rows, rep
}

func tryChanges(t *testing.T, fs disk.FS, opt *crawl.Options, x export.Options) (rows []feedRow,
	rep *export.Report, err error) {
	t.Helper()
	var out bytes.Buffer
	x.FS, x.Dirs, x.Out, x.Kind, x.Format = fs, opt.Disk.Dirs, opt.Disk.Out, export.Changes, tabular.JSONL
	x.TempDir, x.Stream = "tmp", &out
	rep, err = export.Run(t.Context(), x)
	for line := range strings.Lines(out.String()) {
		var r feedRow
		must(t, json.Unmarshal([]byte(line), &r))
		rows = append(rows, r)
	}
	return rows, rep, err
}

// checkChanges compares rows with the truth, and their order.
func checkChanges(t *testing.T, rows []feedRow, truth []change) {
	t.Helper()
	if !slices.IsSortedFunc(rows, func(a, b feedRow) int { return a.Time.Compare(b.Time) }) {
		t.Error("the rows are not in the order of time")
	}
	checkSameChanges(t, rows, truth)
}

// checkSameChanges compares rows with the truth.
func checkSameChanges(t *testing.T, rows []feedRow, truth []change) {
	t.Helper()
	var got, want []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.name(), " ", r.Redirect))
	}
	for _, c := range truth {
		want = append(want, fmt.Sprint(c.at, " ", c.url, " ", c.change, " ", c.to))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d rows, want %d\n%s\n\nwant\n%s", len(got), len(want), strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// TestExportChanges: the rows are what the site has changed, in the order of time, with the texts of its pages. Each
// row has a token from which the rest follows.
func TestExportChanges(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		crawltest.MustRun(t, t.Context(), opt)
		truth := web.changes()
		all, _ := changesOf(t, fs, &opt, export.Options{Unchanged: true})
		checkChanges(t, all, truth)
		bodies := map[string]string{} // of the truth, by name
		for _, c := range truth {
			bodies[fmt.Sprint(c.at, " ", c.url, " ", c.change)] = c.body
		}
		truth = slices.DeleteFunc(truth, func(c change) bool { return c.change == "unchanged" })
		rows, rep := changesOf(t, fs, &opt, export.Options{Texts: true})
		checkChanges(t, rows, truth)
		kinds, last := map[string]int{}, map[string]string{}
		for i, r := range rows {
			kinds[r.Change]++
			if r.Last != last[r.URL] {
				t.Errorf("%s: the last change was at %q, want %q", r.name(), r.Last, last[r.URL])
			}
			last[r.URL] = r.Time.Format("2006-01-02T15:04:05.000Z")
			body := bodies[r.name()]
			title, _, ok := strings.Cut(strings.TrimPrefix(body, "<html><title>"), "</title>")
			if ok && r.Title != title {
				t.Errorf("%s: title %q, want %q", r.name(), r.Title, title)
			}
			_, text, ok := strings.Cut(strings.TrimSuffix(body, "</p>"), "<p>")
			if ok && strings.TrimSpace(text) != strings.TrimSpace(r.Text) || body == "" && r.Text != "" {
				t.Errorf("%s: text of %d bytes, want %d", r.name(), len(r.Text), len(text))
			}
			if i%7 > 0 {
				continue
			}
			rest, _ := changesOf(t, fs, &opt, export.Options{Token: r.Token})
			if len(rest) != len(rows)-i-1 || len(rest) > 0 && rest[0].name() != rows[i+1].name() {
				t.Fatalf("after row %d of %d there are %d", i, len(rows), len(rest))
			}
		}
		for kind, least := range map[string]int{"new": 11, "changed": 14, "moved": 4, "gone": 3} {
			if kinds[kind] < least {
				t.Errorf("%d rows of the kind %s", kinds[kind], kind)
			}
		}
		if rest, again := changesOf(t, fs, &opt, export.Options{Token: rep.Token}); len(rest) > 0 ||
			again.Token != rep.Token || len(rep.Notes) > 0 {
			t.Errorf("%d rows after the end; notes %q", len(rest), rep.Notes)
		}
		middle := rows[len(rows)/2].Time
		since, _ := changesOf(t, fs, &opt, export.Options{Since: middle})
		checkChanges(t, since, slices.DeleteFunc(truth, func(c change) bool { return c.at < middle.Unix() }))
	})
}

// TestExportChangesResumed: a reader who takes some rows of each feed of a crawl that power cuts end, and continues at
// its last row, has each row once at the end.
func TestExportChangesResumed(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(*testworld.Seed), 41))
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Disk.CheckpointEvery = 3 * time.Hour
		opt.Health.Retries = 20
		began := time.Now()
		var taken []feedRow
		token, cuts, tokens := "", 0, 0
		read := func(share float64) {
			t.Helper()
			rows, rep, err := tryChanges(t, fs, &opt, export.Options{Token: token})
			if err != nil && token == "" { // the crawl has no checkpoint yet
				return
			}
			must(t, err)
			rows = rows[:int(float64(len(rows))*share)]
			if taken = append(taken, rows...); len(rows) > 0 {
				token = rows[len(rows)-1].Token
				tokens++
			}
			if share == 1 {
				token = rep.Token
			}
		}
		for time.Since(began) < 6*day {
			opt.Disk.FS = fs
			opt.Limits.MaxTime = time.Since(began) + time.Duration(rng.Int64N(int64(14*time.Hour)))
			if rng.IntN(4) > 0 {
				fs.CrashAfter(1 + rng.IntN(300))
			}
			if _, err := crawl.Run(t.Context(), opt); err != nil {
				cuts++
				time.Sleep(time.Minute)
			}
			fs = fs.Crash()
			read([]float64{0, 0.3, 0.7, 1}[rng.IntN(4)])
		}
		opt.Disk.FS, opt.Limits.MaxTime = fs, time.Since(began)+12*time.Hour
		crawltest.MustRun(t, t.Context(), opt)
		read(1)
		all, _ := changesOf(t, fs, &opt, export.Options{})
		got, want := map[string]int{}, map[string]int{}
		for i, rows := range [][]feedRow{taken, all} {
			for _, r := range rows {
				[]map[string]int{got, want}[i][r.name()]++
			}
		}
		for name, n := range got {
			if n != 1 || want[name] != 1 {
				t.Errorf("%s is there %d times, in a whole feed %d times", name, n, want[name])
			}
		}
		if !maps.Equal(got, want) || cuts < 1 || tokens < 4 || len(want) < 30 {
			t.Errorf("%d rows of %d; %d cuts, %d tokens", len(got), len(want), cuts, tokens)
		}
		served := map[string]bool{} // by time and URL
		for _, s := range web.served {
			served[fmt.Sprint(s.at.Unix(), " ", s.url)] = true
		}
		for _, r := range all {
			if !served[fmt.Sprint(r.Time.Unix(), " ", r.URL)] {
				t.Errorf("%s: the site answered nothing", r.name())
			}
		}
	})
}

// TestExportChangesErased: an erasure is a row for each target, after which no row has it; no row is lost.
func TestExportChangesErased(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Limits.MaxTime = 3 * day
		crawltest.MustRun(t, t.Context(), opt)
		before, rep := changesOf(t, fs, &opt, export.Options{})
		const url = "http://a.test/often"
		for _, hide := range []bool{false, true} {
			_, err := erase.Run(erase.Options{FS: fs, Dirs: opt.Disk.Dirs, Reason: "asked", Hide: hide,
				Source: erase.Source{URLs: []string{url}}, RAMBytes: 64 << 20, Now: time.Now})
			must(t, err)
		}
		opt.Limits.MaxTime = 5 * day
		crawltest.MustRun(t, t.Context(), opt)
		rest, _ := changesOf(t, fs, &opt, export.Options{Token: rep.Token})
		all, _ := changesOf(t, fs, &opt, export.Options{})
		known := map[string]bool{}
		erased := 0
		for _, r := range before {
			known[r.name()] = true
		}
		for _, r := range rest {
			if r.Change == "erased" {
				if erased++; r.URL != []string{"", url, ""}[erased] || r.Reason != "asked" {
					t.Errorf("%+v", r)
				}
			}
			known[r.name()] = true
		}
		if erased != 2 {
			t.Errorf("%d rows of erasures", erased)
		}
		for _, r := range all {
			if !known[r.name()] {
				t.Errorf("%s is lost", r.name())
			}
			if r.URL == url && r.Change != "erased" {
				t.Errorf("%s is still there", r.name())
			}
		}
	})
}

// TestExportChangesErasedLate: the row of an erasure has the time at which its pages were gone, not that of its
// request.
func TestExportChangesErasedLate(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Limits.MaxTime = time.Hour
		crawltest.MustRun(t, t.Context(), opt)
		asked := time.Now()
		_, err := erase.Run(erase.Options{FS: fs, Dirs: opt.Disk.Dirs, Reason: "asked", RAMBytes: 64 << 20,
			Source: erase.Source{URLs: []string{"http://a.test/often"}},
			Now:    func() time.Time { now := time.Now(); time.Sleep(time.Hour); return now }})
		must(t, err)
		rows, _ := changesOf(t, fs, &opt, export.Options{Since: asked.Add(30 * time.Minute)})
		if len(rows) != 1 || rows[0].Change != "erased" || rows[0].URL != "http://a.test/often" {
			t.Errorf("since half an hour after the request: %+v", rows)
		}
	})
}

// TestExportChangesToken: tokens that are cut, changed, of another crawl, or of a later checkpoint are refused.
func TestExportChangesToken(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Limits.MaxTime = day
		crawltest.MustRun(t, t.Context(), opt)
		copied := fs.Fork(uint64(*testworld.Seed))
		_, early := changesOf(t, fs, &opt, export.Options{})
		opt.Limits.MaxTime = 2 * day
		crawltest.MustRun(t, t.Context(), opt)
		rows, late := changesOf(t, fs, &opt, export.Options{})
		otherFS := memfs.New(*testworld.Seed + 1)
		other := livingOptions(t, newLivingWeb(), otherFS)
		other.Limits.MaxTime = time.Hour
		crawltest.MustRun(t, t.Context(), other)
		token := rows[3].Token
		if export.IsToken("2026-11-21") || export.IsToken("7d") || !export.IsToken(token) {
			t.Error("a time and a token are confused")
		}
		for i := range token {
			bad := []byte(token)
			if bad[i] ^= 1; export.IsToken(string(bad)) || export.IsToken(token[:i]) {
				t.Errorf("%s is a token", bad)
			}
		}
		for _, c := range []struct {
			fs    disk.FS
			opt   *crawl.Options
			token string
			want  string
		}{
			{fs, &opt, token[:20], "copy it whole"},
			{otherFS, &other, token, "of another one"},
			{copied, &opt, late.Token, "an earlier checkpoint"},
			{copied, &opt, early.Token, ""},
		} {
			_, _, err := tryChanges(t, c.fs, c.opt, export.Options{Token: c.token})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, export.ErrToken) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	})
}
