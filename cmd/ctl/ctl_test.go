package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/admin"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/explain"
)

// commands is the table for the tests.
type commands struct {
	Ctl Command `cmd:""`
}

// fake is an admin server that remembers what it was asked.
type fake struct {
	dir   string
	mu    sync.Mutex
	asked []string
}

// requests returns what the server was asked so far.
func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// newFake serves answers by "METHOD /path"; a missing one is a problem with status 422.
func newFake(t *testing.T, answers map[string]any) *fake {
	t.Helper()
	f := &fake{dir: t.TempDir()}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s with a token", r.URL)
		}
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			answer = admin.Problem{Status: http.StatusUnprocessableEntity, Detail: "it cannot be done"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Listener, err = net.Listen("unix", filepath.Join(f.dir, admin.SocketName)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	return f
}

func someStatus() admin.Status {
	return admin.Status{State: "running", Elapsed: 61, Health: admin.Health{Level: "ok", Text: "The crawl is healthy."},
		Rates:    admin.Rates{Pages: 12.5},
		Counters: map[string]int64{"pages": 1234, "received_bytes": 5_000_000}, Unique: 5000,
		Places: []admin.Count{{Name: "beast", URLs: 77}}, Refused: map[string]int64{"robots": 3}, Time: time.Now()}
}

// TestRequests: each command sends the request that its help promises.
func TestRequests(t *testing.T) {
	f := newFake(t, map[string]any{"POST /api/v1/pause": 1, "POST /api/v1/resume": 1, "POST /api/v1/checkpoint": 1,
		"POST /api/v1/drain": 1, "POST /api/v1/stop": 1, "PUT /api/v1/hosts/a.example/delay": 1,
		"DELETE /api/v1/hosts/a.example/delay": 1, "POST /api/v1/blocks": 1,
		"DELETE /api/v1/blocks": admin.Unblocked{Refused: 4321}, "PUT /api/v1/plds/b.example/budget": 1,
		"DELETE /api/v1/plds/b.example/budget": 1, "PUT /api/v1/budget": admin.FunctionSet{Moves: 1234},
		"PUT /api/v1/priority":    admin.FunctionSet{Moves: 1234},
		"DELETE /api/v1/priority": admin.FunctionSet{Moves: 1234},
		"DELETE /api/v1/budget":   admin.FunctionSet{Moves: 1234}, "PUT /api/v1/limits": 1,
		"GET /api/v1/limits": map[string]any{"rate": "5", "changed": map[string]any{"rate": "5"}},
		"POST /api/v1/enqueue": admin.EnqueueTaken{Accepted: 1,
			URLs: []admin.Enqueued{{Line: "a.example", URL: "https://a.example/", Wait: 41.2,
				Because: "--host-delay"}, {Line: "::", Refused: "no URL"}}},
		"POST /api/v1/reload":                  admin.Reloaded{Terms: 3, Budgets: 2, Evicted: 1234, Moves: 5},
		"DELETE /api/v1/plds/c.example/budget": 1, "POST /api/v1/seeds": admin.SeedsTaken{Accepted: 1,
			Refused: []admin.BadSeed{{Line: "::", Why: "no URL"}}}})
	for _, c := range []struct{ args, asked, out string }{
		{"pause", "POST /api/v1/pause", "paused"},
		{"resume", "POST /api/v1/resume", "resumed"},
		{"checkpoint", "POST /api/v1/checkpoint", "durable"},
		{"drain", `POST /api/v1/drain {"on":true}`, "not queued"},
		{"drain --off", `POST /api/v1/drain {"on":false}`, "queued"},
		{"stop", "POST /api/v1/stop", "stopping"},
		{"delay a.example 90s", `PUT /api/v1/hosts/a.example/delay {"delay":90}`, "1 min 30 s"},
		{"delay a.example normal", "DELETE /api/v1/hosts/a.example/delay", "usual"},
		{"block pld b.example", `POST /api/v1/blocks {"rule":"pld b.example"}`, "blocked: pld b.example"},
		{"block net 192.0.2.0/24 2001:db8::/32", `POST /api/v1/blocks {"rule":"net 192.0.2.0/24"}`,
			"blocked: net 2001:db8::/32"},
		{"unblock pld b.example", "DELETE /api/v1/blocks?rule=pld+b.example",
			"4,321 URLs that the blacklist has refused stay refused"},
		{"budget b.example 50", `PUT /api/v1/plds/b.example/budget {"budget":50}`, "50 pages"},
		{"enqueue a.example ::", `POST /api/v1/enqueue {"urls":["a.example","::"]}`,
			"https://a.example/: in about 41 s (--host-delay)\nrefused: ::: no URL"},
		{"reload --requeue", `POST /api/v1/reload {"requeue":true}`, "1,234 URLs went back to disk"},
		{"budget b.example 500 --requeue", `PUT /api/v1/plds/b.example/budget {"budget":500,"requeue":true}`,
			"500 pages"},
		{"budget c.example free --requeue", "DELETE /api/v1/plds/c.example/budget?requeue=true", "in-degree"},
		{"budget b.example free", "DELETE /api/v1/plds/b.example/budget", "in-degree"},
		{"budget-function equal --default 5 --max 9",
			`PUT /api/v1/budget {"function":"equal","default":5,"max":9}`, "1,234"},
		{"budget-function flags", "DELETE /api/v1/budget", "1,234"},
		{"priority depth --weights 4,2,1", `PUT /api/v1/priority {"priority":"depth","weights":[4,2,1]}`, "1,234"},
		{"priority flags", "DELETE /api/v1/priority", "1,234"},
		{"limits --rate 5", `PUT /api/v1/limits {"rate":"5"}`, "changed by the operator"},
		{"seeds http://a.example/ ::", `POST /api/v1/seeds {"seeds":["http://a.example/","::"]}`,
			"1 seed added, 1 line refused"},
	} {
		f.asked = nil
		args := append([]string{"ctl", "--dir", f.dir}, strings.Fields(c.args)...)
		out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", args...)
		if len(f.asked) == 0 || f.asked[0] != c.asked || !strings.Contains(out, c.out) {
			t.Errorf("%s: asked %q, printed %q; want %q, %q", c.args, f.asked, out, c.asked, c.out)
		}
	}
}

// TestExits: refused changes, bad arguments and a crawl that does not run have codes of their own.
func TestExits(t *testing.T) {
	f := newFake(t, nil)
	if _, text := cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir, "block", "host",
		"x"); !strings.Contains(text, "it cannot be done") {
		t.Errorf("a refused change: %s", text)
	}
	cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir, "delay", "a", "soon")
	cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir, "seeds")
	cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir, "block", "site", "x")
	cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir, "unblock", "pld")
	if _, text := cmdtest.WantExit[commands](t, term.ExitDirectory, "", "ctl", "--dir", t.TempDir(),
		"pause"); !strings.Contains(text, "stopped") {
		t.Errorf("no crawl: %s", text)
	}
	cmdtest.WantExit[commands](t, term.ExitDirectory, "", "ctl", "--url", "http://127.0.0.1:1", "status")
}

// TestPrints: the state is printed as a table, or as the server's JSON.
func TestPrints(t *testing.T) {
	f := newFake(t, map[string]any{"GET /api/v1/status": someStatus()})
	out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", f.dir, "status")
	for _, want := range []string{"The crawl is healthy.", "13 pages per second", "1,234", "BEAST",
		"forbidden by robots.txt (3)", "4.8 MiB received"} {
		if !strings.Contains(out, want) {
			t.Errorf("the status has no %q:\n%s", want, out)
		}
	}
	paused := someStatus()
	paused.Health = admin.Health{Level: "bad", Text: "It is paused.",
		Problems: []admin.Trouble{{Level: "warn", Text: "It is paused."}, {Level: "bad", Text: "The disk is full."}}}
	g := newFake(t, map[string]any{"GET /api/v1/status": paused})
	out, _ = cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", g.dir, "status")
	if strings.Count(out, "It is paused.") != 1 || !strings.Contains(out, "bad: The disk is full.") {
		t.Errorf("problems:\n%s", out)
	}
	out, _ = cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", f.dir, "--json", "status")
	var s admin.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Unique != 5000 {
		t.Errorf("JSON: %v\n%s", err, out)
	}
}

// TestHistory: metrics over time are a table, without a value where the run had no such metric.
func TestHistory(t *testing.T) {
	f := newFake(t, map[string]any{"GET /api/v1/history": map[string]any{"times": []float64{1795435136.7, 1795435146},
		"series": map[string]any{"pages_total": []any{1234567, 1234580.5}, "hosts": []any{nil, 7}}}})
	out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", f.dir, "history", "pages_total", "hosts",
		"--last", "2h")
	lines := strings.Split(out, "\n")
	if len(lines) < 3 || !slices.Equal(strings.Fields(lines[1])[2:], []string{"1234567", "-"}) ||
		!slices.Equal(strings.Fields(lines[2])[2:], []string{"1234580.5", "7"}) {
		t.Errorf("printed\n%s", out)
	}
	if asked := f.requests(); !strings.Contains(asked[0], "metrics=pages_total%2Chosts") ||
		!strings.Contains(asked[0], "points=20") {
		t.Errorf("asked %q", asked)
	}
}

// TestExplains: an explanation is printed in words, or as the server's JSON.
func TestExplains(t *testing.T) {
	f := newFake(t, map[string]any{"GET /api/v1/explain": admin.Explanation{
		URL: &explain.URLReport{Asked: "http://a.example/x", URL: "http://a.example/x", Place: "refused",
			Why: []string{"robots"}, Link: &explain.LinkReport{}},
		Host: &explain.HostReport{Asked: "b.example", Pace: &explain.PaceReport{Delay: 12, Steps: 23, AllSteps: 32,
			Answer: 0.08}, Why: []string{"none of its URLs wait"}, Damage: []string{"a file"}}}})
	out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", f.dir, "explain", "http://a.example/x")
	for _, want := range []string{"place     refused", "why       robots", "none of its URLs wait", "damage    a file",
		"pace      12 s between requests now; 23 of 32 steps"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
	if out, _ = cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", f.dir, "--json", "explain",
		"x"); !json.Valid([]byte(out)) {
		t.Errorf("JSON: %s", out)
	}
}

// TestTop: the screen shows the state, fits the terminal, pauses and ends by keys, and leaves the terminal as
// it was. Without a terminal the command fails.
func TestTop(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LC_ALL", "C.UTF-8")
	f := newFake(t, map[string]any{"GET /api/v1/status": someStatus(), "POST /api/v1/pause": 1,
		"GET /api/v1/slots": admin.Slots{Total: 10, Uses: []admin.Use{{Name: "exchange", Now: 5}}}})
	keyboard, terminal := cmdtest.Terminal(t, 60, 12)
	before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int)
	go func() {
		ended <- flags.Run(term.NewApp(terminal, terminal, io.Discard), new(commands),
			[]string{"ctl", "--dir", f.dir, "top"})
	}()
	shown := ""
	showUntil := func(want func() bool) {
		t.Helper()
		buf := make([]byte, 4096)
		for end := time.Now().Add(30 * time.Second); !want(); {
			n, err := keyboard.Read(buf)
			if shown += string(buf[:n]); err != nil || time.Now().After(end) {
				t.Fatalf("%v; the screen: %q", err, shown)
			}
		}
	}
	press := func(key string) {
		t.Helper()
		if _, err := keyboard.WriteString(key); err != nil {
			t.Fatal(err)
		}
	}
	showUntil(func() bool { return strings.Contains(shown, "13") && strings.Contains(shown, "second,") })
	press("p")
	showUntil(func() bool { return slices.Contains(f.requests(), "POST /api/v1/pause") })
	press("q")
	if code := <-ended; code != term.ExitDone {
		t.Errorf("exit code %d", code)
	}
	showUntil(func() bool { return strings.Contains(shown, "\x1b[?1049l") })
	if strings.Contains(shown, `\u`) {
		t.Errorf("the screen: %q", shown)
	}
	if after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal: %+v, before %+v: %v", after, before, err)
	}
	if _, text := cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--dir", f.dir,
		"top"); !strings.Contains(text, "not a terminal") {
		t.Errorf("without a terminal: %s", text)
	}
}

// TestTopWithoutAnswer: the screen keeps the last state when the server does not answer, and says so.
func TestTopWithoutAnswer(t *testing.T) {
	status := someStatus()
	shown := top{status: &status}
	shown.take(&look{err: admin.ErrNoServer, key: true, note: "refused"})
	text := strings.Join(shown.lines(60), "\n")
	for _, want := range []string{"NO ANSWER", "refused", "13 pages per second"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}

// TestTopWrapsHealth: on a narrow screen the condition takes several lines, since its end names the cause.
func TestTopWrapsHealth(t *testing.T) {
	status := someStatus()
	status.Health.State = "standing-still"
	status.Health.Text = "No response for 56 s. 1 URL waits after a failure: robots.txt unreachable (1)."
	shown := top{status: &status}
	var health []string
	for _, line := range shown.lines(60) {
		if strings.HasPrefix(line, "health ") || len(health) > 0 && strings.HasPrefix(line, "    ") {
			health = append(health, line)
			if len(line) > 60 {
				t.Errorf("%d columns: %q", len(line), line)
			}
		}
	}
	words := strings.Join(strings.Fields(strings.Join(health, " ")), " ")
	if len(health) < 3 || !strings.HasSuffix(words, status.Health.Text) {
		t.Errorf("%q", health)
	}
}
