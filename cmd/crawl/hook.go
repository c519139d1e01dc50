package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/internal/hook"
)

// hookFlags set the program that is asked about each page.
type hookFlags struct {
	Hook       string     `group:"hook" placeholder:"CMD"`
	HookLimits hookLimits `group:"hook" type:"parts" placeholder:"PARTS"`
}

// hookLimits bound the processes; RAM holds several copies of a body.
type hookLimits struct {
	Procs   *flags.Count  `part:"procs" least:"1" most:"256" example:"2"`
	Timeout time.Duration `part:"timeout" default:"5s" least:"1ms"`
	Body    flags.Size    `part:"body" default:"1MiB" least:"1B" most:"64MiB"`
}

// check returns the first fault of the flags.
func (h *hookFlags) check() error {
	if h.Hook == "" {
		return nil
	}
	words, err := hook.Words(h.Hook)
	if err != nil {
		return fmt.Errorf("--hook %q: %w", h.Hook, err)
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path // without the words of exec before it
		} else {
			err = fmt.Errorf("no directory of PATH has a program %s", words[0])
		}
		return fmt.Errorf("--hook %q: %w", h.Hook, err)
	}
	return nil
}

// procs returns the number of processes.
func (h *hookFlags) procs() int {
	switch {
	case h.Hook == "":
		return 0
	case h.HookLimits.Procs == nil:
		return hook.DefaultProcs()
	}
	return int(*h.HookLimits.Procs)
}

// options returns the options of the hook, nil without --hook. The flags must be checked.
func (h *hookFlags) options() *hook.Options {
	words, err := hook.Words(h.Hook)
	if err != nil {
		return nil
	}
	l := &h.HookLimits
	return &hook.Options{Command: words, Procs: h.procs(), Timeout: l.Timeout, BodyBytes: int(l.Body)}
}

// hookFiles is the number of descriptors of a process of the hook.
const hookFiles = 3
