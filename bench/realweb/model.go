package main

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// answer is the expected response of nginx to a GET.
type answer struct {
	status   int
	location string // of a redirect
	mime     string // of a file
	file     string // with status 200
}

// mimes are the types in nginx's configuration, by extension.
var mimes = map[string]string{".html": "text/html", ".txt": "text/plain", ".css": "text/css", ".js": "text/javascript",
	".xml": "text/xml", ".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif", ".pdf": "application/pdf"}

const otherMime = "application/octet-stream"

// answerTo predicts the answer to a canonical URL; nil if its origin is not in the web. It models nginx's
// static files with an index, no listings and merged slashes.
func (w *web) answerTo(canonical string) *answer {
	u, err := url.Parse(canonical)
	if err != nil || u.Port() != "" {
		return nil
	}
	h := w.byName[u.Host]
	if h == nil || u.Scheme == "https" && !h.https {
		return nil
	}
	target := u.EscapedPath()
	if u.RawQuery != "" || u.ForceQuery {
		target += "?" + u.RawQuery
	}
	if h.https && u.Scheme == "http" {
		return &answer{status: 301, location: h.origin() + target}
	}
	if u.Path == "/robots.txt" && h.robotsText() != "" {
		return &answer{status: 200, mime: mimes[".txt"]}
	}
	if h.root == "" || strings.Contains(u.Path, "\x00") {
		return &answer{status: 404}
	}
	// Like nginx, path.Clean merges slashes and resolves dots in the unescaped path.
	clean := path.Clean(u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	return fileAnswer(h.root, clean, u.RawQuery)
}

func fileAnswer(root, clean, query string) *answer {
	name := filepath.Join(root, filepath.FromSlash(clean))
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return &answer{status: 404}
	case info.IsDir() && !strings.HasSuffix(clean, "/"):
		to := (&url.URL{Path: clean + "/"}).EscapedPath()
		if query != "" {
			to += "?" + query
		}
		return &answer{status: 301, location: to}
	case info.IsDir():
		name = filepath.Join(name, "index.html")
		if _, err := os.Stat(name); err != nil {
			return &answer{status: 403}
		}
	case strings.HasSuffix(clean, "/"):
		return &answer{status: 404}
	}
	mime := mimes[strings.ToLower(filepath.Ext(name))]
	if mime == "" {
		mime = otherMime
	}
	return &answer{status: 200, mime: mime, file: name}
}

// allowed reports whether the host's robots.txt, which has one rule with a plain prefix, allows a URL.
func (w *web) allowed(canonical string) bool {
	u, err := url.Parse(canonical)
	if err != nil {
		return false
	}
	h := w.byName[u.Host]
	return h == nil || h.disallow == "" || u.Path == "/robots.txt" || !strings.HasPrefix(u.EscapedPath(), h.disallow)
}

// robotsText returns the robots.txt of a host; "" for none.
func (h *host) robotsText() string {
	if h.disallow == "" && !h.robots {
		return ""
	}
	return "# realweb\nUser-agent: *\nDisallow: " + h.disallow + "\n"
}
