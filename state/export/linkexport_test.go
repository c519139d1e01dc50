package export_test

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/export"
	"drumbeat/warc"
)

const day = 24 * time.Hour

// exportedLinks exports the links of a crawl to target. It returns them as "from to element [rel] text", and
// the report.
func exportedLinks(t *testing.T, fs disk.FS, opt *crawl.Options, target string) ([]string, *export.Report) {
	t.Helper()
	x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out, Kind: export.Links, Format: tabular.JSONL,
		Target: target, TempDir: "tmp"}
	rep, err := export.Run(t.Context(), x)
	must(t, err)
	var list []string
	for _, r := range testworld.ExportedRows(t, fs, x.Target) {
		rel, _ := r["rel"].(string)
		text, _ := r["anchor_text"].(string)
		if r["nofollow"] != strings.Contains(strings.ToLower(rel), "nofollow") {
			t.Errorf("nofollow of %v", r)
		}
		list = append(list, fmt.Sprintf("%s %s %s [%s] %s", r["from_url"], r["to_url"], r["element"], rel, text))
	}
	return list, rep
}

// TestExportLinks: each link of each page is a row, as often as the page has it, with absolute URL, rel and
// text; redirects and headers too. Pages of error statuses, images and parts of pages have none.
func TestExportLinks(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := &testworld.Web{Serve: func(_, path string) testworld.Answer {
			switch path {
			case "/robots.txt":
				return testworld.NoRobots
			case "/":
				return testworld.Answer{200, "Link: </next>; rel=next; title=x, </style>; rel=stylesheet\r\n",
					"<html><base href=/dir/><a href=one rel='nofollow me'>The <b>first</b>\n one</a><a " +
						"href=../moved>moved</a><a href=one>again</a>" +
						"<link rel='canonical' href=/><link rel=stylesheet href=style><img src=image><iframe " +
						"src=/frame></iframe>" +
						"<form action=/search></form><a href=mailto:x@a.test>no</a><a " +
						"href='http://b.test/%7Ex#y'>&amp;</a><a href=/text>t</a><a href=/gone>g</a>"}
			case "/moved":
				return testworld.Answer{302, "Location: dir/../two\r\n", "<html><a href=/no>no</a>"}
			case "/two":
				return testworld.Answer{200, "Refresh: 5; url=three\r\n",
					"<html><meta http-equiv=refresh content='0; url=four'>"}
			case "/gone":
				return testworld.Answer{410, "", "<html><a href=/no>no</a>"}
			}
			return testworld.Answer{200, "", "<html>"}
		}, Raw: func(c net.Conn, _, path string) bool {
			body := map[string]string{"/text": "<!doctype html><html><a href=/sniffed>s</a>",
				"/sniffed": "<a href=/no>text</a>"}[path]
			if body != "" {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: "+
					"close\r\n\r\n%s", len(body), body)
			}
			return body != ""
		}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		got, rep := exportedLinks(t, fs, &opt, "links")
		want := []string{
			"http://a.test/ http://a.test/dir/one a [nofollow me] The first one",
			"http://a.test/ http://a.test/moved a [] moved",
			"http://a.test/ http://a.test/dir/one a [] again",
			"http://a.test/ http://a.test/ link [canonical] ",
			"http://a.test/ http://a.test/frame iframe [] ",
			"http://a.test/ http://a.test/search form [] ",
			"http://a.test/ http://b.test/~x a [] &",
			"http://a.test/ http://a.test/text a [] t",
			"http://a.test/ http://a.test/gone a [] g",
			"http://a.test/ http://a.test/next link-header [next] ",
			"http://a.test/moved http://a.test/two redirect [] ",
			"http://a.test/two http://a.test/four meta [] ",
			"http://a.test/two http://a.test/three refresh-header [] ",
			"http://a.test/text http://a.test/sniffed a [] s",
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(rep.Notes) > 0 {
			t.Errorf("got\n%s\nwant\n%s\nnotes %q", strings.Join(got, "\n"), strings.Join(want, "\n"), rep.Notes)
		}
	})
}

// TestExportLinksOfMirrors: pages stored as revisits have the links of the body that they share, each from
// its own URL. The arcs are the same links, once each.
func TestExportLinksOfMirrors(t *testing.T) {
	const hosts, pages = 4, 30
	want := map[string]int{}
	for i := range hosts {
		host := fmt.Sprintf("http://m%d.test/", i)
		want[fmt.Sprintf("http://m0.test/ %sp0 a [] m", host)]++
		for p := range pages - 1 {
			want[fmt.Sprintf("%sp%d %sp%d a [] n", host, p, host, p+1)]++
		}
		want[fmt.Sprintf("%sp%d %send a [] e", host, pages-1, host)]++
	}
	for _, format := range []warc.Format{warc.Gzip, warc.Zstd} {
		testworld.InBubble(t, func(t *testing.T) {
			fs := memfs.New(*testworld.Seed)
			opt := crawltest.WebOptions(t, testworld.Mirrors(hosts, pages), fs, "http://m0.test/")
			opt.Output.Store, opt.Output.WARCFileBytes, opt.Network.Connections = true, 20_000, 4
			opt.Output.WARCFormat = format
			res := crawltest.MustRun(t, t.Context(), opt)
			if res.Snapshot.Count(state.CountRevisits) < (hosts-1)*pages {
				t.Errorf("%d revisits", res.Snapshot.Count(state.CountRevisits))
			}
			list, rep := exportedLinks(t, fs, &opt, "links")
			got := map[string]int{}
			for _, l := range list {
				got[l]++
			}
			if !maps.Equal(got, want) || len(rep.Notes) > 0 {
				t.Errorf("%v: %d rows, %d different ones, want %d; notes %q", format, len(list), len(got),
					len(want), rep.Notes)
			}
			x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Links, Format: export.Arc, Target: "graph",
				TempDir: "tmp"}
			if _, err := export.Run(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			arcs := graphOf(t, fs, "graph")
			if len(arcs) != len(want) {
				t.Errorf("%v: %d arcs, want %d", format, len(arcs), len(want))
			}
			for l := range want {
				ends := strings.Join(strings.Fields(l)[:2], " ")
				if arcs[ends] != 1 {
					t.Errorf("%v: arc %s is there %d times", format, ends, arcs[ends])
				}
			}
			if again, err := export.Run(t.Context(), x); err != nil || !again.Complete {
				t.Errorf("%v: the second export: %v, %+v", format, err, again)
			}
			checkHostGraph(t, fs, &opt, want)
			checkInlinks(t, fs, &opt, want)
		})
	}
}

// graphOf reads the tables of a graph, and returns the arcs by the names of their ends.
func graphOf(t *testing.T, fs disk.FS, dir string) map[string]int {
	t.Helper()
	table := func(name string) (lines []string) {
		names, err := fs.List(dir + "/" + name)
		must(t, err)
		for _, file := range names {
			if strings.HasPrefix(file, "part-") {
				data, err := disk.ReadFile(fs, dir+"/"+name+"/"+file)
				must(t, err)
				lines = append(lines, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
			}
		}
		return lines
	}
	nodes, arcs, before := []string{}, map[string]int{}, [2]int{-1, -1}
	for i, line := range table("vertices") {
		id, name, _ := strings.Cut(line, "\t")
		if id != strconv.Itoa(i) || i > 0 && nodes[i-1] >= name {
			t.Errorf("vertex %d is %q", i, line)
		}
		nodes = append(nodes, name)
	}
	for _, line := range table("edges") {
		var a [2]int
		if _, err := fmt.Sscanf(line, "%d\t%d", &a[0], &a[1]); err != nil {
			t.Fatal(err)
		}
		if slices.Compare(before[:], a[:]) >= 0 {
			t.Errorf("arc %v follows %v", a, before)
		}
		before = a
		arcs[nodes[a[0]]+" "+nodes[a[1]]]++
	}
	return arcs
}

// TestExportLinksOfManyMirrors: the links of more pages with one body than are found by one reading of it.
func TestExportLinksOfManyMirrors(t *testing.T) {
	const pages = 1100
	testworld.InBubble(t, func(t *testing.T) {
		web := &testworld.Web{Serve: func(_, path string) testworld.Answer {
			switch {
			case path == "/robots.txt":
				return testworld.NoRobots
			case path == "/":
				var b strings.Builder
				for i := range pages {
					fmt.Fprintf(&b, "<a href=p%d>p</a>", i)
				}
				return testworld.Answer{200, "", "<html>" + b.String()}
			}
			return testworld.Answer{200, "", "<html><a href=/end>e</a>" + strings.Repeat("text ", 100)}
		}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = true, 20*time.Millisecond, 10*time.Millisecond, time.Millisecond,
			time.Millisecond
		crawltest.MustRun(t, t.Context(), opt)
		got, rep := exportedLinks(t, fs, &opt, "links")
		ends := 0
		for _, l := range got {
			if strings.HasSuffix(l, " http://a.test/end a [] e") {
				ends++
			}
		}
		if ends != pages+1 || len(got) != 2*pages+1 || rep.Damaged != 0 || len(rep.Notes) > 0 {
			t.Errorf("%d links, %d to the end, want %d; %d damaged, notes %q", len(got), ends, pages+1,
				rep.Damaged, rep.Notes)
		}
	})
}

// TestExportLinksDamaged: a damaged record, and a WARC file that was moved away are said; other links
// are there.
func TestExportLinksDamaged(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, testworld.Mirrors(1, 40), fs, "http://m0.test/")
		opt.Output.Store, opt.Output.WARCFileBytes, opt.Output.ArchiveRobots = true, 10_000, false
		crawltest.MustRun(t, t.Context(), opt)
		whole, _ := exportedLinks(t, fs, &opt, "links")
		var files []string
		names, err := fs.List(opt.Disk.Dirs[0] + "/warc")
		must(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".warc.gz") {
				files = append(files, opt.Disk.Dirs[0]+"/warc/"+name)
			}
		}
		if len(files) < 3 || len(whole) != 41 {
			t.Fatalf("%d files, %d links", len(files), len(whole))
		}
		data, err := disk.ReadFile(fs, files[1])
		must(t, err)
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL, Target: "pages",
			TempDir: "tmp"}
		if _, err := export.Run(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		for _, r := range testworld.ExportedRows(t, fs, "pages") {
			if strings.HasSuffix(files[1], "/"+r["warc_filename"].(string)) {
				data[int(r["warc_record_offset"].(float64)+r["warc_record_length"].(float64)/2)] ^= 0x40
				break
			}
		}
		must(t, disk.WriteFileAtomic(fs, files[1], data))
		got, rep := exportedLinks(t, fs, &opt, "damaged")
		if rep.Damaged != 1 || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "1 record is damaged") ||
			len(got) != len(whole)-1 {
			t.Errorf("damaged record: %d links of %d, %d damaged, notes %q", len(got), len(whole),
				rep.Damaged, rep.Notes)
		}
		must(t, fs.Rename(files[1], "elsewhere"))
		got, rep = exportedLinks(t, fs, &opt, "moved")
		if rep.Damaged != 0 || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "moved away") || len(got) < 10 ||
			len(got) > len(whole)-3 {
			t.Errorf("file moved away: %d links of %d, %d damaged, notes %q", len(got), len(whole),
				rep.Damaged, rep.Notes)
		}
	})
}

// visitedWeb has pages that change, come back, move and go from day to day.
func visitedWeb() *testworld.Web {
	began := time.Now()
	text := strings.Repeat("text ", 100)
	return &testworld.Web{Reply: func(req *http.Request) (testworld.Answer, bool) {
		if req.Host != "a.test" {
			return testworld.NoRobots, true
		}
		age := time.Since(began) / day
		link := func(to string) testworld.Answer {
			return testworld.Answer{200, "", "<html>" + req.RequestURI + text + "<a href=" + to + ">l</a>"}
		}
		switch req.RequestURI {
		case "/robots.txt":
			return testworld.NoRobots, true
		case "/":
			if age < 3 {
				return testworld.Answer{200, "", "<html><a href=same>s</a><a href=turns>s</a><a " +
					"href=tagged>s</a><a href=gone>s</a><a href=moves>s</a>" +
					"<a href=twin>s</a><a href=http://c.test/>s</a>"}, true
			}
			return testworld.Answer{200, "", "<html><a href=same>s</a><a href=new>s</a>"}, true
		case "/same":
			return link("http://b.test/"), true
		case "/twin": // has the body that /turns had
			return testworld.Answer{200, "", "<html>/turns" + text + "<a href=/v1>l</a>"}, true
		case "/turns": // 0, 1, 0
			return link(fmt.Sprintf("/v%d", age/2%2)), true
		case "/tagged":
			if a := link("/t"); req.Header.Get("If-None-Match") == "" {
				a.Header = "ETag: \"x\"\r\n"
				return a, true
			}
			return testworld.Answer{304, "ETag: \"x\"\r\n", ""}, true
		case "/gone":
			if age > 4 {
				return testworld.Answer{404, "", "<html>"}, true
			}
			return link("/no"), true
		case "/moves":
			if age > 2 {
				return testworld.Answer{301, "Location: /same\r\n", ""}, true
			}
			return link("/no"), true
		}
		return testworld.Answer{404, "", "<html>"}, true
	}}
}

// TestExportLinksOfVisits: of a URL that was visited several times the links are those of the last capture:
// of its own body, of an earlier one that came back or was confirmed by a 304, or of none. So are its status
// in the site's report, and the counts of links.
func TestExportLinksOfVisits(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web := visitedWeb()
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store, opt.Output.CrawlLog, opt.Output.WARCFileBytes = true, state.LogAll, 4000
		opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: day, Longest: day, Default: day, Gone: 9}
		opt.Limits.MaxTime = 5*day + 12*time.Hour
		crawltest.MustRun(t, t.Context(), opt)
		got, rep := exportedLinks(t, fs, &opt, "links")
		want := []string{
			"http://a.test/ http://a.test/new a [] s",
			"http://a.test/ http://a.test/same a [] s",
			"http://a.test/moves http://a.test/same redirect [] ",
			"http://a.test/same http://b.test/ a [] l",
			"http://a.test/tagged http://a.test/t a [] l",
			"http://a.test/turns http://a.test/v0 a [] l",
			"http://a.test/twin http://a.test/v1 a [] l",
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(rep.Notes) > 0 {
			t.Errorf("got\n%s\nwant\n%s\nnotes %q", strings.Join(got, "\n"), strings.Join(want, "\n"), rep.Notes)
		}
		site, _, err := export.Site(t.Context(),
			export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"}, "a.test", export.SiteOptions{Rows: 100})
		must(t, err)
		// Missing are /gone, and /t, /new, /v0, /v1, /no, which never were.
		if statuses := map[int]int64{200: 5, 301: 1, 404: 6}; !maps.Equal(site.Statuses, statuses) || site.Pages != 5 ||
			site.Links != 6 {
			t.Errorf("%d pages, %d links, statuses %v, want %v", site.Pages, site.Links, site.Statuses, statuses)
		}
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.PLDEdges, Format: tabular.JSONL, CountLinks: true,
			Target: "edges", TempDir: "tmp"}
		if _, err := export.Run(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		for _, r := range testworld.ExportedRows(t, fs, x.Target) {
			if want := map[any]any{"b.test": 1.0, "c.test": 0.0}[r["to_pld"]]; r["links"] != want {
				t.Errorf("%v links to %v, want %v", r["links"], r["to_pld"], want)
			}
		}
	})
}

// checkHostGraph compares the tables of the graph of hosts with the links.
func checkHostGraph(t *testing.T, fs disk.FS, opt *crawl.Options, links map[string]int) {
	t.Helper()
	edges, in, out := map[string]int{}, map[string]int{}, map[string]int{}
	for l, n := range links {
		ends := strings.Fields(l)
		from, to := strings.Split(ends[0], "/")[2], strings.Split(ends[1], "/")[2]
		in[from] += 0
		in[to] += 0
		if from == to {
			continue
		}
		if edges[from+","+to] += n; edges[from+","+to] == n {
			in[to]++
			out[from]++
		}
	}
	lines := func(kind export.Kind) []string {
		var b strings.Builder
		_, err := export.Run(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: kind,
			Format: tabular.CSV, Stream: &b, TempDir: "tmp-" + string(kind)})
		must(t, err)
		return strings.Split(strings.TrimSpace(b.String()), "\n")[1:]
	}
	got := lines(export.HostEdges)
	for _, line := range got {
		cut := strings.LastIndexByte(line, ',')
		if strconv.Itoa(edges[line[:cut]]) != line[cut+1:] {
			t.Errorf("host edge %s, want %d links", line, edges[line[:cut]])
		}
	}
	if len(got) != len(edges) || len(edges) == 0 {
		t.Errorf("%d edges of hosts, want %d", len(got), len(edges))
	}
	ranked, sum := lines(export.HostRanks), 0.0
	for _, line := range ranked {
		f := strings.Split(line, ",")
		pageRank, err := strconv.ParseFloat(f[6], 64)
		must(t, err)
		sum += pageRank
		if f[1] != strconv.Itoa(in[f[0]]) || f[2] != strconv.Itoa(out[f[0]]) {
			t.Errorf("ranks %s, want degrees %d and %d", line, in[f[0]], out[f[0]])
		}
	}
	if len(ranked) != len(in) || math.Abs(sum-1) > 1e-5 {
		t.Errorf("%d hosts with ranks, want %d; the sum of PageRank is %f", len(ranked), len(in), sum)
	}
	arc := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.HostEdges, Format: export.Arc,
		Target: "host-graph", TempDir: "tmp-arc"}
	_, err := export.Run(t.Context(), arc)
	must(t, err)
	if arcs := graphOf(t, fs, "host-graph"); len(arcs) != len(edges) {
		t.Errorf("%d arcs of hosts, want %d", len(arcs), len(edges))
	}
	if plds := lines(export.PLDRanks); len(plds) == 0 {
		t.Error("no ranks of PLDs")
	}
}

// checkInlinks compares the links that the table of URLs counts with the links.
func checkInlinks(t *testing.T, fs disk.FS, opt *crawl.Options, links map[string]int) {
	t.Helper()
	want := map[string]int{}
	for l, n := range links {
		want[strings.Fields(l)[1]] += n
	}
	for _, count := range []bool{true, false} {
		var b strings.Builder
		_, err := export.Run(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.URLs,
			CountLinks: count, Format: tabular.CSV, Stream: &b, TempDir: "tmp-state"})
		must(t, err)
		rows := strings.Split(strings.TrimSpace(b.String()), "\n")[1:]
		left := len(want)
		for _, row := range rows {
			fields := strings.Split(row, ",")
			url, n := fields[0], fields[len(fields)-2]
			switch {
			case !count && n != "" || count && n != strconv.Itoa(want[url]):
				t.Errorf("%s has %q links, want %d", url, n, want[url])
			case want[url] > 0:
				left--
			}
		}
		if left > 0 || len(rows) == 0 {
			t.Errorf("%d rows, without %d URLs with links", len(rows), left)
		}
	}
}
