package cmd

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// The size of a screen of help.
const (
	helpLines   = 45
	helpColumns = 100
)

// TestHelpFitsAScreen: each command, flag and argument has a text, and each text one of these. --help of each command
// has at most 45 lines of 100 columns, usage first. Where it selects flags there are examples, and no text is cut.
func TestHelpFitsAScreen(t *testing.T) {
	var c commands
	p := cmdtest.Parser(t, &c)
	if err := flags.CheckHelp(p.Model); err != nil {
		t.Error(err)
	}
	for _, node := range append(p.Model.Leaves(true), p.Model.Node) {
		args := strings.Fields(strings.TrimPrefix(node.Path(), "drumbeat"))
		out, _ := wantExit(t, term.ExitDone, "", append(args, "--help")...)
		if n := strings.Count(out, "\n"); n > helpLines {
			t.Errorf("%v --help has %d lines:\n%s", args, n, out)
		}
		for line := range strings.Lines(out) {
			if len(line) > helpColumns+1 {
				t.Errorf("%v --help: a line of %d columns: %s", args, len(line)-1, line)
			}
		}
		if !strings.HasPrefix(out, "Usage: drumbeat ") {
			t.Errorf("%v --help: %s", args, out)
		}
		common := 0
		for _, flag := range node.Flags {
			if flag.Tag.Has("common") {
				common++
			}
		}
		if n := strings.Count(out, "\n  drumbeat "); common > 0 && (n < 3 || n > 5 || common > 25) {
			t.Errorf("%v --help has %d examples and %d flags", args, n, common)
		}
		if (common > 0 || node.Type == kong.ApplicationNode) && strings.Contains(out, " ...\n") {
			t.Errorf("%v --help cuts text:\n%s", args, out)
		}
	}
}

// TestHelpAll: --help-all prints every flag and its whole text.
func TestHelpAll(t *testing.T) {
	notShort(t)
	var c commands
	p := cmdtest.Parser(t, &c)
	for _, node := range p.Model.Leaves(true) {
		args := strings.Fields(strings.TrimPrefix(node.Path(), "drumbeat"))
		out, _ := wantExit(t, term.ExitDone, "", append(args, "--help-all")...)
		text := strings.Join(strings.Fields(out), " ")
		for _, flag := range node.Flags {
			if !flag.Hidden &&
				(!strings.Contains(text, "--"+flag.Name) && !strings.Contains(text, "--[no-]"+flag.Name) ||
					!strings.Contains(text, strings.Join(strings.Fields(flag.Help), " "))) {
				t.Errorf("%v --help-all lacks --%s: %s", args, flag.Name, flag.Help)
			}
		}
	}
}
