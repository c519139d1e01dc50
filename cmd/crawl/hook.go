package crawl

import (
	"fmt"
	"os/exec"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/internal/hook"
)

// hookFlags set the program that is asked about each page.
type hookFlags struct {
	Hook        string        `group:"hook" placeholder:"CMD"`
	HookProcs   *flags.Count  `group:"hook" placeholder:"N"`
	HookTimeout time.Duration `group:"hook" placeholder:"DURATION" default:"5s"`
	HookBody    flags.Size    `group:"hook" placeholder:"SIZE" default:"1MiB"`
}

// mostHookBody bounds --hook-body, in bytes: RAM holds several copies.
const mostHookBody = 64 << 20

// check returns the first fault of the flags.
func (h *hookFlags) check() error {
	switch {
	case h.HookTimeout < time.Millisecond:
		return fmt.Errorf("--hook-timeout %v: must be at least 1ms", h.HookTimeout)
	case h.HookProcs != nil && (*h.HookProcs < 1 || *h.HookProcs > hook.MaxProcs):
		return fmt.Errorf("--hook-procs %d: must be between 1 and %d", *h.HookProcs, hook.MaxProcs)
	case h.HookBody < 1 || h.HookBody > mostHookBody:
		return fmt.Errorf("--hook-body %v: must be between 1 and %v", h.HookBody, flags.Size(mostHookBody))
	case h.Hook == "":
		return nil
	}
	words, err := hook.Words(h.Hook)
	if err != nil {
		return fmt.Errorf("--hook %q: %w", h.Hook, err)
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("--hook %q: %w", h.Hook, err)
	}
	return nil
}

// procs returns the number of processes.
func (h *hookFlags) procs() int {
	switch {
	case h.Hook == "":
		return 0
	case h.HookProcs == nil:
		return hook.DefaultProcs()
	}
	return int(*h.HookProcs)
}

// options returns the options of the hook, nil without --hook. The flags must be checked.
func (h *hookFlags) options() *hook.Options {
	words, err := hook.Words(h.Hook)
	if err != nil {
		return nil
	}
	return &hook.Options{Command: words, Procs: h.procs(), Timeout: h.HookTimeout, BodyBytes: int(h.HookBody)}
}

// hookFiles is the number of descriptors of a process of the hook.
const hookFiles = 3
