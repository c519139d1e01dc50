package crawllog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/warc/outfile"
)

// rewriteLog writes a log of several files, the last one unfinished. Some lines name http://gone.test.
func rewriteLog(t *testing.T, opt Options) *State {
	l, err := Open(opt, nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		e := &Entry{Time: time.Unix(1e9+int64(i), 0), Status: 200}
		e.URL = fmt.Sprintf("http://h%d.test/%d", i/10000, rng.Uint64())
		if i > 10_000 && i%7 == 0 {
			e.Via = "http://gone.test/"
		}
		if i > 10_000 && i%100 == 1 {
			e.URL = "http://gone.test/" + fmt.Sprint(i)
		}
		must(t, l.Append(e))
	}
	tails, err := disk.CreateTails(opt.Set, 1)
	must(t, err)
	f := l.Freeze()
	st, err := f.Save(tails)
	must(t, err)
	must(t, tails.Close())
	must(t, f.Commit())
	must(t, l.Close())
	return st
}

// TestRewrite: a rewritten log has the lines of a simple model, in its final files, its unfinished one and its
// tail; files without a change keep their bytes, a dry run changes none, and a second Rewrite finds nothing.
func TestRewrite(t *testing.T) {
	mem := memfs.New(1)
	opt := Options{Set: disk.Set{FS: mem, Paths: []string{"/d"}}, FileBytes: 100 << 10, BlockBytes: minBlock}
	st := rewriteLog(t, opt)
	before := linesOf(t, opt, st)
	var want strings.Builder
	var dropped, modified int64
	for line := range strings.Lines(before) {
		var e Entry
		must(t, e.UnmarshalJSON([]byte(line)))
		switch withoutGone(&e) {
		case Drop:
			dropped++
			continue
		case Modify:
			modified++
		}
		want.Write(e.Append(nil))
	}
	content := func() map[string]string {
		names, err := mem.List("/d/log")
		must(t, err)
		all := map[string]string{}
		for _, name := range names {
			data, err := disk.ReadFile(mem, "/d/log/"+name)
			must(t, err)
			all[name] = string(data)
		}
		return all
	}
	files := content()
	dry, err := Rewrite(opt, st, Rewriting{Dry: true, Change: withoutGone})
	must(t, err)
	if now := content(); len(now) != len(files) || dry.Dropped != dropped || dry.Modified != modified {
		t.Errorf("a dry run: %+v, %d files", dry, len(now))
	}
	out, err := Rewrite(opt, st, Rewriting{Change: withoutGone})
	must(t, err)
	if out.Dropped != dropped || out.Modified != modified || dropped == 0 || modified == 0 {
		t.Errorf("%d lines dropped and %d modified, want %d and %d", out.Dropped, out.Modified, dropped, modified)
	}
	same := 0
	for name, data := range content() {
		if files[name] == data && !strings.HasSuffix(name, outfile.OpenSuffix) {
			same++
		}
	}
	if same == 0 || out.Files == 0 || len(out.Closed) != 1 {
		t.Errorf("%d files are as before, %d have changed, %d were closed", same, out.Files, len(out.Closed))
	}
	next := *st
	next.Files.Volumes = nil
	tails, err := disk.CreateTails(opt.Set, 2)
	must(t, err)
	next.Lines, err = tails.Write(0, out.Tail)
	must(t, err)
	must(t, tails.Close())
	if got := linesOf(t, opt, &next); got != want.String() {
		t.Errorf("%d bytes of lines, the model has %d", len(got), want.Len())
	}
	again, err := Rewrite(opt, &next, Rewriting{Change: withoutGone})
	if err != nil || again.Files+again.Dropped+again.Modified != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

// linesOf returns all lines of a log.
func linesOf(t *testing.T, opt Options, st *State) string {
	var text []byte
	_, err := Scan(opt, st, func(e *Entry) error {
		text = e.Append(text)
		return nil
	}, func(err error) error { return err })
	must(t, err)
	return string(text)
}

// withoutGone drops the lines of http://gone.test, and the vias of others.
func withoutGone(e *Entry) Change {
	switch {
	case strings.HasPrefix(e.URL, "http://gone"):
		return Drop
	case e.Via != "":
		e.Via = ""
		return Modify
	}
	return Keep
}
