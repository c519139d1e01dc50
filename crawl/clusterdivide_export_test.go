package crawl

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/tabular"
	"drumbeat/state/explain"
	"drumbeat/state/export"
	"drumbeat/weburl"
)

// exported returns the rows of a table of a node.
func (c *testCluster) exported(node int, kind export.Kind) (rows []map[string]any) {
	c.t.Helper()
	var out bytes.Buffer
	_, err := export.Run(c.t.Context(), export.Options{FS: c.options[node].Disk.FS, Dirs: c.options[node].Disk.Dirs,
		Kind: kind, Format: tabular.JSONL, Stream: &out, TempDir: "tmp"})
	must(c.t, err)
	for d := json.NewDecoder(&out); d.More(); {
		var row map[string]any
		must(c.t, d.Decode(&row))
		rows = append(rows, row)
	}
	return rows
}

// TestDivideExport: the tables of all nodes together have each URL of a divided PLD once, and each edge to it. What its
// visitors have fetched adds up, and they know its in-degree. Of each URL one node says whether it was answered. No two
// nodes name each other when they explain a URL.
func TestDivideExport(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, pld, owner := dividedCluster(t, 3, nil, nil)
		defer c.close()
		c.check(c.run(t.Context()))
		urls, edges, pages, want := map[any]int{}, map[[2]any]int{}, 0.0, 0
		indegrees := make([]any, 3)
		for node := range c.options {
			for _, row := range c.exported(node, export.URLs) {
				if row["url_host_registered_domain"] == pld && row["place"] == "fetched" {
					urls[row["url"]]++
				}
			}
			for _, row := range c.exported(node, export.PLDEdges) {
				edges[[2]any{row["from_pld"], row["to_pld"]}]++
			}
			for _, row := range c.exported(node, export.PLDs) {
				if row["pld"] == pld {
					pages += row["pages"].(float64)
					indegrees[node] = row["indegree"]
				}
			}
		}
		var asked []string
		suffixes := weburl.NewSuffixes(false)
		for url := range c.web.Expected("drumbeat").FetchedURLs() {
			if suffixes.PLD(string(weburl.Split([]byte(url)).Host)) != pld {
				continue
			}
			asked = append(asked, url)
			if want++; urls[url] != 1 {
				t.Errorf("%d nodes have fetched %s", urls[url], url)
			}
		}
		if len(urls) != want || int(pages) != want {
			t.Errorf("%d URLs of %d, %v pages", len(urls), want, pages)
		}
		for e, n := range edges {
			if n > 1 {
				t.Errorf("%d nodes have the edge %v", n, e)
			}
		}
		if len(slices.Compact(indegrees)) != 1 || indegrees[0] == nil {
			t.Errorf("the nodes have the in-degrees %v", indegrees)
		}
		never := "http://" + c.hostsOf(pld)[(owner+1)%3][0] + "/never"
		c.checkCovered(asked, never)
		for node, want := range []string{"never seen", "has not been sent this one", "the hosts of " + pld} {
			o := &c.options[(owner+node)%3]
			e, err := explain.NewExplainer(explain.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs})
			must(t, err)
			reports, err := e.URLs([]string{never})
			if must(t, err); !strings.Contains(reports[0].Why[0], want) {
				t.Errorf("%d after the owner: %q, want %q", node, reports[0].Why, want)
			}
		}
	})
}

// checkCovered checks that of each URL that was answered one node says so, and of another one that it was missed; all
// others say that it is elsewhere.
func (c *testCluster) checkCovered(answered []string, missed string) {
	c.t.Helper()
	verdicts := map[string][]export.Verdict{}
	for node := range c.options {
		_, err := export.Coverage(c.t.Context(), export.Options{FS: c.options[node].Disk.FS,
			Dirs: c.options[node].Disk.Dirs, TempDir: "tmp"}, func(fn func(string, time.Time) error) error {
			for _, url := range append(answered, missed) {
				if err := fn(url, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		}, func(u *export.Covered) error {
			verdicts[u.URL] = append(verdicts[u.URL], u.Verdict)
			return nil
		})
		must(c.t, err)
	}
	for url, list := range verdicts {
		want := export.Met
		if url == missed {
			want = export.Missed
		}
		n := 0
		for _, v := range list {
			if v == want {
				n++
			} else if v != export.Elsewhere {
				c.t.Errorf("%s: %v", url, list)
			}
		}
		if n != 1 {
			c.t.Errorf("%s: %v, want %s once", url, list, want)
		}
	}
}
