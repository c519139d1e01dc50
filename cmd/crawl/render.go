package crawl

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/internal/render"
)

// renderFlags set the browser that renders some pages.
type renderFlags struct {
	Render         string        `group:"render" placeholder:"ws://HOST:PORT"`
	RenderRules    []string      `group:"render" placeholder:"FILE"`
	RenderTabs     flags.Count   `group:"render" placeholder:"N" default:"2"`
	RenderTime     time.Duration `group:"render" placeholder:"DURATION" default:"10s"`
	RenderLongest  time.Duration `group:"render" placeholder:"DURATION" default:"10m"`
	RenderRequests flags.Count   `group:"render" placeholder:"N" default:"100"`
	RenderBytes    flags.Size    `group:"render" placeholder:"SIZE" default:"8MiB"`
	RenderQueue    flags.Size    `group:"render" placeholder:"SIZE" default:"1GiB"`
	RenderCache    flags.Size    `group:"render" placeholder:"SIZE" default:"32MiB"`
}

// Limits of the flags: RAM holds several copies of what a page receives, for each tab.
const (
	mostRenderTabs     = 64
	mostRenderRequests = 10_000
	mostRenderBytes    = 64 << 20
)

// check returns the first fault of the flags.
func (f *renderFlags) check() error {
	switch {
	case f.RenderTabs < 1 || f.RenderTabs > mostRenderTabs:
		return fmt.Errorf("--render-tabs %d: must be between 1 and %d", f.RenderTabs, mostRenderTabs)
	case f.RenderTime < 100*time.Millisecond || f.RenderTime > f.RenderLongest:
		return fmt.Errorf("--render-time %v: must be between 100ms and --render-longest", f.RenderTime)
	case f.RenderLongest > 24*time.Hour:
		return fmt.Errorf("--render-longest %v: must be at most 24h", f.RenderLongest)
	case f.RenderRequests < 1 || f.RenderRequests > mostRenderRequests:
		return fmt.Errorf("--render-requests %d: must be between 1 and %d", f.RenderRequests, mostRenderRequests)
	case f.RenderBytes < 4<<10 || f.RenderBytes > mostRenderBytes:
		return fmt.Errorf("--render-bytes %v: must be between 4 KiB and %v", f.RenderBytes, flags.Size(mostRenderBytes))
	case f.RenderQueue < 1<<20:
		return fmt.Errorf("--render-queue %v: must be at least 1 MiB", f.RenderQueue)
	case f.RenderCache < 1<<20:
		return fmt.Errorf("--render-cache %v: must be at least 1 MiB", f.RenderCache)
	case f.Render == "" && len(f.RenderRules) > 0:
		return errors.New("--render-rules: needs --render")
	case f.Render == "":
		return nil
	case len(f.RenderRules) == 0:
		return errors.New("--render: needs --render-rules, which say what is rendered")
	}
	if _, err := render.ParseEndpoint(f.Render); err != nil {
		return fmt.Errorf("--render %q: %w", f.Render, err)
	}
	return nil
}

// checkRender returns the first fault of the flags beside those of a cluster.
func (c *Command) checkRender() error {
	if c.Render != "" && len(c.Cluster) > 0 {
		return errors.New("--render does not work with --cluster: a page requests scripts from hosts of other nodes, " +
			"which keep their delays")
	}
	return c.renderFlags.check()
}

// options returns the options of the browser, nil without --render. The flags must be checked.
func (f *renderFlags) options() *crawl.RenderOptions {
	if f.Render == "" {
		return nil
	}
	return &crawl.RenderOptions{Endpoint: f.Render, Rules: f.RenderRules, Tabs: int(f.RenderTabs), Time: f.RenderTime,
		Longest: f.RenderLongest, Requests: int(f.RenderRequests), PageBytes: int64(f.RenderBytes),
		QueueBytes: int64(f.RenderQueue), CacheBytes: int64(f.RenderCache)}
}
