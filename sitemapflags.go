package main

import (
	"fmt"

	"drumbeat/crawl"
	"drumbeat/fetch"
)

// defaultSitemapBody is --sitemap-body where RAM suffices: 50,000 URLs, the most that a sitemap may have, take half of that.
const defaultSitemapBody = 10 << 20

// sitemapBytes is how long a sitemap may be. One must find room in the part of the bodies' RAM that a single
// exchange may have: what a page may have, or a quarter of all.
func (c *crawlCmd) sitemapBytes(limits fetch.Limits, bodies int64) (int, error) {
	room := max(limits.MemoryBytes(), bodies/4)
	fits := func(n int64) bool {
		l := crawl.SitemapLimits(limits, int(n))
		return l.MemoryBytes() <= room
	}
	if c.SitemapBody != nil {
		if n := int64(*c.SitemapBody); n <= maxBodyLimit && fits(n) {
			return int(n), nil
		}
		return 0, fmt.Errorf("--sitemap-body %v is too much for --ram: one body may take %v", *c.SitemapBody, size(room))
	}
	n := int64(defaultSitemapBody)
	for n > int64(c.MaxBody.most()) && !fits(n) {
		n /= 2
	}
	return int(max(n, int64(c.MaxBody.most()))), nil
}
