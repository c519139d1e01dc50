package cmd

import (
	"encoding/json"
	"maps"
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

// TestObjectStore crawls into a real server of S3. All commands that read output must give what they give
// when the objects are copied back into the directories.
func TestObjectStore(t *testing.T) {
	notShort(t)
	s := objtest.Serve(t)
	s.Setenv(t)
	web, args := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	d := dir + "/d"
	args = append(args, "--dir="+d, "--ram=256MiB", "--seeds", cmdtest.SeedFile(t, web), "--crawl-log=all",
		"--roll-every=200ms", "--checkpoint-every=50ms", "--extract=text", "--extract-format=jsonl",
		"--extract-dir="+dir+"/live")
	stored := slices.Concat(args, s.Args())
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	wantExit(t, term.ExitDirectory, "no access", stored...)
	s.Setenv(t)
	wantExit(t, term.ExitDirectory, "no access",
		slices.Concat(args, []string{"--out=s3://others/x", "--s3-endpoint=" + s.Endpoint, "--s3-path-style"})...)
	out, _ := wantExit(t, term.ExitDone, "", append(stored, "--summary="+dir+"/summary")...)
	if !strings.Contains(out, "files put in this run") || strings.Contains(out, "wait here") {
		t.Errorf("the summary says %s", out)
	}
	if left := append(globbed(t, d+"/warc/*.warc.gz"), globbed(t, d+"/log/*.zst")...); len(left) > 0 {
		t.Errorf("still here: %q", left)
	}
	objects := s.Objects(t, s.Prefix)
	warcs := checkStoredIndexes(t, d, objects)
	indexes := globbed(t, d+"/warc/*.cdxj")
	if warcs < 2 || len(indexes) != warcs {
		t.Fatalf("%d WARC files in the store, %d indexes here", warcs, len(indexes))
	}
	var sum struct {
		Store struct{ Files, Objects, Waiting int }
	}
	if err := json.Unmarshal([]byte(readFile(t, dir+"/summary")), &sum); err != nil ||
		sum.Store.Objects != len(objects) || sum.Store.Files != len(objects) || sum.Store.Waiting != 0 {
		t.Errorf("summary %+v, %v; %d objects", sum, err, len(objects))
	}
	wantExit(t, term.ExitDirectory, "give --out again", args...)
	page := firstPage(t, indexes)
	reads := func() map[string]string { return outputOf(t, d, page) }
	remote := reads()
	if text, _ := wantExit(t, term.ExitDone, "", "explain", "url", "--dir="+d,
		page); !strings.Contains(text, "fetched") {
		t.Errorf("explain says %s", text)
	}
	checkRemoteAudits(t, s, d)
	for key, data := range objects {
		sub := "/warc/"
		if strings.HasSuffix(key, ".jsonl.zst") {
			sub = "/log/"
		}
		must(t, os.WriteFile(d+sub+path.Base(key), data, 0o600))
	}
	s.Stop()
	local := reads()
	for what := range remote {
		if remote[what] != local[what] {
			t.Errorf("%s: %d bytes from the store, %d from here", what, len(remote[what]), len(local[what]))
		}
	}
	if !maps.Equal(remote, local) || len(globbed(t, dir+"/live/*.jsonl")) != warcs {
		t.Error("texts that were extracted while crawling are missing")
	}
	wantExit(t, term.ExitDone, "balanced", "audit", "--deep", "--remote=off", d)
	wantExit(t, term.ExitFailure, "objstore: ", "audit", "--deep", d) // the store is away
}

// checkStoredIndexes compares the indexes in the store with those here. It returns the number of WARC files there.
func checkStoredIndexes(t *testing.T, d string, objects map[string][]byte) int {
	t.Helper()
	warcs := 0
	for key, data := range objects {
		if name := path.Base(key); strings.HasSuffix(name, ".cdxj") {
			if readFile(t, d+"/warc/"+name) != string(data) {
				t.Errorf("%s differs from the local index", key)
			}
		} else if strings.HasSuffix(name, ".warc.gz") {
			warcs++
		}
	}
	return warcs
}

// outputOf returns what all commands that read output print.
func outputOf(t *testing.T, d, page string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, command := range [][]string{{"get", "--dir=" + d, page},
		{"get", "--record", "--dir=" + d, page}, {"log", d}, {"export", "pages", "--dir=" + d, "--format=jsonl",
			"--languages", "-o", "-"}, {"export", "links", "--dir=" + d, "--format=jsonl", "-o", "-"},
		{"export", "refused", "--dir=" + d, "--format=jsonl", "-o", "-"}, {"index", "--dir=" + d, "-o", "-"},
		{"extract", "--dir=" + d, "--fields=text", "--format=jsonl", "-o", "-"}} {
		text, _ := wantExit(t, term.ExitDone, "", command...)
		if text == "" {
			t.Errorf("%q says nothing", command)
		}
		all[strings.Join(command[:2], " ")+command[len(command)-1]] = text
	}
	return all
}

// firstPage returns the URL of a page in the indexes.
func firstPage(t *testing.T, indexes []string) string {
	t.Helper()
	for _, name := range indexes {
		for line := range strings.Lines(readFile(t, name)) {
			var o struct{ URL, Status, MIME, Type string }
			if err := json.Unmarshal([]byte(strings.SplitN(line, " ", 3)[2]), &o); err == nil && o.Status == "200" &&
				o.MIME == "text/html" && o.Type == "" {
				return o.URL
			}
		}
	}
	t.Fatal("no page in the indexes")
	return ""
}

// checkRemoteAudits: audits read the store as much as they are told, and name what is missing or differs there.
func checkRemoteAudits(t *testing.T, s *objtest.Server, d string) {
	t.Helper()
	for _, mode := range []string{"head", "read"} {
		out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", "--remote="+mode, d)
		if !strings.Contains(out, "balanced") ||
			!strings.Contains(out, "fetched URLs: all keys are known; refused URLs: all keys are known") ||
			strings.Contains(out, "moved away") || strings.Contains(out, "not read (--remote") != (mode == "head") {
			t.Errorf("audit --remote %s: %s", mode, out)
		}
	}
	if out, _ := wantExit(t, term.ExitDone, "", "repair", "--dry-run", d); !strings.Contains(out, "nothing to repair") {
		t.Errorf("repair: %s", out)
	}
	out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", "--remote=off", d)
	if !strings.Contains(out, "0 asked for") {
		t.Errorf("audit --remote off: %s", out)
	}
	for key, data := range s.Objects(t, s.Prefix) {
		if !strings.HasSuffix(key, ".warc.gz") {
			continue
		}
		name := filepath.Join(s.Dir(), key)
		damaged := slices.Clone(data)
		damaged[len(damaged)/2] ^= 0x55
		if err := os.WriteFile(name, damaged, 0o600); err != nil { // the store does not notice
			t.Fatal(err)
		}
		out, _ := wantExit(t, term.ExitDamage, "", "audit", "--deep", "--remote=read", d)
		if !strings.Contains(out, path.Base(key)) {
			t.Errorf("a damaged object: %s", out)
		}
		must(t, os.Rename(name, name+"-away"))
		out, _ = wantExit(t, term.ExitDamage, "", "audit", "--deep", d)
		if !strings.Contains(out, key+" at 0: want an object of") {
			t.Errorf("a missing object: %s", out)
		}
		must(t, os.Rename(name+"-away", name))
		must(t, os.WriteFile(name, data, 0o600))
		checkRemoteRepair(t, s, d, key, data)
		return
	}
}

// checkRemoteRepair: repair fetches an index from the store, and puts a file there again.
func checkRemoteRepair(t *testing.T, s *objtest.Server, d, key string, data []byte) {
	t.Helper()
	warc := d + "/warc/" + path.Base(key)
	index := strings.TrimSuffix(warc, ".warc.gz") + ".cdxj"
	was := readFile(t, index)
	for name, text := range map[string]string{index: "damaged", warc: string(data)} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	s.Remove(t, key)
	wantExit(t, term.ExitDamage, "as in the object store", "audit", "--deep", d)
	wants := []string{"fetch " + index + " from the object store: it is damaged here",
		"put " + warc + " into the object store again: it is missing there"}
	for _, command := range []struct {
		code int
		args []string
	}{{term.ExitFailure, []string{"repair", "--dry-run", d}}, {term.ExitDone, []string{"repair", d}}} {
		out, _ := wantExit(t, command.code, "", command.args...)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%q: %s; want %s", command.args, out, want)
			}
		}
	}
	if readFile(t, index) != was || string(s.Objects(t, key)[key]) != string(data) {
		t.Error("repair did not repair the index and the object")
	}
	must(t, os.Remove(warc))
	if out, _ := wantExit(t, term.ExitDone, "", "repair", "--dry-run", d); !strings.Contains(out, "nothing to repair") {
		t.Errorf("after the repair: %s", out)
	}
}

// TestObjectStoreFlags: flags that cannot work are refused before anything is written, and nothing secret is printed.
func TestObjectStoreFlags(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "some-key-id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "some-secret")
	dir := t.TempDir()
	base := []string{"crawl", "https://example.org/", "--contact=you@example.org", "--dir=" + dir + "/d",
		"--ram=512MiB"}
	for want, flags := range map[string][]string{
		"need --out s3://":           {"--s3-endpoint=http://127.0.0.1:1"},
		"one object store only":      {"--out=s3://a/x", "--out=s3://b/x"},
		"only --out takes":           {"--out=s3://a/x", "--add-dir=s3://b/x"},
		"is not s3://BUCKET":         {"--out=s3:///x"},
		"plain HTTP":                 {"--out=s3://a/x", "--s3-endpoint=http://s3.example:9000"},
		"cannot contain credentials": {"--out=s3://a/x", "--s3-endpoint=https://k:s@s3.example"},
		"must be at least":           {"--out=s3://a/x", "--spool=1MiB"},
		"empty, . or ..":             {"--out=s3://a/x/../y"},
	} {
		wantExit(t, term.ExitUsage, want, slices.Concat(base, flags)...)
	}
	out, _ := wantExit(t, term.ExitDone, "", slices.Concat(base,
		[]string{"--out=s3://a/x", "--s3-endpoint=https://s3.example", "--s3-region=r", "--print-config"})...)
	if strings.Contains(out, "some-") || !strings.Contains(out, `out = ["s3://a/x"]`) ||
		!strings.Contains(out, "s3-endpoint") {
		t.Errorf("--print-config: %s", out)
	}
	if _, err := os.Stat(dir + "/d"); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// TestPublishDenied: an object store that refuses to give a WARC file is no damage.
func TestPublishDenied(t *testing.T) {
	notShort(t)
	s := objtest.Serve(t)
	s.Setenv(t)
	d, _ := storedCrawl(t, s)
	out := t.TempDir() + "/public"
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	_, errs := wantExit(t, term.ExitFailure, "", "publish", "--dir="+d, "-o", out)
	if strings.Contains(errs, "want a record") || !strings.Contains(errs, "no access") {
		t.Errorf("publish says %q", errs)
	}
	s.Setenv(t)
	wantExit(t, term.ExitDone, "", "publish", "--dir="+d, "-o", out)
}
