package visit_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
)

// noArchiveCases are the cases of TestNoArchive.
var noArchiveCases = []struct {
	archive, index state.Archive
	held           int64 // bytes of a body that are held in RAM
	want           string
}{
	{"", "", 0, "/:whole /index:whole /archive:whole /header:whole /other:whole /last:whole"},
	{state.ArchiveHeaders, "", 0, "/:whole /index:whole /archive:head /header:head /other:whole /last:whole"},
	{state.ArchiveDrop, "", 0, "/:whole /index:whole /archive:none /header:none /other:whole /last:whole"},
	{state.ArchiveKeep, state.ArchiveDrop, 0,
		"/:whole /index:none /archive:whole /header:none /other:whole /last:whole"},
	{state.ArchiveHeaders, state.ArchiveDrop, 0,
		"/:whole /index:none /archive:head /header:none /other:whole /last:whole"},
}

// noArchiveWeb serves pages that ask not to be stored, in header or markup.
func noArchiveWeb() *testworld.Web {
	long := strings.Repeat("text ", 100)
	return &testworld.Web{Serve: func(_, path string) testworld.Answer {
		switch path {
		case "/robots.txt":
			return testworld.NoRobots
		case "/":
			return testworld.Answer{200, "",
				"<html><a href=index>i</a><a href=archive>a</a><a href=header>h</a><a href=other>o</a>"}
		case "/index":
			return testworld.Answer{200, "", "<html><meta name=robots content=noindex>" + long}
		case "/archive":
			return testworld.Answer{200, "", "<html><meta name=robots content='noarchive'><a href=last>l</a>" + long}
		case "/header":
			return testworld.Answer{200, "X-Robots-Tag: drumbeat: noarchive, noindex\r\n", "<html>" + long}
		case "/other":
			return testworld.Answer{200, "X-Robots-Tag: otherbot: noarchive\r\n", "<html>other"}
		}
		return testworld.Answer{200, "", "<html>last"}
	}}
}

// TestNoArchive: of pages that ask archives not to keep them, the crawl stores what its options say, follows their
// links, and documents what it left out. The audit balances.
func TestNoArchive(t *testing.T) {
	for _, tt := range noArchiveCases {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				w := noArchiveWeb()
				opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
				opt.Output.Store, opt.Output.NoArchive, opt.Output.NoIndex, opt.Identity.Agent, opt.Output.CrawlLog =
					true, tt.archive, tt.index, "drumbeat", state.LogOff
				res := crawltest.MustRun(t, t.Context(), opt)
				got := map[string]string{}
				testworld.EachRecord(t, opt.Disk.FS, opt.Disk.Dirs, func(r *warc.Record) {
					path, ok := strings.CutPrefix(r.Get("WARC-Target-URI"), "http://a.test")
					if !ok || r.Get("WARC-Resource-Type") != "" || path == "/robots.txt" {
						return
					}
					_, body, _ := strings.Cut(string(r.Block), "\r\n\r\n")
					switch said := strings.Contains(string(r.Block), "\nstored: "); {
					case r.Type() == "response" && body == "":
						got[path] = "head"
					case r.Type() == "response":
						got[path] = "whole"
					case r.Type() == "metadata" && said && r.Get("WARC-Concurrent-To") == "":
						got[path] = "none"
					case r.Type() == "metadata" && said != (got[path] == "head"):
						t.Errorf("%s: metadata %q of a record that is %q", path, r.Block, got[path])
					}
				})
				want := map[string]string{}
				for field := range strings.FieldsSeq(tt.want) {
					path, what, _ := strings.Cut(field, ":")
					want[path] = what
				}
				if !maps.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				count := func(what string) (n int64) { return int64(strings.Count(tt.want, ":"+what)) }
				s := &res.Snapshot
				if s.Count(state.CountNoArchive) != 2 || s.Count(state.CountHeadsStored) != count("head") ||
					s.Count(state.CountOmitted) != count("none") {
					t.Errorf("%d ask, %d heads, %d omitted", s.Count(state.CountNoArchive),
						s.Count(state.CountHeadsStored), s.Count(state.CountOmitted))
				}
				rep, err := audit.Deep(audit.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out})
				if err != nil || !rep.Balanced() || !rep.Output.StoredAll {
					t.Errorf("audit: %v, %+v, %q", err, rep.Output, rep.Bad)
				}
			})
		})
	}
}
