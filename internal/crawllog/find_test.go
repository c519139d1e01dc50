package crawllog

import (
	"fmt"
	"io"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// saved makes the log's first checkpoint and returns its state.
func saved(t *testing.T, l *Log, set disk.Set) *State {
	t.Helper()
	tails, err := disk.CreateTails(set, 1)
	must(t, err)
	f := l.Freeze()
	st, err := f.Save(tails)
	must(t, err)
	must(t, tails.Close())
	must(t, f.Commit())
	return st
}

// TestFind: Find returns the entries of the URLs from all parts of a log, the newest first, and respects
// the bound.
func TestFind(t *testing.T) {
	mem := memfs.New(1)
	opt := Options{Set: disk.Set{FS: mem, Paths: []string{"d"}}, FileBytes: 20_000, BlockBytes: minBlock}
	l, err := Open(opt, nil)
	must(t, err)
	const n = 5000
	urlOf := func(i int) string {
		return fmt.Sprintf("http://h%d.test/%x?\"q\\=é%d", i%9, uint64(i)*0x9e3779b97f4a7c15, i)
	}
	for i := range n {
		e := Entry{Time: time.Unix(1e9+int64(i), 0), URL: urlOf(i), Reason: "robots", MIME: urlOf(i + 1)}
		must(t, l.Append(&e))
	}
	st := saved(t, l, opt.Set)
	wrong := func(err error) error { return err }
	asked := []int{0, 1, 77, n / 2, n - 2, n - 1}
	urls := []string{"http://none.test/"}
	for _, i := range asked {
		urls = append(urls, urlOf(i))
	}
	got := map[string]bool{}
	cut, err := Find(opt, st, urls, 1<<30, func(e *Entry) error { got[e.URL] = true; return nil }, wrong)
	if err != nil || cut || len(got) != len(asked) {
		t.Errorf("found %v, cut %v, %v", got, cut, err)
	}
	for _, i := range asked {
		if !got[urlOf(i)] {
			t.Errorf("entry %d was not found", i)
		}
	}
	cut, err = Find(opt, st, urls[1:2], 1,
		func(*Entry) error { t.Error("Find returned the oldest entry with a bound of 1 byte"); return nil }, wrong)
	if err != nil || !cut {
		t.Errorf("with a bound: cut %v, %v", cut, err)
	}
	first := ""
	cut, err = Find(opt, st, urls, 1<<30, func(e *Entry) error { first = e.URL; return io.EOF }, wrong)
	if err != nil || cut || first != urlOf(n-2) && first != urlOf(n-1) {
		t.Errorf("the first entry is %s, cut %v, %v", first, cut, err)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
