package admin

import (
	"net/http"
	"strings"
	"testing"

	"drumbeat/crawl"
)

// fetchHeaders returns a function that sets what browsers say of a request.
func fetchHeaders(site, mode, dest string) func(*http.Request) {
	return func(q *http.Request) {
		q.Header.Set("Sec-Fetch-Site", site)
		q.Header.Set("Sec-Fetch-Mode", mode)
		q.Header.Set("Sec-Fetch-Dest", dest)
	}
}

// TestCrossSite: a link on another site may open the dashboard's pages in a tab, and nothing else: no API, no
// file of the page, no frame, no prefetch, no form.
func TestCrossSite(t *testing.T) {
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r := newRig(t, func(_ *crawl.Options, a *Options) {
		a.Page = page
		a.Handlers = map[string]http.Handler{"GET /metrics": page}
	})
	for _, path := range []string{"/", "/cluster", "/app.js", "/api/v1/status", "/api/v1/explain?url=a.example",
		"/api/v1/events", "/openapi.json", "/metrics", "/healthz", "/readyz", "/nothing", "//", "/cluster/"} {
		want := http.StatusForbidden
		if path == "/" || path == "/cluster" {
			want = http.StatusOK
		}
		if code, body := r.ask("GET", path, "", fetchHeaders("cross-site", "navigate", "document")); code != want {
			t.Errorf("a link to %s: %d %s, want %d", path, code, body, want)
		}
		for _, kind := range [][3]string{{"cross-site", "navigate", "iframe"}, {"cross-site", "navigate", "frame"},
			{"cross-site", "navigate", "embed"}, {"cross-site", "navigate", "object"}, {"cross-site", "navigate", ""},
			{"cross-site", "no-cors", "script"}, {"cross-site", "no-cors", "document"}, {"same-site", "navigate",
				"iframe"}, {"same-site", "cors", "empty"}, {"new-kind", "navigate", "iframe"}} {
			if code, body := r.ask("GET", path, "",
				fetchHeaders(kind[0], kind[1], kind[2])); code != http.StatusForbidden {
				t.Errorf("%s as %q: %d %s", path, kind, code, body)
			}
		}
	}
	if code, _ := r.ask("POST", "/api/v1/pause", "", func(q *http.Request) {
		r.withToken(q)
		fetchHeaders("cross-site", "navigate", "document")(q)
	}); code != http.StatusForbidden {
		t.Errorf("a form elsewhere: %d", code)
	}
	for path, set := range map[string]func(*http.Request){"/": nil, "/api/v1/status": nil, "/nothing": nil,
		"/healthz": nil, "/api/v1/hosts": fetchHeaders("cross-site", "cors", "empty")} {
		resp, err := http.DefaultClient.Do(request(r, path, set))
		must(t, err)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY",
			"Content-Security-Policy":      "frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
			if got := resp.Header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

// request returns a request for a path.
func request(r *rig, path string, set func(*http.Request)) *http.Request {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), "GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if set != nil {
		set(q)
	}
	return q
}
