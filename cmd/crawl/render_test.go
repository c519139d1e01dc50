package crawl

import (
	"net"
	"strings"
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
		"rules alone":         func(f *renderFlags) { f.Render = "" },
		"http":                func(f *renderFlags) { f.Render = "http://127.0.0.1:9222" },
		"no such auto":        func(f *renderFlags) { f.Render = "auto:none" },
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

// TestNoBrowser: a browser that is not there ends the start at once, and the text says how to start one.
func TestNoBrowser(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "ws://" + l.Addr().String()
	_ = l.Close()
	f := renderFlags{Render: gone}
	if err := f.checkBrowser(t.Context()); err == nil || !strings.Contains(err.Error(), "--render auto starts one") ||
		!strings.Contains(err.Error(), gone) {
		t.Errorf("got %v", err)
	}
	for _, f := range []renderFlags{{Render: auto}, {Render: autoNoFence}} {
		f.env = func(string) (string, bool) { return "/no/chromium", true }
		if err := f.checkBrowser(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/chromium") {
			t.Errorf("%s: got %v", f.Render, err)
		}
	}
	if err := new(renderFlags).checkBrowser(t.Context()); err != nil {
		t.Errorf("without --render: %v", err)
	}
}
