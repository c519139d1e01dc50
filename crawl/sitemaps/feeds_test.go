package sitemaps_test

import (
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
)

// TestFeedLinks: links of feeds that robots.txt names as sitemaps are relative to the feed and its xml:base, and an
// item without a link has its guid. URLs of sitemaps must be absolute.
func TestFeedLinks(t *testing.T) {
	feeds := map[string]string{
		"/f/rss": "<rss><channel><link>http://other.test/</link><item><guid>http://a.test/guid</guid></item>" +
			"<item><guid isPermaLink='false'>http://a.test/no-guid</guid></item><item><link>rel</link></item>" +
			"<item><link>/abs</link><guid>http://a.test/no-guid</guid></item><item><link>http://b.test/no-host</link>" +
			"</item></channel></rss>",
		"/f/rdf": "<rdf:RDF><channel/><item rdf:about='x'><link>../rdf</link></item></rdf:RDF>",
		"/f/atom": "<feed xml:base='/base/x'><entry><link href='atom'/></entry><entry xml:base='deep/'><link " +
			"href='atom'/></entry>" +
			"<entry xml:base='http://b.test/'><link href='no-host'/></entry><entry xml:base='mailto:x'><link " +
			"href='no-base'/></entry></feed>",
		"/f/map": "<urlset xml:base='/base/'><url><loc>no-map</loc></url>" +
			"<url><loc>http://a.test/f/yes</loc></url></urlset>",
	}
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			if body := feeds[path]; body != "" {
				return testworld.Answer{200, "Content-Type: application/xml\r\n", body}
			}
			if path != "/robots.txt" || host != "a.test" {
				return testworld.PagesOnly(host, path)
			}
			var b strings.Builder
			for path := range feeds {
				b.WriteString("Sitemap: http://a.test" + path + "\n")
			}
			return testworld.Answer{200, "", b.String()}
		}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, w, fs, "http://a.test/")
		opt.Links.Sitemaps = true
		crawltest.MustRun(t, t.Context(), opt)
		var got []string
		for _, q := range append(w.Got("a.test", ""), w.Got("b.test", "")...) {
			if q.Path != "/" && q.Path != "/robots.txt" && feeds[q.Path] == "" {
				got = append(got, q.Path)
			}
		}
		slices.Sort(got)
		want := []string{"/abs", "/base/atom", "/base/deep/atom", "/f/rel", "/f/yes", "/guid", "/rdf"}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
