package log

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
)

func TestMain(m *testing.M) { cmdtest.Main[commands](m) }

// commands are those that the tests here run.
type commands struct {
	Log Command `cmd:""`
}

func wantExit(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	return cmdtest.WantExit[commands](t, code, "", args...)
}

// began is the time of the first line.
var began = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)

// world is a crawl with logs that the test writes.
type world struct {
	t    testing.TB
	set  disk.Set // two directories
	opt  crawllog.Options
	logs map[string]*crawllog.Log
	last state.Manifest
}

// newWorld makes a crawl with the logs crawl and robots in the directories root/a and root/b.
func newWorld(t testing.TB, fsys disk.FS, root string, fileBytes int64) *world {
	t.Helper()
	w := &world{t: t, set: disk.Set{FS: fsys, Paths: []string{root + "/a", root + "/b"}},
		logs: map[string]*crawllog.Log{}}
	for i, dir := range w.set.Paths {
		w.must(fsys.MkdirAll(dir + "/state"))
		w.must(disk.WriteIdentity(fsys, dir, disk.Identity{Crawl: "0123", Kind: state.KindState, Number: i, Count: 2}))
	}
	w.opt = crawllog.Options{Set: w.set, FileBytes: fileBytes, BlockBytes: 34 << 10}
	for _, prefix := range []string{"crawl", "robots"} {
		opt := w.opt
		opt.Prefix = prefix
		l, err := crawllog.Open(opt, nil)
		w.must(err)
		t.Cleanup(func() { _ = l.Close() })
		w.logs[prefix] = l
	}
	w.last = state.Manifest{Crawl: "0123", Parts: map[string]json.RawMessage{},
		Run: &state.LastRun{CrawlLog: state.LogAll}}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add appends an entry to a log, seconds after began.
func (w *world) add(log string, seconds float64, e crawllog.Entry) {
	w.t.Helper()
	e.Time = began.Add(time.Duration(seconds * float64(time.Second)))
	if e.URL == "" {
		e.URL = fmt.Sprintf("http://h%d.test/%x", int(seconds)%7, uint64(seconds*1000)*0x9e3779b97f4a7c15)
	}
	w.must(w.logs[log].Append(&e))
}

// checkpoint makes a checkpoint.
func (w *world) checkpoint() {
	w.t.Helper()
	old := w.last.Gen
	w.last.Gen++
	tails, err := disk.CreateTails(w.set, w.last.Gen)
	w.must(err)
	var frozen []*crawllog.Frozen
	for prefix, l := range w.logs {
		f := l.Freeze()
		st, err := f.Save(tails)
		w.must(err)
		raw, err := json.Marshal(st)
		w.must(err)
		w.last.Parts[names[prefix]] = raw
		frozen = append(frozen, f)
	}
	w.must(tails.Close())
	data, err := state.EncodeManifest(&w.last)
	w.must(err)
	for _, path := range state.CopyPaths(w.set, state.ManifestName) {
		w.must(disk.WriteFileAtomic(w.set.FS, path, data))
	}
	for _, f := range frozen {
		w.must(f.Commit())
	}
	w.must(disk.RemoveTails(w.set, func(gen uint64) bool { return gen != old }))
}

// roll closes the files of a log.
func (w *world) roll(log string, seconds float64) {
	w.t.Helper()
	w.must(w.logs[log].Roll(began.Add(time.Duration(seconds * float64(time.Second)))))
}

// run runs a command on the world's file system and returns what it prints.
func (w *world) run(c Command) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	if c.Log == nil {
		c.Log = []string{"crawl"}
	}
	if c.Dir == nil {
		c.Dir = w.set.Paths
	}
	a := term.NewApp(strings.NewReader(""), &out, &errs)
	err = c.run(w.t.Context(), a, w.set.FS)
	return out.String(), errs.String(), err
}

// parse fills the table from flags.
func parse(t *testing.T, table *commands, args []string) {
	t.Helper()
	cmdtest.Parse(t, table, append([]string{"log", "/c/b", "/c/a"}, args...)...)
}
