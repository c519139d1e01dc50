package export_test

import (
	"maps"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestReputation: of a hoster, the directory and the host that others link to have a standing; the one that only the
// hoster's own pages link to, many times, has none.
func TestReputation(t *testing.T) {
	testworld.NotShort(t)
	own := strings.Repeat("<a href=/spam/1>x</a><a href=http://spam.hoster.test/>y</a>", 50)
	pages := map[string]string{
		"a.test/": `<a href=http://hoster.test/good/1>1</a><a href=http://hoster.test/good/2?x=/y/z>2</a>
			<a href=http://www.a.test/>3</a><a href=http://b.test/>4</a>`,
		"www.a.test/": `<a href=http://hoster.test/good/1>1</a>`,
		"b.test/": `<a href=http://hoster.test/good/1>1</a><a href=http://hoster.test/file>2</a>
			<a href="http://blog.hoster.test/?u=/x/">3</a><a href=http://a.test/>4</a>`,
		"hoster.test/good/1": own, "hoster.test/good/2": own, "hoster.test/file": own,
	}
	web := &testworld.Web{Serve: func(host, path string) testworld.Answer {
		if path == "/robots.txt" {
			return testworld.NoRobots
		}
		path, _, _ = strings.Cut(path, "?")
		return testworld.Answer{200, "", "<html>" + host + path + pages[host+path]}
	}}
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		for _, ram := range []int64{0, 1} {
			var b strings.Builder
			_, err := export.Run(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Reputation,
				Format: tabular.CSV, Stream: &b, TempDir: "tmp", RAMBytes: ram})
			must(t, err)
			const want = `host,segment,plds,hosts,links
a.test,,1,1,1
b.test,,1,1,1
blog.hoster.test,,1,1,1
hoster.test,,2,3,5
hoster.test,good,2,3,4
`
			if b.String() != want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
			}
			checkHostPLDs(t, export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.URLs, CountLinks: true,
				Format: tabular.JSONL, Target: "state", TempDir: "tmp", RAMBytes: ram},
				map[string]float64{"a.test": 1, "www.a.test": 0, "b.test": 1, "blog.hoster.test": 1, "hoster.test": 2,
					"spam.hoster.test": 0})
		}
	})
}

// checkHostPLDs exports the state of URLs, and compares the PLDs that link to each host.
func checkHostPLDs(t *testing.T, x export.Options, want map[string]float64) {
	t.Helper()
	_, err := export.Run(t.Context(), x)
	must(t, err)
	got := map[string]float64{}
	for _, row := range testworld.ExportedRows(t, x.FS, x.Target) {
		host, n := row["url_host_name"].(string), row["host_plds"].(float64)
		if was, is := got[host]; is && was != n {
			t.Errorf("%s has %v PLDs, and %v", host, was, n)
		}
		got[host] = n
	}
	if !maps.Equal(got, want) {
		t.Errorf("PLDs that link to hosts: %v, want %v", got, want)
	}
}
