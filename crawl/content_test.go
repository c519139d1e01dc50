package crawl

import (
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
)

// TestContentSeen: of equal bodies, one is stored and the others become revisit records, whatever the filter in
// RAM knows. With skip, links of a known body are not taken; with off, all bodies are stored.
func TestContentSeen(t *testing.T) {
	const hosts, pages = 4, 30
	for _, tt := range []struct {
		mode   state.ContentSeen
		filter int64 // with 1 KiB or less, nothing is found in RAM
	}{{"", 1 << 20}, {"", 1 << 10}, {state.ContentRecord, 64}, {state.ContentSkip, 1 << 20}, {state.ContentSkip, 64},
		{state.ContentOff, 64}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := mirrors(hosts, pages)
				opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://m0.test/")
				opt.Output.Store, opt.Output.ContentSeen, opt.Output.CrawlLog = true, tt.mode, state.LogAll
				opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = tt.filter }
				res := mustRun(t, t.Context(), opt)
				s := &res.Snapshot
				records := map[string]int{}
				for _, rec := range storedRecords(t, opt.Disk.FS, opt.Disk.Dirs) {
					if rec.Get("WARC-Resource-Type") != "" || !strings.HasPrefix(rec.Get("WARC-Target-URI"), "http") {
						continue
					}
					records[rec.Type()]++
					if refers := rec.Get("WARC-Refers-To-Target-URI"); rec.Type() == "revisit" && (refers == "" ||
						refers[strings.LastIndexByte(refers, '/'):] != rec.Get(
							"WARC-Target-URI")[len("http://m0.test"):]) {
						t.Errorf("%s is a revisit of %q", rec.Get("WARC-Target-URI"), refers)
					}
				}
				t.Logf("%v, duplicates %d, revisits %d (%d bytes), links not taken %d", records,
					s.Count(state.CountDuplicates), s.Count(state.CountRevisits), s.Count(state.CountBytesRevisits),
					s.Count(state.CountLinksDuplicate))
				switch tt.mode {
				case state.ContentOff:
					if records["response"] != 1+hosts*(pages+1) || records["revisit"] != 0 {
						t.Errorf("got %v", records)
					}
				case state.ContentSkip:
					// Only the first page of each mirror is fetched, or a few more of several hosts in turn.
					if records["revisit"] < hosts-1 || records["response"] != 1+pages+1 ||
						s.Count(state.CountLinksDuplicate) < hosts-1 {
						t.Errorf("got %v, %d links not taken", records, s.Count(state.CountLinksDuplicate))
					}
				default:
					if records["response"] != 1+pages+hosts || records["revisit"] != (hosts-1)*pages {
						t.Errorf("got %v", records)
					}
					if s.Count(state.CountRevisits) != (hosts-1)*pages || s.Count(state.CountBytesRevisits) == 0 {
						t.Errorf("%d revisits, %d bytes saved", s.Count(state.CountRevisits),
							s.Count(state.CountBytesRevisits))
					}
				}
				checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
			})
		})
	}
}

// TestContentCodings: a body that some hosts send plain and others in gzip is stored once in each form. Each other
// response is a revisit, whose payload is that of the capture it refers to, and of what its server sent.
func TestContentCodings(t *testing.T) {
	const hosts, pages = 6, 20
	for _, filter := range []int64{1 << 20, 64} { // bodies in RAM; all on disk
		t.Run(fmt.Sprint(filter), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := mirrors(hosts, pages)
				plain := w.Serve
				w.Serve = func(host, path string) answer {
					a := plain(host, path)
					if strings.ContainsAny(host, "135") && a.Status == 200 {
						a.Header, a.Body = "Content-Encoding: gzip\r\n", packed(t, "gzip", a.Body)
					}
					return a
				}
				opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://m0.test/")
				opt.Output.Store, opt.Output.CrawlLog = true, state.LogAll
				opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = filter }
				mustRun(t, t.Context(), opt)
				digests, records := map[string]string{}, map[string]int{}
				recs := storedRecords(t, opt.Disk.FS, opt.Disk.Dirs)
				for _, rec := range recs {
					digests[rec.Get("WARC-Target-URI")] = rec.Get("WARC-Payload-Digest")
				}
				for _, rec := range recs {
					url := rec.Get("WARC-Target-URI")
					host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
					if !strings.HasPrefix(path, "p") {
						continue
					}
					records[rec.Type()]++
					sum := sha1.Sum([]byte(w.Serve(host, "/"+path).Body))
					if want := "sha1:" + base32.StdEncoding.EncodeToString(sum[:]); digests[url] != want {
						t.Errorf("%s: payload %s, sent %s", url, digests[url], want)
					}
					if of := rec.Get("WARC-Refers-To-Target-URI"); rec.Type() == "revisit" &&
						digests[of] != digests[url] {
						t.Errorf("%s is a revisit of %s: payloads %s, %s", url, of, digests[url], digests[of])
					}
				}
				if records["response"] != 2*pages || records["revisit"] != (hosts-2)*pages {
					t.Errorf("got %v", records)
				}
				checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
			})
		})
	}
}

// TestContentWaitsAreEnded: a run that ends at a limit stores the pages that wait for their verdict.
func TestContentWaitsAreEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := mirrors(3, 100)
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://m0.test/")
		opt.Output.Store, opt.Limits.MaxPages = true, 60
		// Less than contentEvery in all.
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 10*time.Millisecond, 10*time.Millisecond
		opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = 64 }
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Place(state.PlaceContent); n > 0 || res.Snapshot.Place(state.PlaceFetched) < 60 {
			t.Errorf("%d pages wait for their verdict at the end, %d are fetched", n,
				res.Snapshot.Place(state.PlaceFetched))
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestContentFormOfWaitingPages: pages that wait in one WARC format cannot be stored in another. The crawl says
// what to do.
func TestContentFormOfWaitingPages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := mirrors(3, 100)
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, "http://m0.test/")
		opt.Output.Store, opt.Disk.CheckpointEvery = true, time.Second
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 100*time.Millisecond, 100*time.Millisecond
		opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = 64 }
		var image *memfs.FS
		var mu sync.Mutex // guards image
		opt.tests.hook = func(place string) {
			mu.Lock()
			defer mu.Unlock()
			if image != nil || place != "content" && place != "checkpoint" {
				return
			}
			found := fs.Fork(1).Crash()
			m, _, err := state.ReadManifest(disk.Set{FS: found, Paths: opt.Disk.Dirs})
			if err == nil && m != nil && m.Accounts.Places[state.PlaceContent].N > 0 {
				image = found
			}
		}
		mustRun(t, t.Context(), opt)
		if image == nil {
			t.Fatal("in no checkpoint a page has waited")
		}
		opt.Disk.FS, opt.Output.WARCFormat, opt.tests.hook = image, 1, nil
		if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "--warc") {
			t.Errorf("got %v, want an error about the format", err)
		}
		opt.Output.WARCFormat = 0
		mustRun(t, t.Context(), opt)
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// FuzzWaiting: damaged bytes of a page in the store of contents give an error.
func FuzzWaiting(f *testing.F) {
	wait := state.Waiting{Record: []byte("record"), Form: 3, Capture: []byte("capture"), Log: []byte("{}"),
		Links: state.AppendTuples(nil, []drum.Tuple{{Key: 1, Aux: []byte("link")}},
			func(t *drum.Tuple) []byte { return t.Aux })}
	f.Add(wait.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w state.Waiting
		if w.Decode(b) != nil {
			return
		}
		if again := w.Append(nil); len(again) > len(b) {
			t.Errorf("%x is encoded as %x", b, again)
		}
		state.EachTuple(w.Links, func(drum.Key, []byte) {})
	})
}
