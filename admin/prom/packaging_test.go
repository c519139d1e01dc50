package prom

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drumbeat/state/metrics"
)

// known returns the names of all metrics and of the series of histograms.
func known() map[string]bool {
	names := map[string]bool{prefix + "up": true, prefix + "build_info": true}
	for _, m := range metrics.All() {
		names[prefix+m.Name] = true
		if m.Kind == metrics.Histogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[prefix+m.Name+suffix] = true
			}
		}
	}
	return names
}

// TestPackagedNames: the alerts and the dashboard must name metrics that exist.
func TestPackagedNames(t *testing.T) {
	names, word := known(), regexp.MustCompile(`\bdrumbeat_[a-z0-9_]+`)
	for _, file := range []string{"prometheus/alerts.yml", "prometheus/alerts_test.yml", "grafana/drumbeat.json"} {
		text, err := os.ReadFile("../../packaging/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := word.FindAllString(string(text), -1)
		if len(found) < 15 {
			t.Errorf("%s names only %v", file, found)
		}
		for _, name := range found {
			if !names[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// TestDashboard: the panels of the dashboard must have titles, units and queries, and not overlap.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../packaging/grafana/drumbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil || board.UID != "drumbeat" {
		t.Fatal(err, board.UID)
	}
	rows, ids, cells := 0, map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: a repeated number, no title or too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("%q overlaps %q", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			rows++
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%q has no unit or no query", p.Title)
		}
		for _, q := range p.Targets {
			if q.Expr == "" || q.LegendFormat == "" || !strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("%q: query %+v", p.Title, q)
			}
		}
	}
	if rows != 10 {
		t.Errorf("%d rows", rows)
	}
	var all []string
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			all = append(all, strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m").Replace(q.Expr))
		}
	}
	checkQueries(t, all)
}

// checkQueries checks the syntax of queries with promtool if it is installed.
func checkQueries(t *testing.T, queries []string) {
	tool, err := exec.LookPath(cmp.Or(os.Getenv("PROMTOOL"), "promtool"))
	if err != nil {
		t.Log("the queries are not parsed: promtool is not installed")
		return
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, q := range queries {
		rules += fmt.Sprintf("  - {record: query_%d, expr: %q}\n", i, q)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
