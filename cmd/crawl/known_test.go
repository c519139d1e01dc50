package crawl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
)

// TestKnown: the URLs of an index are copied into the crawl's first directory, and a resumed crawl keeps the
// copy. A list without URLs, and seeds beside a list, are refused.
func TestKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.cdxj")
	write := func(text string) {
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("com,example)/ 20240102030405 {\"url\": \"http://example.com/\"}\nhttp://b.test/\ndns:b.test " +
		"20240102030405 {}\n")
	opt := crawl.Options{Disk: crawl.DiskOptions{FS: disk.OS(), Dirs: []string{filepath.Join(t.TempDir(), "d")}}}
	c := Command{priorityFlags: priorityFlags{Known: file}}
	view := NewView(&strings.Builder{}, &c.Logging)
	defer view.Close()
	for range 2 {
		name, err := readList(&opt, view, "--known", file, nil)
		must(t, err)
		if got, err := os.ReadFile(name); err != nil || string(got) != "http://example.com/\nhttp://b.test/\n" {
			t.Errorf("the copy has %q, %v", got, err)
		}
	}
	if err := c.checkSeeds(); err != nil {
		t.Error(err)
	}
	c.URLs = []string{"http://a.test/"}
	if err := c.checkSeeds(); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("seeds beside a list: %v", err)
	}
	write("dns:b.test 20240102030405 {}\n")
	_, err := readList(&opt, view, "--known", file, nil)
	if err == nil || !strings.Contains(err.Error(), "it has no URL") {
		t.Errorf("a list without URLs: %v", err)
	}
}

// TestWalkFlags: bad values of the flags of a random walk are refused, and good ones reach the crawl.
func TestWalkFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		walkers, urls flags.Count
		jump          float64
		ok            bool
	}{{1, 1, 0.9, true}, {10_000, 10_000_000, 0.01, true}, {0, 1, 0.1, false}, {10_001, 1, 0.1, false},
		{1, 0, 0.1, false}, {1, 10_000_001, 0.1, false}, {1, 1, 0, false}, {1, 1, 0.91, false}, {-1, 1, 0.1, false}} {
		p := priorityFlags{Strategy: order{Name: "random-walk", Walkers: c.walkers, URLs: c.urls, Jump: c.jump},
			Priority: priority{Name: "none"}}
		if err := p.check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		var o crawl.OrderOptions
		if p.apply(&o); c.ok && (o.Walk.Walkers != int(c.walkers) || o.Walk.URLs != int(c.urls) ||
			o.Walk.Jump != c.jump) {
			t.Errorf("%+v became %+v", c, o.Walk)
		}
	}
}

// TestRanksFlag: a faulty list of ranks ends the command before it writes anything, and a good one is taken.
func TestRanksFlag(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 2)
	port := url[strings.LastIndex(url, ":")+1:]
	file, dir := filepath.Join(t.TempDir(), "ranks.csv"), filepath.Join(t.TempDir(), "c")
	flags := append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port, "--dir", dir, "--ranks", file, url+"/")
	must(t, os.WriteFile(file, []byte("2,a.test\n1,b.test\n"), 0o600))
	_, errs := wantExit(t, term.ExitUsage, "", flags...)
	if !strings.Contains(errs, "line 2: rank 1 after rank 2: sort the list by rank") {
		t.Errorf("got %q", errs)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", dir, err)
	}
	must(t, os.WriteFile(file, []byte("1,a.test\n2,b.test\n"), 0o600))
	wantExit(t, term.ExitDone, "", flags...)
}
