package cmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// installed returns the path of a program; it skips the test if there is none.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// visible returns the commands and flags that are not hidden.
func visible(t *testing.T) map[string][]*kong.Flag {
	t.Helper()
	var c commands
	p := cmdtest.Parser(t, &c)
	list := map[string][]*kong.Flag{}
	for _, node := range p.Model.Leaves(true) {
		path := strings.TrimPrefix(node.Path(), "drumbeat ")
		for _, flag := range slices.Concat(node.Parent.Flags, flags.OwnFlags(node)) {
			if !flag.Hidden && !strings.HasPrefix(flag.Name, "help") {
				list[path] = append(list[path], flag)
			}
		}
	}
	return list
}

// TestBashCompletion: the script completes commands, flags and values in bash.
func TestBashCompletion(t *testing.T) {
	shell := installed(t, "bash")
	script, _ := wantExit(t, term.ExitDone, "", "completion", "bash")
	file := cmdtest.File(t, "drumbeat.bash", script)
	dir := t.TempDir()
	for _, name := range []string{"seeds 1.txt", "sedan"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "sets"), 0o700))
	complete := func(words ...string) string {
		run := exec.Command(shell, "--norc", "-c",
			`. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _drumbeat; printf '%s\n' "${COMPREPLY[@]}"`,
			"test", file, "drumbeat")
		run.Args = append(run.Args, words...)
		run.Dir = dir
		var errs bytes.Buffer
		run.Stderr = &errs
		out, err := run.Output()
		if err != nil || errs.Len() > 0 {
			t.Errorf("%q: %v: %s", words, err, errs.String())
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, ",")
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"cr"}, "crawl"}, {[]string{"help", "ex"}, "explain,export,extract"},
		{[]string{"explain", ""}, "host,links,pld,robots,scope,url"},
		{[]string{"crawl", "--host-delay-"}, "--host-delay-factor"}, {[]string{"crawl", "--scope", ""}, "all,host,pld"},
		{[]string{"crawl", "--scope", "=", "p"}, "pld"}, {[]string{"crawl", "--scope", "="}, "all,host,pld"},
		{[]string{"crawl", "--preset", "=", "s"}, "site,survey"},
		{[]string{"crawl", "--seeds", "se"}, "sedan,seeds 1.txt,sets"}, {[]string{"crawl", "--dir", "=", "se"}, "sets"},
		{[]string{"crawl", "--agent", ""}, ""}, {[]string{"crawl", "--sitemaps", "--max-t"}, "--max-time"},
		{[]string{"audit", "-d", "se"}, "sets"},
		{[]string{"audit", "--de"}, "--deep"}, {[]string{"audit", "s"}, "sets"},
		{[]string{"bench", "crawl", "--tra"}, "--transport"}, {[]string{"explain", "url", "--ba"}, "--base"},
		{[]string{"config", "p"}, "plan"}, {[]string{"completion", ""}, "bash,fish,zsh"},
		{[]string{"ctl", "block", ""}, "host,net,pld"}, {[]string{"crawl", "--guards", "de"}, "depth="},
		{[]string{"crawl", "--guards", "=", "depth", "=", "3,par"}, "3,params="},
		{[]string{"crawl", "--canonical", "escapes", "="}, "fold,keep"},
		{[]string{"crawl", "--canonical", "=", "sort,escapes", "=", "k"}, "keep"},
		{[]string{"crawl", "--canonical", "sort,sl"}, "sort,slashes"},
		{[]string{"crawl", "--canonical", "=", "sort", "--dra"}, "--drain"}, {[]string{"bench", "drum-c"}, ""},
		{[]string{"crawl", "--map"}, ""},
	} {
		if got := complete(c.words...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.words, got, c.want)
		}
	}
	for path, flags := range visible(t) {
		got := strings.Split(complete(append(strings.Fields(path), "--")...), ",")
		for _, flag := range flags {
			if !slices.Contains(got, "--"+flag.Name) {
				t.Errorf("%s: no completion of --%s", path, flag.Name)
			}
		}
	}
}

// TestCompletionScripts: the scripts of all shells have every flag, and pass the shell's own check if it is
// installed.
func TestCompletionScripts(t *testing.T) {
	list := visible(t)
	for shell, prefix := range map[string]string{"bash": "--", "zsh": "--", "fish": "-l "} {
		script, _ := wantExit(t, term.ExitDone, "", "completion", shell)
		for path, flags := range list {
			for _, flag := range flags {
				if !strings.Contains(script, prefix+flag.Name) {
					t.Errorf("%s: no --%s of %s", shell, flag.Name, path)
				}
			}
		}
		if strings.Contains(script, "map-port") || strings.Contains(script, "drum-child") {
			t.Errorf("%s: completes hidden names", shell)
		}
		for line := range strings.Lines(script) {
			if shell == "fish" && strings.Count(strings.ReplaceAll(line, `\'`, ""), "'")%2 != 0 {
				t.Errorf("fish: odd quotes: %s", line)
			}
		}
		if path, err := exec.LookPath(shell); err == nil {
			if out, err := exec.Command(path, "-n", cmdtest.File(t, "script", script)).CombinedOutput(); err != nil ||
				len(out) > 0 {
				t.Errorf("%s -n: %v: %s", shell, err, out)
			}
		}
	}
	wantExit(t, term.ExitUsage, "", "completion", "tcsh")
}

// TestManPage: the manual page has each command and flag, begins no line with an unknown macro, and passes
// the checks of mandoc and groff if they are installed.
func TestManPage(t *testing.T) {
	page, _ := wantExit(t, term.ExitDone, "", "man")
	macros := []string{".TH", ".ad", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}
	for line := range strings.Lines(page) {
		macro, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, ".") && !slices.Contains(macros, macro) ||
			strings.HasPrefix(line, "'") || line == "\n" {
			t.Errorf("line %q", line)
		}
	}
	escape := strings.NewReplacer("-", `\-`)
	for path, flags := range visible(t) {
		_, section, ok := strings.Cut(page, ".SS "+escape.Replace("drumbeat "+path)+"\n")
		section, _, _ = strings.Cut(section, "\n.S")
		if !ok {
			t.Errorf("no section for %s", path)
		}
		for _, flag := range flags {
			if !strings.Contains(section, `\fB`+escape.Replace("--"+flag.Name)+`\fR`) {
				t.Errorf("%s: no --%s", path, flag.Name)
			}
		}
	}
	file := cmdtest.File(t, "drumbeat.1", page)
	for _, check := range [][]string{{"groff", "-man", "-ww", "-z", "-Tutf8"}, {"mandoc", "-Tlint", "-Werror"}} {
		if path, err := exec.LookPath(check[0]); err == nil {
			if out, err := exec.Command(path, append(check[1:], file)...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %v: %s", check, err, out)
			}
		}
	}
}
