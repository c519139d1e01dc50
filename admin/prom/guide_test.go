package prom

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drumbeat/state/snapshot"
)

// TestGuideAlerts: each row of the guide's table of what can be gone in a cluster names alerts that are packaged, and
// a node of a cluster has the metrics of these alerts at /metrics.
func TestGuideAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/cluster/lost.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../packaging/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]string{} // text of each
	for _, text := range strings.Split(string(rules), "- alert: ")[1:] {
		name, _, _ := strings.Cut(text, "\n")
		alerts[name] = text
	}
	s := someSnapshot()
	s.Dirs = []snapshot.Dir{{Path: "/d"}}
	s.Cluster = snapshot.Cluster{Nodes: 2, Pairs: []snapshot.Pair{{Node: 1}}}
	metrics := string(scrape(t, func() (*snapshot.Snapshot, error) { return s, nil }))
	word, metric := regexp.MustCompile("`(Drumbeat[A-Za-z]+)`"), regexp.MustCompile(`\bdrumbeat_[a-z0-9_]+`)
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") {
			continue
		}
		rows++
		names := word.FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no alert for %s", line)
		}
		for _, name := range names {
			text, ok := alerts[name[1]]
			if !ok {
				t.Errorf("%s is not among %v", name[1], slices.Sorted(maps.Keys(alerts)))
			}
			expr, _, _ := strings.Cut(text, "labels:")
			for _, m := range metric.FindAllString(expr, -1) {
				if !strings.Contains(metrics, "\n"+m+" ") && !strings.Contains(metrics, "\n"+m+"{") {
					t.Errorf("%s: a node of a cluster has no metric %s", name[1], m)
				}
			}
		}
	}
	if rows != 6 {
		t.Errorf("%d rows", rows)
	}
}
