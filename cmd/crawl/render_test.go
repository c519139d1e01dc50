package crawl

import (
	"testing"
	"time"
)

// TestRenderFlags checks the limits of each flag, and which need others.
func TestRenderFlags(t *testing.T) {
	good := renderFlags{Render: "ws://127.0.0.1:9222", RenderRules: []string{"rules"}, RenderTabs: 2, RenderTime: time.Second,
		RenderLongest: time.Minute, RenderRequests: 10, RenderBytes: 1 << 20, RenderQueue: 1 << 30, RenderCache: 1 << 20}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(f *renderFlags){
		"no tab": func(f *renderFlags) { f.RenderTabs = 0 }, "many tabs": func(f *renderFlags) { f.RenderTabs = mostRenderTabs + 1 },
		"no time": func(f *renderFlags) { f.RenderTime = 0 }, "time beyond longest": func(f *renderFlags) { f.RenderTime = time.Hour },
		"long": func(f *renderFlags) { f.RenderLongest = 25 * time.Hour }, "no request": func(f *renderFlags) { f.RenderRequests = 0 },
		"many requests": func(f *renderFlags) { f.RenderRequests = mostRenderRequests + 1 }, "few bytes": func(f *renderFlags) { f.RenderBytes = 1 },
		"many bytes": func(f *renderFlags) { f.RenderBytes = mostRenderBytes + 1 }, "small queue": func(f *renderFlags) { f.RenderQueue = 1 },
		"small cache": func(f *renderFlags) { f.RenderCache = 1 }, "no rules": func(f *renderFlags) { f.RenderRules = nil },
		"rules alone": func(f *renderFlags) { f.Render = "" }, "http": func(f *renderFlags) { f.Render = "http://127.0.0.1:9222" },
	} {
		f := good
		if change(&f); f.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	off := good
	off.Render, off.RenderRules = "", nil
	if err := off.check(); err != nil {
		t.Error(err)
	}
}
