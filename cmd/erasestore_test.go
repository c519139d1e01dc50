package cmd

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/objstore/objtest"
)

// storedCrawl crawls into the server, and returns the directory.
func storedCrawl(t *testing.T, s *objtest.Server) (d, host string) {
	t.Helper()
	web, args := cmdtest.SmallWeb(t, nil)
	d = filepath.Join(t.TempDir(), "d")
	wantExit(t, term.ExitDone, "", slices.Concat(args, s.Args(), []string{"--dir=" + d, "--ram=256MiB", "--seeds",
		cmdtest.SeedFile(t, web), "--crawl-log=all", "--roll-every=200ms", "--checkpoint-every=50ms"})...)
	u, err := url.Parse(web.Seeds()[0])
	must(t, err)
	return d, u.Hostname()
}

// rarePage returns a URL whose erasure changes some WARC files of a crawl, and not all.
func rarePage(t *testing.T, d string, warcs int) string {
	t.Helper()
	indexes := globbed(t, d+"/warc/*.cdxj")
	for _, name := range slices.Backward(indexes) {
		page := firstPage(t, []string{name})
		var dry struct {
			Erasure struct{ Erased struct{ Files int } }
		}
		out, _ := wantExit(t, term.ExitDone, "", "erase", "--url", page, "--reason=x", "--dry-run", "--json", d)
		must(t, json.Unmarshal([]byte(out), &dry))
		if n := dry.Erasure.Erased.Files; n > 0 && n < warcs {
			return page
		}
	}
	t.Fatal("each page is named in all files")
	return ""
}

// TestEraseStore erases from a real server, without and with versions: objects without a change keep their ETag and
// their time, and a locked version is said to be left until it may go.
func TestEraseStore(t *testing.T) {
	notShort(t)
	s := objtest.Serve(t)
	s.Setenv(t)
	for _, versions := range []bool{false, true} {
		if versions {
			s.Keep(t)
		}
		d, host := storedCrawl(t, s)
		prefix := crawlPrefix(t, s, d)
		before := s.Stamps(t, prefix)
		page := rarePage(t, d, checkStoredIndexes(t, d, s.Objects(t, prefix)))
		if !maps.Equal(before, s.Stamps(t, prefix)) {
			t.Error("a dry run has changed objects")
		}
		out, _ := wantExit(t, term.ExitDone, "", "erase", "--url", page, "--reason=x", d)
		if !strings.Contains(out, "objects of "+s.String()+" replaced") {
			t.Errorf("erase says %s", out)
		}
		after := s.Stamps(t, prefix)
		same, gone := 0, []string{}
		for key, stamp := range before {
			switch now, there := after[key]; {
			case !there:
				gone = append(gone, key)
			case now == stamp:
				same++
			case !strings.HasSuffix(key, ".zst"):
				t.Errorf("%s was %s, and is %s", key, stamp, now)
			}
		}
		if same == 0 || len(gone) < 2 {
			t.Errorf("%d objects are as they were, %q are gone", same, gone)
		}
		checkNoTrace(t, s, d, prefix, `"`+page+`"`)
		if !versions {
			continue
		}
		checkVersions(t, s, before, after)
		checkHeld(t, s, d, host, after)
		checkNoTrace(t, s, d, prefix, "://"+host+"/")
	}
}

// checkVersions: of objects that were there, all versions are gone, or there is one that is.
func checkVersions(t *testing.T, s *objtest.Server, before, after map[string]string) {
	t.Helper()
	for key := range before {
		if n := s.Versions(t, key); n > 0 && after[key] == "" || n > 1 {
			t.Errorf("the store has %d versions of %s", n, key)
		}
	}
}

// checkHeld erases a host whose objects are locked, and again without the locks.
func checkHeld(t *testing.T, s *objtest.Server, d, host string, objects map[string]string) {
	t.Helper()
	held := ""
	for key := range objects {
		if s.Hold(t, key, true); strings.HasSuffix(key, ".warc.gz") {
			held = key
		}
	}
	out, errs := wantExit(t, term.ExitFailure, "", "erase", "--host", host, "--reason=x", d)
	if !strings.Contains(out, "not deleted: the object store keeps 1 version of ") ||
		!strings.Contains(errs, "run drumbeat erase again") {
		t.Errorf("with locks, erase says %s, %s", out, errs)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "erase", "--report", d); !strings.Contains(out, "not deleted: ") {
		t.Errorf("the report: %s", out)
	}
	if s.Versions(t, held) == 0 {
		t.Errorf("a held version of %s is gone", held)
	}
	for key := range objects {
		s.Hold(t, key, false)
	}
	wantExit(t, term.ExitDone, "", "erase", "--host", host, "--reason=x", d)
	checkVersions(t, s, objects, s.Stamps(t, path.Dir(held)))
}

// crawlPrefix returns the beginning of the keys of a crawl.
func crawlPrefix(t *testing.T, s *objtest.Server, d string) string {
	t.Helper()
	name := filepath.Base(globbed(t, d+"/warc/*.cdxj")[0])
	for key := range s.Stamps(t, s.Prefix) {
		if path.Base(key) == name {
			return path.Dir(key) + "/"
		}
	}
	t.Fatalf("%s is not in the store", name)
	return ""
}

// checkNoTrace: a crawl balances with its store, and no output has a text. Outputs and objects are those of one list.
func checkNoTrace(t *testing.T, s *objtest.Server, d, prefix, text string) {
	t.Helper()
	out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", "--remote=read", d)
	if !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	for _, args := range [][]string{{"log", d}, {"index", "--dir=" + d, "-o", "-"},
		{"export", "pages", "--dir=" + d, "--format=jsonl", "-o", "-"}} {
		out, _ := wantExit(t, term.ExitDone, "", args...)
		if strings.Contains(out, text) {
			t.Errorf("%q has %s", args, text)
		}
	}
	checkStoredIndexes(t, d, s.Objects(t, prefix))
	if left := append(globbed(t, d+"/warc/*.warc.gz"), globbed(t, d+"/log/*.zst")...); len(left) > 0 {
		t.Errorf("still here: %q", left)
	}
}

// TestEraseStoreKill: kill -9 of erase at each kind of request to a real server, before the server has it and after it
// has done it. The same command then completes the erasure.
func TestEraseStoreKill(t *testing.T) {
	notShort(t)
	s := objtest.Serve(t)
	s.Setenv(t)
	s.Keep(t)
	k := startKiller(t, s)
	d, host := storedCrawl(t, s)
	prefix := crawlPrefix(t, s, d)
	before := s.Stamps(t, prefix)
	args := []string{"erase", "--host", host, "--reason=x", d}
	kills := 0
	for _, when := range []string{"before ", "after "} {
		for _, kind := range []string{"get", "head", "uploads", "create", "part", "complete", "versions", "delete"} {
			cmd := cmdtest.Child(t.Context(), args...)
			killed := false
			k.mu.Lock()
			k.at, k.kill = when+kind, func() { killed = true; cmd.Process.Kill() }
			k.mu.Unlock()
			said, err := cmd.CombinedOutput()
			k.mu.Lock()
			if k.at = ""; err != nil && !killed {
				t.Fatalf("%s%s: %v: %s", when, kind, err, said)
			}
			k.mu.Unlock()
			if killed {
				kills++
			}
		}
	}
	wantExit(t, term.ExitDone, "", args...)
	if kills < 8 {
		t.Errorf("%d kills", kills)
	}
	after := s.Stamps(t, prefix)
	checkVersions(t, s, before, after)
	checkNoTrace(t, s, d, prefix, "://"+host+"/")
	if _, err := os.Stat(d + "/erase-tmp"); !os.IsNotExist(err) {
		t.Errorf("work files are left: %v", err)
	}
}
