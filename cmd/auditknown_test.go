package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestAuditKnown: audit --known names each URL of a list that has no answer, or a late one, with the reason, and
// succeeds only if there is none. crawl takes the same list as seeds.
func TestAuditKnown(t *testing.T) {
	t.Parallel()
	url, _ := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	dir, file := filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "watch.txt")
	write := func(lines ...string) {
		must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	tls := "https://127.0.0.1:" + port + "/tls"
	write(url+"/ 2100-01-01T00:00:00Z", tls+" 2001-01-01T00:00:00Z # a server without TLS")
	wantExit(t, term.ExitDone, "", slices.Concat(cmdtest.OwnServer, []string{"--dir", dir,
		"--allow-net=127.0.0.1", "--ports=" + port, "--retries=0", "--seeds", file})...)
	out, _ := wantExit(t, term.ExitFailure, "", "audit", "--known", file, dir)
	for _, want := range []string{"2 URLs (checkpoint ", ": 1 answered in time, 0 late, 1 missed\n",
		"missed: " + tls + ": deferred, robots.txt unreachable, deadline 2001-01-01T00:00:00Z\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	write("# all", url+"/", url+"/p2.html 2100-01-01T00:00:00Z")
	out, _ = wantExit(t, term.ExitDone, "", "audit", "--known", file, dir)
	if !strings.Contains(out, ": 2 answered in time, 0 late, 0 missed\n") || strings.Count(out, "\n") != 1 {
		t.Errorf("got %s", out)
	}
	write(url+"/ 2001-01-01T00:00:00Z", url+"/none", url+"/later 2100-01-01T00:00:00Z", "dns:x 1")
	out, _ = wantExit(t, term.ExitFailure, "", "audit", "--known", file, "--json", dir)
	verdicts := map[string]string{}
	var last map[string]any
	for line := range strings.Lines(out) {
		last = nil
		must(t, json.Unmarshal([]byte(line), &last))
		if u, ok := last["url"].(string); ok {
			verdicts[u] = last["verdict"].(string)
		}
	}
	if verdicts[url+"/"] != "late" || verdicts[url+"/none"] != "missed" || verdicts[url+"/later"] != "open" ||
		last["urls"] != 3.0 || last["late"] != 1.0 || last["missed"] != 1.0 || last["open"] != 1.0 ||
		last["skipped"] != 1.0 {
		t.Errorf("verdicts %v, counts %v", verdicts, last)
	}
	if _, err := os.Stat(filepath.Join(dir, "audit-known-tmp")); !os.IsNotExist(err) {
		t.Errorf("the directory for sorting is left: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	_, errs := wantExit(t, term.ExitDirectory, "", "audit", "--known", file, none)
	if _, err := os.Stat(none); !os.IsNotExist(err) || !strings.Contains(errs, "holds no crawl: it does not exist") {
		t.Errorf("a directory that does not exist: %v; %s", err, errs)
	}
	write("dns:x 1")
	for want, args := range map[string][]string{"it has no URL": {file}, "does not exist": {file + "x"},
		"not with --deep": {file, "--deep"}} {
		if _, errs := wantExit(t, term.ExitUsage, "", append([]string{"audit", dir, "--known"}, args...)...); !strings.
			Contains(errs, want) {
			t.Errorf("%q, want %q", errs, want)
		}
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
}
