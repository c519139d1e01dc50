package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Classes of differences that a rule explains.
const (
	ofRobots  class = "robots.txt, requested as the protocol says"
	deepPage  class = "found on a page that the reference parser cannot read"
	treeDrops class = "on a tag that the tree builder drops (see package parse)"
	cutPage   class = "linked only from a page that was cut at the body limit"
	afterKill class = "requested again after a kill"
	noneFound class = "" // unexplained
)

// difference is one URL on which crawl and walk disagree.
type difference struct {
	url, what string
	class     class
}

// comparison collects differences.
type comparison struct {
	walk     *walk
	kills    int // of drumbeat
	captured map[string]capture
	list     []difference
}

func (c *comparison) add(why class, url, what string, args ...any) {
	c.list = append(c.list, difference{url, fmt.Sprintf(what, args...), why})
}

// evaluate compares the crawl with the walk and prints the differences. Its error has the number of
// unexplained ones.
func (c crawlCmd) evaluate(k *walk, s *servers, kills int) error {
	captures, err := readIndex(s.web.path("crawl"))
	if err != nil {
		return err
	}
	log, err := readRequests(s.web.path("access.log"))
	if err != nil {
		return err
	}
	found := &comparison{walk: k, kills: kills, captured: map[string]capture{}}
	found.captures(captures)
	found.requests(log)
	fmt.Printf("%d captures, %d DNS requests, %d of them for names that do not exist\n", len(captures),
		s.asked.all.Load(), s.asked.denied.Load())
	return found.print(s.web.path("differences.tsv"))
}

// captures compares the index with the walk.
func (c *comparison) captures(list []capture) {
	for _, x := range list {
		if _, twice := c.captured[x.URL]; twice {
			c.add(noneFound, x.URL, "stored twice")
			continue
		}
		c.captured[x.URL] = x
	}
	for u, want := range c.walk.fetched {
		got, ok := c.captured[u]
		switch {
		case !ok:
			c.add(c.whyMissing(u), u, "not stored; found on %s", c.walk.found[u])
		case got.Status != strconv.Itoa(want.status):
			c.add(noneFound, u, "status %s, want %d", got.Status, want.status)
		case want.mime != "" && got.MIME != want.mime && got.MIME != "warc/revisit":
			c.add(noneFound, u, "type %s, want %s", got.MIME, want.mime)
		}
	}
	for u, x := range c.captured {
		if c.walk.fetched[u] == nil {
			c.add(c.whyExtra(u), u, "stored with status %s, not in the walk", x.Status)
		}
	}
}

// whyMissing explains a URL of the walk that was not stored: the crawl may have read only a part of the page
// that links to it.
func (c *comparison) whyMissing(u string) class {
	if c.captured[c.walk.found[u]].Truncated != "" {
		return cutPage
	}
	return noneFound
}

// whyExtra explains a stored URL that is not in the walk.
func (c *comparison) whyExtra(u string) class {
	if strings.HasSuffix(u, "/robots.txt") {
		return ofRobots
	}
	if c.walk.left[u] != "" {
		return noneFound // the rules forbid it, and print says which
	}
	if c.onTag(u, c.walk.unread) {
		return deepPage
	}
	if c.onTag(u, c.walk.files()) {
		return treeDrops
	}
	return noneFound
}

// onTag reports whether one of the files has a tag whose link, on the host of u, is u.
func (c *comparison) onTag(u string, files []string) bool {
	parser := newURLParser()
	h := c.walk.web.hostOf(u)
	if h == nil {
		return false
	}
	for _, file := range files {
		rest, ok := strings.CutPrefix(file, h.root)
		body, err := os.ReadFile(file)
		if !ok || err != nil {
			continue
		}
		base, err := parser.Parse(h.origin() + rest)
		if err != nil {
			continue
		}
		for t := html.NewTokenizer(bytes.NewReader(body)); t.Next() != html.ErrorToken; {
			for _, a := range t.Token().Attr {
				if a.Key != "href" && a.Key != "src" && a.Key != "xlink:href" {
					continue
				}
				if got, bad := resolve(base, a.Val); bad == "" && got == u {
					return true
				}
			}
		}
	}
	return false
}

// requests compares nginx's log with the walk: it finds requests for URLs that are in no WARC file.
func (c *comparison) requests(log *requests) {
	for u, n := range log.byURL {
		robots := strings.HasSuffix(u, "/robots.txt")
		if n > 1 && !robots {
			why := noneFound
			if n <= 1+c.kills {
				why = afterKill
			}
			c.add(why, u, "requested %d times", n)
		}
		if _, stored := c.captured[u]; !stored && !robots && c.walk.fetched[u] == nil {
			c.add(noneFound, u, "requested, not stored, and not in the walk (%s)", c.walk.left[u])
		}
	}
	for u := range c.captured {
		if log.byURL[u] == 0 {
			c.add(noneFound, u, "stored, but never requested")
		}
	}
	for name, v := range log.hosts {
		if _, overlaps := v.gaps(); overlaps > 0 {
			c.add(noneFound, name, "%d requests started before the previous one ended", overlaps)
		}
	}
}

// Maximum numbers of printed differences per class; the file has all of them.
const (
	printedUnexplained = 20
	printedExplained   = 3
)

// print lists the differences, writes all of them to a file, and returns an error if any is unexplained.
func (c *comparison) print(file string) error {
	slices.SortFunc(c.list, func(a, b difference) int {
		return cmp.Or(strings.Compare(string(a.class), string(b.class)), strings.Compare(a.url, b.url))
	})
	counts := map[class]int{}
	for _, d := range c.list {
		counts[d.class]++
	}
	if err := c.writeAll(file); err != nil {
		return err
	}
	shown := map[class]int{}
	for _, d := range c.list {
		if shown[d.class]++; shown[d.class] == 1 {
			title := cmp.Or(string(d.class), "UNEXPLAINED")
			fmt.Printf("differences: %d: %s\n", counts[d.class], title)
		}
		most := printedExplained
		if d.class == noneFound {
			most = printedUnexplained
		}
		if shown[d.class] <= most {
			fmt.Printf("  %s: %s\n", d.url, d.what)
		}
	}
	if n := counts[noneFound]; n > 0 {
		return fmt.Errorf("the crawl and the walk have %d unexplained differences", n)
	}
	if len(c.list) == 0 {
		fmt.Println("differences: none")
	}
	return nil
}

// writeAll writes a line for each difference: class, URL and description.
func (c *comparison) writeAll(name string) error {
	var text strings.Builder
	for _, d := range c.list {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", cmp.Or(string(d.class), "unexplained"), d.url, d.what)
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// files returns all pages that the walk has parsed.
func (k *walk) files() []string {
	var list []string
	k.docs.Range(func(name, _ any) bool {
		list = append(list, name.(string))
		return true
	})
	return list
}

// hostOf returns the host that serves a URL, nil if none does.
func (w *web) hostOf(u string) *host {
	_, rest, ok := strings.Cut(u, "://")
	name, _, _ := strings.Cut(rest, "/")
	if !ok {
		return nil
	}
	return w.byName[name]
}
