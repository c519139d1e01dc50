package admin

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/star"
	"drumbeat/state"
)

// TestOrderOfPLDs: each order lists the PLDs with the largest values first, and other words are refused.
func TestOrderOfPLDs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	if pldOrders[star.ByIndegree] != "indegree" || pldOrders[star.ByPages] != "pages" ||
		pldOrders[star.ByBytes] != "bytes" {
		t.Fatal("the words are not in the order of star.Order")
	}
	r := newRig(t, nil)
	by := map[string]func(PLD) uint64{"": func(p PLD) uint64 { return uint64(p.Indegree) },
		"indegree": func(p PLD) uint64 { return uint64(p.Indegree) },
		"pages":    func(p PLD) uint64 { return uint64(p.Pages) }, "bytes": func(p PLD) uint64 { return p.Bytes }}
	r.await("PLDs with pages", func() bool {
		return len(get[PLDs](r, "/api/v1/plds?sort=bytes").PLDs) > 3 || r.requests() > 1000
	})
	<-time.After(pldsEvery)
	for order, value := range by {
		list := get[PLDs](r, "/api/v1/plds?limit=7&sort="+order).PLDs
		if len(list) < 3 || len(list) > 7 {
			t.Errorf("%q: %d PLDs", order, len(list))
			continue
		}
		if !slices.IsSortedFunc(list, func(a, b PLD) int { return cmp.Compare(value(b), value(a)) }) ||
			value(list[0]) == 0 {
			t.Errorf("%q: not in order: %+v", order, list)
		}
	}
	for _, path := range []string{"/api/v1/plds?sort=name", "/api/v1/hosts?sort=name"} {
		code, body := r.ask("GET", path, "", nil)
		var p Problem
		if err := json.Unmarshal(body, &p); code != http.StatusBadRequest || err != nil ||
			!strings.Contains(p.Detail, `"name"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestLastWord: the last event of the stream is the status of a finished crawl, with the reason.
func TestLastWord(t *testing.T) {
	r := newRig(t, func(o *crawl.Options, _ *Options) { o.Limits.MaxPages = 30 })
	s := get[Status](r, "/api/v1/status")
	if s.Started.IsZero() || s.CrawlStarted.IsZero() || s.CrawlStarted.After(time.Now()) ||
		time.Since(s.CrawlStarted) > time.Hour {
		t.Errorf("started %v, crawl started %v", s.Started, s.CrawlStarted)
	}
	resp, err := http.Get(r.url + "/api/v1/events")
	must(t, err)
	defer resp.Body.Close()
	r.await("the end", func() bool {
		code, body := r.ask("GET", "/api/v1/status", "", nil)
		return code == http.StatusOK && strings.Contains(string(body), `"finished"`)
	})
	last := get[Status](r, "/api/v1/status")
	if last.Reason != crawl.StopPages || last.Health.Level != "ok" || last.Counters["pages"] < 30 ||
		len(last.Places) == 0 {
		t.Errorf("the last status: %+v", last)
	}
	r.stop()
	var events []string
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"state"`) {
			events = append(events, data)
		}
	}
	if len(events) == 0 || json.Unmarshal([]byte(events[len(events)-1]), &s) != nil || s.State != "finished" ||
		s.Reason != crawl.StopPages {
		t.Errorf("%d events; the last one: %+v", len(events), s)
	}
}

// TestDashboardFlows: each counter that the dashboard shows on an edge exists.
func TestDashboardFlows(t *testing.T) {
	text, err := os.ReadFile("web/static/ring.js")
	must(t, err)
	known := map[string]bool{}
	for c := range state.NumCounters {
		known[c.String()] = true
	}
	_, table, _ := strings.Cut(string(text), "const FLOWS = {")
	table, _, _ = strings.Cut(table, "}")
	rows := regexp.MustCompile(`: "(\w+)"`).FindAllStringSubmatch(table, -1)
	for _, m := range rows {
		if !known[m[1]] {
			t.Errorf("no counter %s", m[1])
		}
	}
	if len(rows) < 10 {
		t.Errorf("%d flows", len(rows))
	}
}
