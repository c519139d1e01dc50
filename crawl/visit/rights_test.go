package visit_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
)

// rightsWeb serves a site that says something about the use of each page, and one that has no robots.txt.
func rightsWeb() *testworld.Web {
	return &testworld.Web{Serve: func(host, path string) testworld.Answer {
		if host == "b.test" {
			if path == "/robots.txt" {
				return testworld.NoRobots
			}
			return testworld.Answer{200, "", "<html>b"}
		}
		switch path {
		case "/robots.txt":
			return testworld.Answer{200, "Content-Type: text/plain\r\n", "License: https://a.test/license.xml\n" +
				"User-agent: *\nContent-Signal: search=yes, ai-input=no\nContent-Usage: /train/ train-ai=n\n" +
				"Disallow: /no/\nAllow: /train/\n\nUser-agent: GPTBot\nUser-agent: CCBot\nDisallow: /train/\n"}
		case "/":
			return testworld.Answer{200, "", "<html><a href=train/>t</a><a href=meta>m</a><a href=head>h</a>" +
				"<a href=no/>n</a><a href=http://b.test/>b</a>"}
		case "/meta":
			return testworld.Answer{200, "", "<html><meta name=robots content='noai, max-snippet:5'>" +
				"<meta name=tdm-reservation content=1><meta name=tdm-policy content=/tdm.json>m"}
		case "/head":
			return testworld.Answer{200, "X-Robots-Tag: noimageai\r\nContent-Signal: search=no, ai-input=yes\r\n" +
				"Content-Usage: train-ai=y\r\ncontent-usage: bots=n\r\nTDM-Reservation: 0\r\n", "<html>h"}
		}
		return testworld.Answer{200, "", "<html>t"}
	}}
}

// rightsSaid is what the records of each page have, beside the fields of all pages of its site.
var rightsSaid = map[string]string{
	"http://a.test/": "",
	"http://a.test/train/": "robotsRule: Allow: /train/\ncontentUsage: train-ai=n\naiDisallowed: GPTBot, " +
		"CCBot\n",
	"http://a.test/meta": "robotsValues: noai, max-snippet: 5\ntdmReservation: 1\ntdmPolicy: /tdm.json\n",
	"http://a.test/head": "contentSignal: ai-input=no, search=no\ncontentUsage: bots=n, train-ai=y\n" +
		"robotsValues: noimageai\ntdmReservation: 0\n",
	"http://b.test/": "",
}

// fieldsOf returns the fields of a metadata record that are about the use of the page.
func fieldsOf(t *testing.T, block string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(block) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "fetchTimeMs", "depth", "via", "robots":
		case "robotsFetched":
			if _, err := time.Parse(time.RFC3339, value); err != nil {
				t.Error(err)
			}
		default:
			fields[name] = value
		}
	}
	return fields
}

// TestRights: metadata records have what the site said about the use of each page, and --usage marks or drops pages.
func TestRights(t *testing.T) {
	type texts = map[string]string
	for _, tt := range []struct {
		name            string
		usage           state.Usages
		dropped, marked texts
	}{
		{"keep", state.Usages{}, nil, nil},
		{"mark", state.Usages{Search: state.UsageKeep, AIInput: state.UsageMark, AITrain: state.UsageMark}, nil,
			texts{"http://a.test/": "ai-input=no", "http://a.test/train/": "ai-input=no, ai-train=no",
				"http://a.test/meta": "ai-input=no, ai-train=no", "http://a.test/head": "ai-input=no"}},
		{"drop", state.Usages{Search: state.UsageDrop, AITrain: state.UsageDrop},
			texts{"http://a.test/train/": "ai-train=no", "http://a.test/meta": "ai-train=no",
				"http://a.test/head": "search=no"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				opt := crawltest.WebOptions(t, rightsWeb(), memfs.New(*testworld.Seed), "http://a.test/")
				opt.Output.Store, opt.Output.Usage, opt.Identity.Agent, opt.Output.CrawlLog, opt.Output.ArchiveRobots =
					true, tt.usage, "drumbeat", state.LogOff, true
				res := crawltest.MustRun(t, t.Context(), opt)
				got, stored, digest := texts{}, map[string]bool{}, ""
				testworld.EachRecord(t, opt.Disk.FS, opt.Disk.Dirs, func(r *warc.Record) {
					url := r.Get("WARC-Target-URI")
					switch {
					case url == "http://a.test/robots.txt" && r.Type() == "response":
						digest = r.Get("WARC-Payload-Digest")
					case r.Get("WARC-Resource-Type") != "" || strings.HasSuffix(url, "/robots.txt"):
					case r.Type() == "response":
						stored[url] = true
					case r.Type() == "metadata":
						got[url] = string(r.Block)
					}
				})
				for url, said := range rightsSaid {
					want := texts{}
					if strings.HasPrefix(url, "http://a.test/") {
						want = texts{"robotsDigest": digest, "robotsGroup": "*",
							"contentSignal": "ai-input=no, search=yes", "license": "https://a.test/license.xml"}
					}
					maps.Copy(want, fieldsOf(t, said))
					if text := tt.dropped[url] + tt.marked[url]; text != "" {
						want["usage"] = text
					}
					if text := tt.dropped[url]; text != "" {
						want["stored"] = "nothing, because the site asks for " + text
					}
					if have := fieldsOf(t, got[url]); !maps.Equal(have, want) {
						t.Errorf("%s: got  %v\nwant %v", url, have, want)
					}
					if stored[url] != (tt.dropped[url] == "") {
						t.Errorf("%s: stored %v", url, stored[url])
					}
				}
				rightsEnd(t, res, opt, len(tt.dropped), len(tt.marked))
			})
		})
	}
}

// rightsEnd checks the counters and the audit.
func rightsEnd(t *testing.T, res *crawl.Result, opt crawl.Options, dropped, marked int) {
	t.Helper()
	count := func(c state.Counter) int { return int(res.Snapshot.Count(c)) }
	if count(state.CountUsageDropped) != dropped || count(state.CountUsageMarked) != marked {
		t.Errorf("%d dropped, %d marked", count(state.CountUsageDropped), count(state.CountUsageMarked))
	}
	rep, err := audit.Deep(audit.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out})
	if err != nil || !rep.Balanced() || !rep.Output.StoredAll {
		t.Errorf("audit: %v, %+v, %q", err, rep.Output, rep.Bad)
	}
}

// tdmWeb serves sites with reservations: a.test has both files, b.test only tdmrep.json, after a redirect to another
// host, c.test has rules that forbid it, and d.test a server that fails.
func tdmWeb(asked map[string]int) *testworld.Web {
	links := testworld.Answer{200, "", "<html><a href=/free/>f</a><a href=/meta>m</a><a href=/head>h</a>" +
		"<a href=http://b.test/>b</a><a href=http://c.test/>c</a><a href=http://d.test/>d</a>"}
	return &testworld.Web{Serve: func(host, path string) testworld.Answer {
		asked[host+path]++
		switch host + path {
		case "a.test/robots.txt":
			return testworld.Answer{200, "", "User-agent: *\nDisallow: /no\n"}
		case "c.test/robots.txt":
			return testworld.Answer{200, "", "User-agent: *\nDisallow: /.well-known/\n"}
		case "b.test/robots.txt", "d.test/robots.txt", "files.test/robots.txt":
			return testworld.NoRobots
		case "a.test/.well-known/tdmrep.json":
			return testworld.Answer{200, "", `[{"location": "/free/", "tdm-reservation": 0},
				{"location": "/", "tdm-reservation": 1, "tdm-policy": "https://a.test/terms"}]`}
		case "b.test/.well-known/tdmrep.json":
			return testworld.Answer{302, "Location: http://files.test/b.json\r\n", ""}
		case "files.test/b.json", "c.test/.well-known/tdmrep.json":
			return testworld.Answer{200, "", `[{"location": "/", "tdm-reservation": 1}]`}
		case "d.test/.well-known/tdmrep.json":
			return testworld.Answer{500, "", `[{"location": "/", "tdm-reservation": 1}]`}
		case "a.test/":
			return links
		case "a.test/meta":
			return testworld.Answer{200, "", "<html><meta name=tdm-reservation content=0>m"}
		case "a.test/head":
			return testworld.Answer{200, "TDM-Policy: /own\r\n", "<html>h"}
		}
		return testworld.Answer{200, "", "<html>t"}
	}}
}

// TestTDMRep: with TDMRep, tdmrep.json is requested once for each origin, after robots.txt and before the pages, if the
// rules allow it. What it says is kept, and --usage obeys it, unless the page says something else.
func TestTDMRep(t *testing.T) {
	for _, on := range []bool{true, false} {
		testworld.InBubble(t, func(t *testing.T) {
			asked := map[string]int{}
			web := tdmWeb(asked)
			opt := crawltest.WebOptions(t, web, memfs.New(*testworld.Seed), "http://a.test/")
			opt.Output.Store, opt.Output.ArchiveRobots, opt.Output.CrawlLog = true, true, state.LogAll
			opt.Output.Usage, opt.Output.TDMRep = state.Usages{AITrain: state.UsageDrop}, on
			opt.Politeness.HostDelay = 10 * time.Second // so requests wait on disk, too
			res := crawltest.MustRun(t, t.Context(), opt)
			got, dropped := map[string]string{}, 0
			testworld.EachRecord(t, opt.Disk.FS, opt.Disk.Dirs, func(r *warc.Record) {
				if url := r.Get("WARC-Target-URI"); r.Type() == "metadata" && !strings.Contains(url, "robots.txt") &&
					!strings.HasSuffix(url, ".json") {
					f := fieldsOf(t, string(r.Block))
					got[url] = strings.TrimSpace(f["tdmFile"] + " " + f["tdmReservation"] + " " + f["tdmPolicy"])
					if f["stored"] != "" {
						dropped++
						got[url] += " dropped"
					}
				}
			})
			want := map[string]string{"http://a.test/": "1 1 https://a.test/terms dropped",
				"http://a.test/free/": "0 0", "http://a.test/meta": "1 0", "http://a.test/head": "1 1 /own dropped",
				"http://b.test/": "1 1 dropped", "http://c.test/": "", "http://d.test/": ""}
			files := map[string]int{"a.test": 1, "b.test": 1, "c.test": 0, "d.test": 1}
			if !on {
				want = map[string]string{"http://a.test/": "", "http://a.test/free/": "", "http://a.test/meta": "0",
					"http://a.test/head": "/own", "http://b.test/": "", "http://c.test/": "", "http://d.test/": ""}
				clear(files)
			}
			if !maps.Equal(got, want) {
				t.Errorf("on %v: got %q\nwant %q", on, got, want)
			}
			for host := range map[string]bool{"a.test": true, "b.test": true, "c.test": true, "d.test": true} {
				if n := asked[host+"/.well-known/tdmrep.json"]; n != files[host] {
					t.Errorf("on %v: %s was asked for tdmrep.json %d times", on, host, n)
				}
			}
			if n := res.Snapshot.Count(state.CountTDMRep); n != int64(files["a.test"]+files["b.test"]+files["d.test"]) {
				t.Errorf("on %v: counted %d", on, n)
			}
			before, last := "", map[string]time.Time{}
			for _, r := range web.Requests {
				if gap := r.At.Sub(last[r.Host]); gap < 10*time.Second {
					t.Errorf("on %v: %s%s after %v", on, r.Host, r.Path, gap)
				}
				last[r.Host] = r.At
				if r.Host == "a.test" && len(before) < 80 {
					before += r.Path + " "
				}
			}
			if first := "/robots.txt /.well-known/tdmrep.json / "; on && !strings.HasPrefix(before, first) {
				t.Errorf("requests begin with %s", before)
			}
			rightsEnd(t, res, opt, dropped, 0)
		})
	}
}
