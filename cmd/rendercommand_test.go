package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/render"
)

// TestRenderCommand: a shell that runs the printed command starts the browser with all flags it must have, each as one
// argument, and docs/how-it-works/rendering.md has the same command.
func TestRenderCommand(t *testing.T) {
	out, errs := wantExit(t, term.ExitDone, "", "render-command", "--browser=chromium")
	page, err := os.ReadFile("../docs/how-it-works/rendering.md")
	must(t, err)
	block := "\n    " + strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n    ") + "\n\n"
	if !strings.Contains(string(page), block) {
		t.Errorf("docs/how-it-works/rendering.md lacks the command that render-command prints:\n%s", block)
	}
	if !strings.Contains(errs, "--render ws://127.0.0.1:9222") {
		t.Errorf("says %q", errs)
	}
	browser := cmdtest.File(t, "it's a browser", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
	must(t, os.Chmod(browser, 0o700))
	out, _ = wantExit(t, term.ExitDone, "", "render-command", "--browser", browser, "--port=9333")
	shell := exec.Command(installed(t, "sh"), "-c", out)
	shell.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	args, err := shell.Output()
	must(t, err)
	for _, want := range append(render.Flags(), "--headless=new", "--remote-debugging-port=9333", "about:blank") {
		if !strings.Contains("\n"+string(args), "\n"+want+"\n") {
			t.Errorf("got arguments\n%s\nwant %q among them", args, want)
		}
	}
	_, dir, _ := strings.Cut(string(args), "--user-data-dir=")
	dir, _, _ = strings.Cut(dir, "\n")
	if !filepath.IsAbs(dir) {
		t.Errorf("the profile is %q", dir)
	}
	wantExit(t, term.ExitUsage, "", "render-command", "--port=0")
	t.Setenv("PATH", filepath.Dir(cmdtest.File(t, "none", "")))
	if out, _ := wantExit(t, term.ExitDone, "", "render-command"); !strings.HasPrefix(out, "chromium ") {
		t.Errorf("without a browser in PATH: %s", out)
	}
}
