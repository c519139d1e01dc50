package testworld

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"drumbeat/disk"
	"drumbeat/internal/render"
	"drumbeat/warc"
)

// Script does what the scripts of a page would do.
type Script = func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error)

// Browser is a browser in this process.
type Browser struct {
	script Script
	done   chan struct{}
	once   sync.Once
}

// NewBrowser returns a Browser that renders all pages by script.
func NewBrowser(script Script) *Browser { return &Browser{script: script, done: make(chan struct{})} }

// Render renders a page.
func (b *Browser) Render(ctx context.Context, p *render.Page, f render.Fetcher, _ *render.Limits) (*render.Result,
	error) {
	return b.script(ctx, p, f)
}

// Done is closed when the connection ends.
func (b *Browser) Done() <-chan struct{} { return b.done }

// Product returns a name.
func (b *Browser) Product() string { return "fake" }

// Close ends the connection.
func (b *Browser) Close() { b.once.Do(func() { close(b.done) }) }

// RenderRules writes rules that tag all pages whose path begins with /r, and returns the names of their
// files.
func RenderRules(t *testing.T, fs disk.FS) []string {
	t.Helper()
	must(t, disk.WriteFileAtomic(fs, "rules", []byte("+ regex ^http://[^/]+/r\n")))
	return []string{"rules"}
}

// Rendered returns the rendered pages in the output by URL. It checks that each names the response of its
// page.
func Rendered(t *testing.T, fs disk.FS, dirs []string) map[string][]string {
	t.Helper()
	found, responses := map[string][]string{}, map[string]string{}
	var records []*warc.Record
	EachRecord(t, fs, dirs, func(r *warc.Record) {
		kept := *r
		kept.Block = slices.Clone(r.Block)
		kept.Fields = slices.Clone(r.Fields)
		records = append(records, &kept)
	})
	for _, r := range records {
		if r.Type() == "response" || r.Type() == "revisit" {
			responses[r.Get("WARC-Record-ID")] = r.Get("WARC-Target-URI")
		}
	}
	for _, r := range records {
		if r.Type() != "resource" {
			continue
		}
		url := strings.TrimPrefix(r.Get("WARC-Target-URI"), warc.RenderedPrefix)
		if of := responses[r.Get("WARC-Concurrent-To")]; of != url ||
			r.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("rendered %s: of the response of %q, type %q", url, of, r.Get("Content-Type"))
		}
		found[url] = append(found[url], string(r.Block))
	}
	return found
}
