package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/internal/human"
	"drumbeat/internal/render"
)

// renderFlags set the browser that renders some pages.
type renderFlags struct {
	Render       string       `group:"render" placeholder:"auto|ws://HOST:PORT"`
	RenderRules  []string     `group:"render" placeholder:"FILE"`
	RenderLimits renderLimits `group:"render" type:"parts" placeholder:"PARTS"`

	env func(name string) (string, bool) // term.App.Environment; nil: there are no variables
}

// renderLimits bound the work for pages. RAM holds several copies of what a page receives, for each tab.
type renderLimits struct {
	Tabs      flags.Count   `part:"tabs" default:"2" least:"1" most:"64"`
	Time      time.Duration `part:"time" default:"10s" least:"100ms" most:"1d"`
	Longest   time.Duration `part:"longest" default:"10m" least:"100ms" most:"1d"`
	Requests  flags.Count   `part:"requests" default:"100" least:"1" most:"10000"`
	Resources flags.Count   `part:"resources" default:"200" least:"0" most:"10000"`
	Bytes     flags.Size    `part:"bytes" default:"8MiB" least:"4KiB" most:"64MiB"`
	Queue     flags.Size    `part:"queue" default:"1GiB" least:"1MiB"`
	Browser   flags.Size    `part:"browser" default:"2GiB" least:"256MiB"`
	Cache     flags.Size    `part:"cache" default:"32MiB" least:"1MiB"`
}

// check returns the first fault of the flags.
func (f *renderFlags) check() error {
	switch {
	case f.RenderLimits.Time > f.RenderLimits.Longest:
		return fmt.Errorf("--render-limits: time=%v is more than longest=%v", human.Exact(f.RenderLimits.Time),
			human.Exact(f.RenderLimits.Longest))
	case f.Render == "" && len(f.RenderRules) > 0:
		return errors.New("--render-rules: needs --render")
	case f.Render == "" || f.launch() != nil:
		return nil
	}
	if _, err := render.ParseEndpoint(f.Render); err != nil {
		return fmt.Errorf("--render %q: %w", f.Render, err)
	}
	return nil
}

// The values of --render that start a browser.
const (
	auto        = "auto"
	autoNoFence = "auto:no-sandbox"
)

// launch returns how to start the browser; nil for one that runs already.
func (f *renderFlags) launch() *render.Launch {
	if f.Render != auto && f.Render != autoNoFence {
		return nil
	}
	l := &render.Launch{NoSandbox: f.Render == autoNoFence, Bytes: int64(f.RenderLimits.Browser)}
	if f.env != nil {
		l.Program, _ = f.env("CHROMIUM") // "" if it is not set
		l.Path, _ = f.env("PATH")
	}
	return l
}

// browserTime bounds the check of a browser that runs, at the start.
const browserTime = 10 * time.Second

// checkBrowser returns why no crawl can start with the browser of --render; nil without the flag. A crawl that runs
// waits for a browser that ends.
func (f *renderFlags) checkBrowser(ctx context.Context) error {
	if f.Render == "" {
		return nil
	}
	if l := f.launch(); l != nil {
		b, err := l.Start(ctx)
		if err == nil {
			b.Close()
			return nil
		}
		why := strings.TrimPrefix(err.Error(), "render: ")
		if !l.NoSandbox && strings.Contains(why, "andbox") {
			why += fmt.Sprintf("; Chromium needs unprivileged user namespaces (or its setuid helper) for its sandbox; "+
				"--render %s works without it, but then a page that takes over the browser has the rights of its user",
				autoNoFence)
		}
		return fmt.Errorf("--render %s: %s", f.Render, why)
	}
	ctx, cancel := context.WithTimeout(ctx, browserTime)
	defer cancel()
	b, err := render.Dial(ctx, f.Render)
	if err != nil {
		why := err.Error()
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			why = "nothing listens there"
		case errors.Is(err, context.DeadlineExceeded):
			why = "no answer within " + human.Duration(browserTime)
		}
		return fmt.Errorf("--render %s: no usable browser: %s; --render auto starts one", f.Render,
			why)
	}
	b.Close()
	return nil
}

// options returns the options of the browser, nil without --render. The flags must be checked.
func (f *renderFlags) options() *crawl.RenderOptions {
	if f.Render == "" {
		return nil
	}
	l := &f.RenderLimits
	resources := int(l.Resources)
	if resources == 0 {
		resources = crawl.NoRenderResources
	}
	return &crawl.RenderOptions{Endpoint: f.Render, Launch: f.launch(), Rules: f.RenderRules, Tabs: int(l.Tabs),
		Time: l.Time, Longest: l.Longest, Requests: int(l.Requests), Resources: resources,
		PageBytes: int64(l.Bytes), QueueBytes: int64(l.Queue), CacheBytes: int64(l.Cache)}
}
