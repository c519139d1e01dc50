package crawl

import (
	"testing"
	"time"
)

// TestRenderFlags checks the limits of each flag, and which need others.
func TestRenderFlags(t *testing.T) {
	good := renderFlags{Render: "ws://127.0.0.1:9222", RenderRules: []string{"rules"},
		RenderLimits: renderLimits{Time: time.Second, Longest: time.Minute}}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(f *renderFlags){
		"time beyond longest": func(f *renderFlags) { f.RenderLimits.Time = time.Hour },
		"no rules":            func(f *renderFlags) { f.RenderRules = nil }, "rules alone": func(f *renderFlags) {
			f.Render = ""
		}, "http": func(f *renderFlags) { f.Render = "http://127.0.0.1:9222" },
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
