package main

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"text/template"
)

// host is one name of the web.
type host struct {
	name     string
	addr     string // IPv4 address
	https    bool   // its pages are at https; at http each of its URLs redirects there
	root     string // directory that is served; "" for none
	disallow string // path prefix that its robots.txt forbids; "" for none
	robots   bool   // it has a robots.txt even if disallow is empty
	plain    bool   // in a web for trials: its pages are sent uncompressed
}

// origin returns the scheme and authority of the host's pages.
func (h *host) origin() string {
	if h.https {
		return "https://" + h.name
	}
	return "http://" + h.name
}

// web is the set of hosts. The first is the hub.
type web struct {
	work      string
	hosts     []*host
	byName    map[string]*host
	httpPort  int
	httpsPort int
	addrs     int  // number of IP addresses
	static    bool // for trials: all hosts are seeds, there is no hub, and bodies are compressed in advance
}

// plds have top-level domains that are reserved for tests (RFC 2606).
var plds = [...]string{"quince.test", "medlar.test", "sorb.test", "damson.test", "loquat.example", "bilberry.example",
	"bullace.example"}

// labels precede a PLD; more than 7 times as many hosts get numbers.
var labels = [...]string{"www", "docs", "mirror", "doc.archive"}

const (
	hubName   = "hub.rowan.test"
	firstAddr = 11 // hosts are on 127.0.0.11 and the following
	numAddrs  = 5
)

func newWeb(f webFlags) (*web, error) {
	if f.Hosts < 1 || f.Hosts > 1000 || len(f.Packages) == 0 {
		return nil, fmt.Errorf("realweb: --hosts %d: want 1 to 1,000, and at least one of --packages", f.Hosts)
	}
	work, err := filepath.Abs(f.Work)
	if err != nil {
		return nil, err
	}
	w := &web{work: work, byName: map[string]*host{}, addrs: numAddrs}
	w.add(&host{name: hubName, addr: w.address(0), root: w.path("hub"), disallow: "/private"})
	for i := range f.Hosts {
		pkg := f.Packages[i%len(f.Packages)]
		root, err := packageRoot(pkg)
		if err != nil {
			return nil, err
		}
		h := &host{name: hostName(i), addr: w.address(i), root: root, https: i/len(f.Packages)%2 == 1}
		if i/len(f.Packages) == 2 { // one host of each package
			h.disallow = disallowed(root)
		}
		w.add(h)
	}
	if err := os.MkdirAll(w.path("hub"), 0o755); err != nil {
		return nil, err
	}
	return w, w.writeHub()
}

func (w *web) add(h *host) {
	w.hosts = append(w.hosts, h)
	w.byName[h.name] = h
}

func (w *web) path(elem ...string) string { return filepath.Join(append([]string{w.work}, elem...)...) }

// seed returns the URL from which all others can be found.
func (w *web) seed() string { return w.hosts[0].origin() + "/" }

// seeds returns the URLs from which all others can be found, without ports, as in the walk.
func (w *web) seeds() []string {
	if !w.static {
		return []string{w.seed()}
	}
	var list []string
	for _, h := range w.hosts {
		list = append(list, h.origin()+"/")
	}
	return list
}

func (w *web) address(i int) string {
	i %= w.addrs
	return fmt.Sprintf("127.0.%d.%d", i/200, firstAddr+i%200)
}

func hostName(i int) string {
	pld, n := plds[i%len(plds)], i/len(plds)
	if n < len(labels) {
		return labels[n] + "." + pld
	}
	return fmt.Sprintf("m%d.%s", n, pld)
}

// disallowed returns the prefix that one host of each package forbids: the first directory or file name in
// sorted order, except an index.
func disallowed(root string) string {
	entries, _ := os.ReadDir(root) // empty: nothing is forbidden
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '_' && e.Name()[0] != '.' {
			return "/" + e.Name() + "/"
		}
	}
	for _, e := range entries {
		if e.Name() != "index.html" && e.Name()[0] != '.' {
			return "/" + e.Name()[:min(2, len(e.Name()))]
		}
	}
	return ""
}

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
