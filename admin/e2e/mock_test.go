package e2e

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var serve = flag.String("serve", "", "serve the scenarios at this `address` until the test is interrupted")

// TestServe serves the page for people.
func TestServe(t *testing.T) {
	if *serve == "" {
		t.Skip("only with -serve ADDRESS")
	}
	server := &http.Server{Addr: *serve, Handler: mockHandler(), ReadHeaderTimeout: 5 * time.Second}
	t.Logf("http://%s/healthy/", *serve)
	t.Fatal(server.ListenAndServe())
}

// TestAnswers: every operation of every scenario answers with JSON, or with a problem in scenario down.
func TestAnswers(t *testing.T) {
	h := mockHandler()
	for _, scenario := range scenarios {
		if scenario == "slow" {
			continue
		}
		for _, op := range []string{"status", "structures", "slots", "hosts", "plds",
			"explain?url=https://a.example/", "limits",
			"history?metrics=pages_total", "log", "cluster", "changes"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/"+scenario+"/api/v1/"+op, nil))
			if want := scenario != "down" && (op != "cluster" || scenario == "healthy" ||
				scenario == "trouble"); (w.Code == http.StatusOK) != want || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %s: status %d, %.80s", scenario, op, w.Code, w.Body)
			}
		}
	}
}

// TestChangesNeedTheToken: a change without it is refused; with it, it takes effect.
func TestChangesNeedTheToken(t *testing.T) {
	h := mockHandler()
	do := func(token string) int {
		r := httptest.NewRequest("POST", "/healthy/api/v1/pause", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := do("wrong"); got != http.StatusUnauthorized {
		t.Errorf("wrong token: status %d", got)
	}
	if got := do(mockToken); got != http.StatusOK {
		t.Errorf("token: status %d", got)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/healthy/api/v1/status", nil))
	if !strings.Contains(w.Body.String(), `"state":"paused"`) {
		t.Error("the crawl is not paused")
	}
}
