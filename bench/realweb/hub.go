package main

import (
	"embed"
	"fmt"
	"os"
	"path"
	"text/template"
)

//go:embed hub
var hubFiles embed.FS

// writeHub writes the hub's pages from their templates.
func (w *web) writeHub() error {
	data := struct {
		Hosts       []string // host names
		Origins     []string // of the same hosts
		Plain, Safe string   // a host of http and one of https; Safe is Plain if there is none
	}{Plain: w.hosts[1].name, Safe: w.hosts[1].name}
	for _, h := range w.hosts[1:] {
		data.Hosts = append(data.Hosts, h.name)
		data.Origins = append(data.Origins, h.origin())
		if h.https {
			data.Safe = h.name
		}
	}
	pages, err := template.ParseFS(hubFiles, "hub/*.html")
	if err != nil {
		return fmt.Errorf("realweb: the hub's pages: %w", err)
	}
	for _, page := range pages.Templates() {
		f, err := os.Create(w.path("hub", path.Base(page.Name())))
		if err != nil {
			return err
		}
		if err := page.Execute(f, data); err != nil {
			f.Close()
			return fmt.Errorf("realweb: the hub's pages: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(w.path("hub", "sub", "a b"), 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"sub/index.html": "<title>sub</title><p><a href=../corners.html>up</a> <a " +
			"href=../../../end.html>too far up</a>",
		"sub/a b/index.html": "<title>a b</title><p><a href=../../end.html>end</a>",
		"sub/page.html":      "<title>page</title><p><a href=../end.html?from=page#x>end</a>",
		"plain.txt":          "<a href=/never.html>not HTML</a>\n",
	} {
		if err := os.WriteFile(w.path("hub", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
