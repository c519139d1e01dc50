package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"drumbeat/admin/web"
)

// mockToken is the token that changes need.
const mockToken = "mock-token-0123456789"

// scenarios are the names of the crawls.
var scenarios = [...]string{"healthy", "trouble", "new", "finished", "slow", "down"}

// crawl is the made-up crawl of a scenario.
type crawl struct {
	scenario string
	began    time.Time // start of this run
	first    time.Time // start of the first run

	mu       sync.Mutex // guards the fields below
	settings settings
	changes  []object
}

// settings are the changes in force.
type settings struct {
	Paused      bool               `json:"paused"`
	Drain       bool               `json:"drain"`
	Rate        string             `json:"rate"`
	Bandwidth   string             `json:"bandwidth"`
	Connections string             `json:"connections"`
	HostDelays  map[string]float64 `json:"hostDelays"`
	Blocked     []string           `json:"blocked"`
	Budgets     map[string]int     `json:"budgets"`
	Function    object             `json:"function,omitempty"`
	Priority    object             `json:"priority,omitempty"`
}

// mockHandler serves all scenarios.
func mockHandler() http.Handler {
	mux := http.NewServeMux()
	page := web.Handler()
	now := time.Now()
	for _, name := range scenarios {
		c := newCrawl(name, now)
		mux.Handle("/"+name+"/api/", http.StripPrefix("/"+name, c.api()))
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, page))
	}
	return mux
}

func newCrawl(scenario string, now time.Time) *crawl {
	c := &crawl{scenario: scenario, began: now.Add(-30 * time.Hour), first: now.Add(-20 * 24 * time.Hour)}
	c.settings = settings{HostDelays: map[string]float64{}, Blocked: []string{}, Budgets: map[string]int{}}
	switch scenario {
	case "new":
		c.began, c.first = now.Add(-3*time.Second), now.Add(-3*time.Second)
	case "trouble":
		c.settings.HostDelays["slow.example.net"] = 120
		c.settings.Blocked = []string{"- pld trap.example", "- net 198.51.100.0/24"}
		c.settings.Budgets["example.org"] = 5000
		c.changes = []object{
			{"seq": 1, "time": stamp(now.Add(-9 * time.Hour)), "who": "ada", "op": "host-delay",
				"host": "slow.example.net", "delay": 120, "undo": "host-normal"},
			{"seq": 2, "time": stamp(now.Add(-8 * time.Hour)), "who": "dashboard 192.0.2.7", "op": "block",
				"rule": "pld trap.example", "undo": "unblock"},
			{"seq": 3, "time": stamp(now.Add(-50 * time.Minute)), "who": "ada", "op": "budget",
				"pld": "example.org", "budget": 5000, "undo": "budget-free"}}
	}
	return c
}

func (c *crawl) api() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, f func(r *http.Request) any) {
		mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			c.answer(w, r, f(r))
		})
	}
	get("status", func(*http.Request) any { return c.status(time.Now()) })
	get("structures", func(*http.Request) any { return c.structures(time.Now()) })
	get("slots", func(*http.Request) any { return c.slots(time.Now()) })
	get("hosts", func(*http.Request) any { return c.hosts(time.Now()) })
	get("plds", func(r *http.Request) any { return c.plds(r.FormValue("sort")) })
	get("explain", func(r *http.Request) any { return c.explain(r.FormValue("url")) })
	get("limits", func(*http.Request) any { return c.limits() })
	get("history", func(r *http.Request) any { return c.history(r) })
	get("log", func(*http.Request) any { return object{"lines": c.log(time.Now(), 40)} })
	get("cluster", func(*http.Request) any { return c.cluster(time.Now()) })
	get("changes", func(*http.Request) any { return c.listChanges() })
	mux.HandleFunc("GET /api/v1/events", c.events)
	mux.HandleFunc("/api/v1/", c.change)
	return mux
}

// answer writes an answer in the manner of the scenario.
func (c *crawl) answer(w http.ResponseWriter, r *http.Request, v any) {
	if c.scenario == "slow" {
		select {
		case <-time.After(4 * time.Second):
		case <-r.Context().Done():
			return
		}
	}
	if p, ok := v.(problem); ok {
		p.write(w)
		return
	}
	if c.scenario == "down" {
		problem{http.StatusServiceUnavailable,
			"the crawl is not running: it is starting, stopping or waiting for disk space"}.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}

// problem is an error of RFC 9457.
type problem struct {
	status int
	detail string
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(object{"type": "about:blank", "title": http.StatusText(p.status),
		"status": p.status, "detail": p.detail})
}

// events sends the status each second, now and then a line of the log, and the changes.
func (c *crawl) events(w http.ResponseWriter, r *http.Request) {
	if c.scenario == "down" {
		c.answer(w, r, nil)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string, v any) {
		data, _ := json.Marshal(v)
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		_ = http.NewResponseController(w).Flush()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seen := c.lastChange()
	for n := 0; ; n++ {
		send("status", c.status(time.Now()))
		if n%7 == 3 {
			send("log", c.log(time.Now(), 1)[0])
		}
		for _, change := range c.changesSince(seen) {
			send("change", change)
		}
		seen = c.lastChange()
		if c.scenario == "slow" && n%10 == 4 {
			return // the connection breaks
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// wave is a smooth number in [-1, 1] that seems random.
func wave(seconds, period float64) float64 {
	x := 2 * math.Pi * seconds / period
	return (math.Sin(x) + 0.6*math.Sin(2.3*x+1) + 0.4*math.Sin(5.1*x+2) + 0.3*math.Sin(11.7*x)) / 2.3
}

func number(text string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	return otherwise
}
