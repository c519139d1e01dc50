package admin

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/state/audit"
)

// badErasures sends requests that are refused.
func (r *rig) badErasures(asked string) {
	r.t.Helper()
	if code, body := r.ask("POST", "/api/v1/erase", asked, nil); code != http.StatusUnauthorized {
		r.t.Errorf("without the token: %d %s", code, body)
	}
	for _, bad := range []struct {
		body string
		code int
	}{{"", http.StatusUnsupportedMediaType}, {`{"host":"a.test"}`, http.StatusBadRequest},
		{`{"hosts":["a.test"]}`, http.StatusUnprocessableEntity}, {`{"reason":"x"}`, http.StatusUnprocessableEntity},
		{`{"hosts":["a.test/b"],"reason":"x"}`, http.StatusUnprocessableEntity},
		{`{"urls":["ftp://a.test/"],"reason":"x\ny"}`, http.StatusUnprocessableEntity},
		{`{"list":"http://a.test/\n# no\npld:","reason":"x"}`, http.StatusUnprocessableEntity},
		{`{"reason":"x","list":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge}} {
		if code, body := r.ask("POST", "/api/v1/erase", bad.body, r.withToken); code != bad.code {
			r.t.Errorf("%.80s: %d %s, want %d", bad.body, code, body, bad.code)
		}
	}
}

// TestErase: a request needs the token and is checked. With the answer it is durable, and the host gets no further
// request. The crawl rests, says so, and continues; requests that may wait are served at the end.
func TestErase(t *testing.T) {
	r := newRig(t, nil)
	r.await("pages", func() bool { return r.requests() > 100 })
	hosts := r.web.Log().Snapshot().Hosts
	var names []string
	for name := range hosts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(hosts[b].Requests) - int(hosts[a].Requests) })
	hits := func(host string) int { return int(r.web.Log().Snapshot().Hosts[host].Requests) }
	asked := `{"hosts":["` + names[0] + `"],"reason":"a test","hide":true}`
	r.badErasures(asked)
	code, body := r.ask("POST", "/api/v1/erase", asked, r.withToken)
	before := hits(names[0])
	var taken EraseTaken
	if err := json.Unmarshal(body, &taken); err != nil || code != http.StatusOK || taken.Number != 1 ||
		taken.Hosts != 1 {
		t.Fatalf("%d %s, %v", code, body, err)
	}
	var v any
	must(t, json.Unmarshal(body, &v))
	schemas := OpenAPI("test")["components"].(object)["schemas"].(object)
	for _, fault := range mismatch(v, schemaOf(reflect.TypeOf(EraseTaken{}), object{}), schemas, "erase") {
		t.Error(fault)
	}
	r.await("the crawl continues", func() bool {
		return len(get[EraseReport](r, "/api/v1/erase").Done) == 1 &&
			get[Status](r, "/api/v1/status").State == "running"
	})
	later := `{"list":"host:` + names[1] + `","reason":"a test","later":true}`
	if code, body := r.ask("POST", "/api/v1/erase", later, r.withToken); code != http.StatusOK {
		t.Fatalf("later: %d %s", code, body)
	}
	second := hits(names[1])
	report := get[EraseReport](r, "/api/v1/erase")
	if len(report.Waiting) != 1 || report.Waiting[0].Number != 2 || !report.Waiting[0].Later ||
		report.Done[0].Digest != taken.Digest || report.Done[0].Captures == 0 {
		t.Errorf("%+v", report)
	}
	r.await("the snapshot has the request", func() bool {
		e := get[Status](r, "/api/v1/status").Erasures
		return e != nil && e.Waiting == 1 && e.Refused == 0 && e.Since.IsZero()
	})
	if code, body := r.ask("POST", "/api/v1/stop", "", r.withToken); code != http.StatusOK {
		t.Fatalf("stop: %d %s", code, body)
	}
	r.await("the end", func() bool { // while the files are closed, there is no status
		_, body := r.ask("GET", "/api/v1/status", "", nil)
		return strings.Contains(string(body), `"state":"finished"`)
	})
	report = get[EraseReport](r, "/api/v1/erase")
	if len(report.Waiting) != 0 || len(report.Done) != 2 {
		t.Errorf("at the end: %+v", report)
	}
	if res := r.stop(); res.Stop != crawl.StopCancelled {
		t.Errorf("stopped: %s", res.Stop)
	}
	// A request to each host may have been under way, and counted after the answer.
	if a, b := hits(names[0]), hits(names[1]); a > before+1 || b > second+1 {
		t.Errorf("requests after the answers: %d and %d, there were %d and %d", a, b, before, second)
	}
	if rep, err := audit.Run(disk.OS(), []string{r.dir}); err != nil || !rep.Balanced() {
		t.Errorf("audit: %v %+v", err, rep)
	}
}
