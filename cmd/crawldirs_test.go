package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestOneWayToNameACrawl: each command about a crawl takes its directory as argument and by --dir, and refuses two
// different ones. An argument takes precedence over the environment.
func TestOneWayToNameACrawl(t *testing.T) {
	tmp := t.TempDir()
	none, other := filepath.Join(tmp, "none"), filepath.Join(tmp, "other")
	for _, command := range []string{"log", "report", "audit", "repair", "dirs list", "export pages -o x", "index -o x",
		"extract -o x", "get http://a.test/", "ctl status", "ctl stop", "ctl hosts", "explain url http://a.test/",
		"explain host a.test", "explain pld a.test", "explain robots http://a.test/"} {
		args := strings.Fields(command)
		_, byFlag := wantExit(t, term.ExitDirectory, "", append(args, "--dir", none)...)
		if !strings.Contains(byFlag, none) && args[0] != "dirs" {
			t.Errorf("%s --dir: got %q, want the directory's name", command, byFlag)
		}
		if _, short := wantExit(t, term.ExitDirectory, "", append(args, "-d", none)...); short != byFlag {
			t.Errorf("%s -d: got %q, want %q", command, short, byFlag)
		}
		if args[0] == "explain" {
			continue // an argument that is no directory of a crawl is a question
		}
		if _, byArg := wantExit(t, term.ExitDirectory, "", append(args, none)...); byArg != byFlag {
			t.Errorf("%s DIR: got %q, want %q", command, byArg, byFlag)
		}
		wantExit(t, term.ExitDirectory, "", append(args, none, "--dir", tmp+"/./none")...)
		_, errs := wantExit(t, term.ExitUsage, "", append(args, none, "--dir", other)...)
		want := "drumbeat: --dir names " + other + ", but the arguments name " + none
		if !strings.Contains(errs, want) {
			t.Errorf("%s: got %q, want %q in it", command, errs, want)
		}
	}
	t.Setenv("DRUMBEAT_DIR", other)
	for _, command := range []string{"log", "audit", "ctl status"} {
		args := strings.Fields(command)
		if _, errs := wantExit(t, term.ExitDirectory, "", args...); !strings.Contains(errs, other) {
			t.Errorf("%s: got %q, want %s of the environment in it", command, errs, other)
		}
		if _, errs := wantExit(t, term.ExitDirectory, "", append(args, none)...); !strings.Contains(errs, none) {
			t.Errorf("%s DIR: got %q, want %s in it", command, errs, none)
		}
	}
	if _, errs := wantExit(t, term.ExitDirectory, "", "dirs", "forget", t.TempDir()); !strings.Contains(errs,
		"holds no crawl") {
		t.Errorf("dirs forget of an empty directory says %q", errs)
	}
	if _, errs := wantExit(t, term.ExitUsage, "", "dirs", "forget"); !strings.Contains(errs, "directories to keep") {
		t.Errorf("dirs forget: got %q", errs)
	}
}

// TestDefaultDirectory: the commands work on drumbeat-crawl of the working directory, explain takes a directory of a
// crawl as argument, and ctl says how the crawl ended.
func TestDefaultDirectory(t *testing.T) {
	url, _ := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	t.Chdir(t.TempDir())
	crawl := append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port, url+"/")
	wantExit(t, term.ExitPages, "", append(crawl, "--crawl-log=all", "--max-pages=2")...)
	for _, c := range []struct{ command, want string }{
		{"log", "/p0.html"}, {"report -o -", "<html"}, {"audit", "balanced"}, {"dirs list", "drumbeat-crawl"},
		{"export pages --format csv -o -", "/p0.html"}, {"index -o -", "/p0.html"},
		{"extract --format csv -o -", "/p0.html"}, {"get " + url + "/", "<title>"},
		{"get " + url + "/ drumbeat-crawl", "<title>"}, {"explain host 127.0.0.1", "responses"},
		{"explain url drumbeat-crawl " + url + "/", "fetched"},
		{"explain robots drumbeat-crawl " + url + "/", "allowed"},
	} {
		if out, _ := wantExit(t, term.ExitDone, "", strings.Fields(c.command)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: got %s\nwant %q in it", c.command, out, c.want)
		}
	}
	_, errs := wantExit(t, term.ExitDone, "", "explain", "url", url)
	if !strings.Contains(errs, "drumbeat explain url --dir drumbeat-crawl URL") {
		t.Errorf("explain url without a crawl: got %q", errs)
	}
	for _, command := range []string{"status", "pause", "top"} {
		_, errs := wantExit(t, term.ExitDirectory, "", "ctl", command)
		for _, want := range []string{"the crawl in drumbeat-crawl is not running; it ended at 2",
			"--max-pages was reached", "It has 2 pages, and 2 URLs wait",
			"drumbeat report drumbeat-crawl shows its results"} {
			if !strings.Contains(errs, want) {
				t.Errorf("ctl %s: got %q, want %q in it", command, errs, want)
			}
		}
	}
	wantExit(t, term.ExitDone, "", crawl...)
	if _, errs := wantExit(t, term.ExitDirectory, "", "ctl", "status"); !strings.Contains(errs, "left to fetch") {
		t.Errorf("ctl status of a finished crawl: %q", errs)
	}
	must(t, os.RemoveAll("drumbeat-crawl/history")) // as with --history-bytes 0
	if _, errs := wantExit(t, term.ExitDirectory, "", "ctl", "status"); !strings.Contains(errs, "left to fetch") {
		t.Errorf("ctl status of a finished crawl without a history: %q", errs)
	}
}
