package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// hookSite serves pages about wind and about cooking. Only pages about wind link to /deep.
func hookSite(t *testing.T) (flags []string, site string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, "<html>Home <a href=/wind>w</a><a href=/soup>s</a>")
		case "/wind":
			fmt.Fprint(w, "<html>The WIND turns a turbine. <a href=/deep>d</a>", strings.Repeat("more words ", 30))
		case "/deep":
			fmt.Fprint(w, "<html>A turbine.")
		case "/soup":
			fmt.Fprint(w, "<html>Tomatoes. <a href=/soup2>d</a>")
		case "/soup2":
			fmt.Fprint(w, "<html>Salt.")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	must(t, err)
	return append([]string{s.URL + "/", "--allow-net=127.0.0.1/32", "--ports=" + u.Port(), "--crawl-log=all",
		"--hook-limits=timeout=1m"}, cmdtest.OwnServer[1:]...), s.URL
}

// python returns the command that runs a Python program, and skips the test without Python.
func python(t *testing.T, file string) string {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	return fmt.Sprintf("%s '%s'", name, file)
}

// TestFocusedCrawl: the example in Python stores pages about its words, and follows them and the seeds only.
func TestFocusedCrawl(t *testing.T) {
	t.Parallel()
	flags, site := hookSite(t)
	example, err := filepath.Abs("../examples/hooks/focused.py")
	must(t, err)
	dir := filepath.Join(t.TempDir(), "focused")
	args := append([]string{"crawl", "--dir=" + dir, "--hook=" + python(t, example) + " --least 0.5 wind turbine"},
		flags...)
	out, _ := wantExit(t, term.ExitDone, "", args...)
	if want := "hook        4 pages answered for, 2 not stored, 1 not followed, 0 links added; " +
		"mean wait "; !strings.Contains(out, want) {
		t.Errorf("the summary lacks %q:\n%s", want, out)
	}
	rows, _ := wantExit(t, term.ExitDone, "", "export", "pages", "--dir="+dir, "--format=csv", "-o", "-")
	for _, want := range []string{site + "/wind,", ",1,\"{\"\"words\"\":[\"\"turbine\"\",\"\"wind\"\"]}\"",
		site + "/deep,", ",0.5,\"{\"\"words\"\":[\"\"turbine\"\"]}\""} {
		if !strings.Contains(rows, want) {
			t.Errorf("the table lacks %q:\n%s", want, rows)
		}
	}
	if n := strings.Count(rows, "\n"); n != 3 || strings.Contains(rows, "/soup") {
		t.Errorf("%d lines:\n%s", n, rows)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
}

// TestPageHook: the hook of docs/howto/prepare/own-program.md does what the page says.
func TestPageHook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/howto/prepare/own-program.md")
	must(t, err)
	_, text, found := strings.Cut(string(page), "    # thin.py:")
	text, _, ended := strings.Cut(text, "\n\n")
	if !found || !ended {
		t.Fatal("docs/howto/prepare/own-program.md has no thin.py")
	}
	var program strings.Builder
	for line := range strings.Lines("    #" + text + "\n") {
		program.WriteString(strings.TrimPrefix(line, "    "))
	}
	flags, site := hookSite(t)
	dir := filepath.Join(t.TempDir(), "thin")
	hook := python(t, cmdtest.File(t, "thin.py", program.String()))
	wantExit(t, term.ExitDone, "",
		append([]string{"crawl", "--dir=" + dir, "--hook=" + hook, "--hook-limits=timeout=1m,procs=3"}, flags...)...)
	rows, _ := wantExit(t, term.ExitDone, "", "export", "pages", "--dir="+dir, "--format=jsonl", "-o", "-")
	if strings.Count(rows, "\n") != 1 || !strings.Contains(rows, site+"/wind") ||
		!strings.Contains(rows, `{\"words\":65}`) {
		t.Errorf("stored: %s", rows)
	}
	log, _ := wantExit(t, term.ExitDone, "", "log", dir, "--json")
	if strings.Count(log, "\n") != 5 || !strings.Contains(log, `"fields":"{\"words\":2}"`) {
		t.Errorf("log: %s", log)
	}
}

// TestHookFlags: bad values are refused before anything is written.
func TestHookFlags(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--hook=/nowhere/hook":     "/nowhere/hook does not exist",
		"--hook='x":                "quote",
		"--hook= ":                 "no program",
		"--hook-limits=procs=0":    "procs=0: want",
		"--hook-limits=procs=257":  "1 to 256",
		"--hook-limits=timeout=0s": "timeout=0s: want",
		"--hook-limits=body=0":     "body=0: want",
		"--hook-limits=body=1GiB":  "1B to 64MiB",
	} {
		dir := filepath.Join(t.TempDir(), "none")
		_, errs := wantExit(t, term.ExitUsage, "", "crawl", "http://127.0.0.1/", "--contact=a@example.org",
			"--dir="+dir, flag)
		if !strings.Contains(errs, want) {
			t.Errorf("%s: %s", flag, errs)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: directory: %v", flag, err)
		}
	}
	flags, _ := hookSite(t)
	_, errs := wantExit(t, term.ExitFailure, "",
		append([]string{"crawl", "--dir=" + filepath.Join(t.TempDir(), "d"), "--hook=false"}, flags...)...)
	if !strings.Contains(errs, "its standard output") {
		t.Errorf("a hook that ends: %s", errs)
	}
}
