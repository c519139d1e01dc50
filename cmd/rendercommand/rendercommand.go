// Package rendercommand is the command render-command: it prints the command that starts a browser for crawl --render,
// with all flags that the browser must have.
//
// Command is the table of its flags. Package internal/render has the flags (render.Flags), asks a browser for them, and
// uses none that lacks one; this command and the page docs/how-it-works/rendering.md take them from there,
// and a test compares the page. The command line goes to standard output, as a POSIX shell reads it, so that
//
//	sh -c "$(drumbeat render-command)"
//
// starts the browser. What to do next, and what root must know, go to standard error.
//
// Without --browser it names the first program of a list that is in PATH, and chromium if none is. It starts nothing
// and opens no port. The DevTools of the browser have no password: whoever reaches their port controls the browser, so
// the command keeps it on loopback.
//
// Exit codes: 0; term.ExitUsage (2) for a bad flag.
//
// The package keeps no state, starts no goroutine and uses no file.
package rendercommand

import (
	"errors"
	"fmt"
	"os"

	"drumbeat/cmd/term"
	"drumbeat/internal/render"
)

// Command is the table of render-command's flags.
type Command struct {
	Browser string `placeholder:"PROGRAM"`
	Port    int    `default:"9222" placeholder:"PORT"`
}

// Run prints the command.
func (c *Command) Run(a *term.App) error {
	if c.Port < 1 || c.Port > 65535 {
		return term.Usage(errors.New("render-command: --port: want 1 to 65535"))
	}
	if c.Browser == "" {
		c.Browser, _ = render.Installed()
	}
	if _, err := fmt.Fprintln(a.Stdout, render.Command(c.Browser, c.Port)); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		fmt.Fprintln(a.Stderr, "Do not run the browser as root: it refuses, or runs without its sandbox "+
			"(--no-sandbox). Run it as a separate user.")
	}
	_, err := fmt.Fprintf(a.Stderr,
		"Then: drumbeat crawl … --render ws://127.0.0.1:%d --render-rules FILE\n", c.Port)
	return err
}
