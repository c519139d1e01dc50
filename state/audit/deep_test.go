package audit_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// TestDeepAudit: stopped and finished crawls must balance key by key, and the output must have every ended
// URL.
func TestDeepAudit(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		for range 2 {
			rep := testworld.Deep(t, fs, opt.Disk.Dirs)
			if !rep.Balanced() || rep.Keys.Nowhere+rep.Keys.NotSeen+rep.Keys.Twice > 0 {
				t.Fatalf("%+v\n%+v\n%v\n%+v", rep.Bad, rep.Keys, rep.Damages, rep.Output)
			}
			if o := rep.Output; !o.StoredAll || !o.RefusedAll || o.WARC.AbsentFiles+o.WARC.AbsentIndexes > 0 ||
				o.WARC.Captures == 0 {
				t.Errorf("output: %+v", o)
			}
			opt.Limits.MaxPages = 0
			if _, err := crawl.Run(t.Context(), opt); err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatal(err)
			}
		}
	})
}

// TestDeepAuditFindsEachFault: a deep audit must find a removed, doubled or changed record by its key.
func TestDeepAuditFindsEachFault(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		whole, opt := crawltest.StoppedCrawl(t)
		testworld.FindsEachFault(t, whole, opt.Disk.Dirs)
	})
}

// TestDeepAuditWithMovedOutput: a deep audit must count WARC files that were moved away as absent, not
// damaged, and must name a damaged one.
func TestDeepAuditWithMovedOutput(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages = 200 })
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, web, fs)
		if _, err := crawl.Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		names, err := fs.List("d0/warc")
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		name := names[0]
		for _, n := range names {
			if strings.HasSuffix(n, ".warc.gz") {
				name = n
			}
		}
		f, err := fs.Open("d0/warc/" + name)
		if err != nil {
			t.Fatal(err)
		}
		old := make([]byte, 16) // longer than the time and system of a gzip header, which have no checksum
		if _, err := f.ReadAt(old, 5000); err != nil {
			t.Fatal(err)
		}
		bad := make([]byte, len(old))
		for i, b := range old {
			bad[i] = b ^ 4
		}
		for i, b := range [][]byte{bad, old} {
			if _, err := f.WriteAt(b, 5000); err != nil {
				t.Fatal(err)
			}
			if rep := testworld.Deep(t, fs, opt.Disk.Dirs); rep.Balanced() != (i == 1) ||
				i == 0 && rep.Damages[0].File != "d0/warc/"+name {
				t.Errorf("wrong bytes in %s: %v, %v", name, rep.Damages, rep.Bad)
			}
		}
		if err := fs.Rename("d0/warc/"+name, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		rep := testworld.Deep(t, fs, opt.Disk.Dirs)
		if !rep.Balanced() || rep.Output.WARC.AbsentFiles != 1 || !rep.Output.StoredAll {
			t.Errorf("moved %s away: %+v, %v, %v", name, rep.Output, rep.Damages, rep.Bad)
		}
	})
}

// TestDeepAuditKnowsPrivateSuffixes: the deep audit of a crawl with private suffixes must use them, since
// the keys of the tuples that wait for STAR are those of its PLDs.
func TestDeepAuditKnowsPrivateSuffixes(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: testworld.PagesOnly}
		fs := memfs.New(1)
		opt := crawltest.WebOptions(t, w, fs, "http://seed.github.io/")
		opt.Admission.PrivateSuffixes, opt.Limits.MaxPages = true, 1
		crawltest.MustRun(t, t.Context(), opt)
		testworld.Tamper(t, fs, opt.Disk.Dirs, func(set disk.Set, m *state.Manifest, tails *disk.Tails) error {
			r, _, err := audit.Open(&audit.Options{FS: fs, Dirs: opt.Disk.Dirs})
			if err == nil {
				err = r.Unlock()
			}
			if err != nil {
				return err
			}
			st, err := state.Part[star.State](m, state.NameStar)
			if err != nil {
				return err
			}
			_, name := star.Stores(state.NameStar)
			d, err := drum.Open(drum.Options{Set: set, Name: name, Buckets: st.Indegree.Buckets,
				ValueBytes: st.Indegree.ValueBytes}, st.Indegree)
			if err != nil {
				return err
			}
			rec := weburl.Record{URL: []byte("http://u1.github.io/")}
			if err := d.Add([]drum.Tuple{{Key: drum.Key(r.Hasher.PLDKey([]byte("u1.github.io"))), Op: drum.CheckUpdate,
				Aux: rec.Append(nil)}}); err != nil {
				return err
			}
			if st.Indegree, err = d.Freeze().Save(tails); err != nil {
				return err
			}
			if m.Parts[state.NameStar], err = json.Marshal(st); err != nil {
				return err
			}
			return d.Close()
		})
		rep, err := audit.Deep(audit.Options{FS: fs, Dirs: opt.Disk.Dirs})
		if err != nil || rep.DamageCount > 0 {
			t.Errorf("%v, damages %v", err, rep.Damages)
		}
	})
}
