package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/nlnwa/whatwg-url/url"
)

// class is the reason why a URL is not fetched, or the rule that explains a difference.
type class string

// Reasons to drop a reference or a URL.
const (
	notURL      class = "not a URL"
	otherScheme class = "scheme other than http and https"
	tooLong     class = "longer than 2083 bytes"
	noFollow    class = "only linked with nofollow (rel, or the page's robots meta)"
	byRobots    class = "forbidden by robots.txt"
	notServed   class = "host not in DNS"
)

// walk is the set of URLs that a crawl by the rules must fetch.
type walk struct {
	web     *web
	fetched map[string]*answer
	left    map[string]class  // URLs seen and not fetched
	found   map[string]string // URL -> a page it was found on

	pages   int           // answers that are HTML with status 200
	links   int           // links that are URLs and may be followed, repetitions included
	refused map[class]int // references, repetitions included
	unread  []string      // files that the reference parser refuses

	docs sync.Map // file name -> *document, or an error
}

// newWalk walks the web from its seeds, breadth first.
func newWalk(w *web) (*walk, error) {
	k := &walk{web: w, fetched: map[string]*answer{}, left: map[string]class{}, found: map[string]string{},
		refused: map[class]int{}}
	skips := map[string]bool{}
	level := k.admit(w.seeds(), "")
	for len(level) > 0 {
		results, err := k.read(level)
		if err != nil {
			return nil, err
		}
		var next []string
		for i, r := range results {
			next = append(next, k.admit(r.urls, level[i])...)
			k.links += r.links
			for c, n := range r.refused {
				k.refused[c] += n
			}
			for _, u := range r.skips {
				skips[u] = true
			}
		}
		level = next
	}
	for u := range skips {
		if _, known := k.fetched[u]; !known && k.left[u] == "" {
			k.left[u] = noFollow
		}
	}
	k.docs.Range(func(name, doc any) bool {
		if _, bad := doc.(error); bad {
			k.unread = append(k.unread, name.(string))
		}
		return true
	})
	return k, nil
}

// admit divides new URLs into fetched and left, and returns the former.
func (k *walk) admit(urls []string, from string) []string {
	var list []string
	for _, u := range urls {
		if _, seen := k.found[u]; seen {
			continue
		}
		k.found[u] = from
		a := k.web.answerTo(u)
		switch {
		case a == nil:
			k.left[u] = notServed
		case !k.web.allowed(u):
			k.left[u] = byRobots
		default:
			k.fetched[u] = a
			if a.status == 200 && a.mime == mimes[".html"] {
				k.pages++
			}
			list = append(list, u)
		}
	}
	return list
}

// outlinks are the links of one answer.
type outlinks struct {
	urls    []string // different
	skips   []string
	links   int
	refused map[class]int
	err     error
}

// read reads the links of answers, on all processors.
func (k *walk) read(urls []string) ([]outlinks, error) {
	results := make([]outlinks, len(urls))
	var wg sync.WaitGroup
	n := runtime.NumCPU()
	for i := range n {
		wg.Go(func() {
			parser := newURLParser()
			for j := i; j < len(urls); j += n {
				results[j] = k.outlinksOf(parser, urls[j])
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		if r.err != nil {
			return nil, r.err
		}
	}
	return results, nil
}

func (k *walk) outlinksOf(parser url.Parser, from string) (out outlinks) {
	a := k.fetched[from]
	base, err := parser.Parse(from)
	if err != nil {
		return outlinks{err: fmt.Errorf("realweb: walk to %s: %w", from, err)}
	}
	out.refused = map[class]int{}
	if a.location != "" {
		if u, c := resolve(base, a.location); c == "" {
			out.urls, out.links = []string{u}, 1
		}
		return out
	}
	if a.status != 200 || a.mime != mimes[".html"] {
		return out
	}
	d, err := k.document(a.file)
	if err != nil {
		return out // reported in unread
	}
	if d.hasBase {
		if b, err := base.Parse(d.base); err == nil && b.Scheme() != "data" && b.Scheme() != "javascript" {
			base = b
		}
	}
	seen := map[string]bool{}
	take := func(ref string, times int, skip bool) {
		u, c := resolve(base, ref)
		if c != "" {
			out.refused[c] += times
			return
		}
		if skip || d.nofollow {
			out.skips = append(out.skips, u)
			return
		}
		out.links += times
		if !seen[u] {
			seen[u] = true
			out.urls = append(out.urls, u)
		}
	}
	for ref, times := range d.refs {
		take(ref, times, false)
	}
	for _, ref := range d.skips {
		take(ref, 1, true)
	}
	return out
}

// document parses a file once, although several hosts may serve it.
func (k *walk) document(file string) (*document, error) {
	v, ok := k.docs.Load(file)
	if !ok {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d any
		if d, err = readDocument(body, mimes[".html"]); err != nil {
			d = err
		}
		v, _ = k.docs.LoadOrStore(file, d)
	}
	if err, bad := v.(error); bad {
		return nil, err
	}
	return v.(*document), nil
}

// print prints the figures of the walk.
func (k *walk) print() {
	seen := len(k.fetched) + len(k.left)
	fmt.Printf("walk: %d URLs to fetch, including %d pages; %d links to %d different URLs (%.2f %%); %d "+
		"excluded:\n",
		len(k.fetched), k.pages, k.links, seen, 100*float64(seen)/float64(k.links), len(k.left))
	byClass := map[class]int{}
	for _, c := range k.left {
		byClass[c]++
	}
	for _, c := range slices.Sorted(maps.Keys(byClass)) {
		fmt.Printf("  %6d %s\n", byClass[c], c)
	}
	for _, c := range slices.Sorted(maps.Keys(k.refused)) {
		fmt.Printf("  %6d references, including repeated ones: %s\n", k.refused[c], c)
	}
	for _, f := range k.unread {
		fmt.Printf("  the reference parser cannot read %s\n", f)
	}
}
