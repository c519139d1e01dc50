package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/backups"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
)

var longRuns = flag.Bool("long", false, "run the long form of each test")

// webNames resolves the names of a synthetic web.
type webNames struct{ web *simweb.Web }

func (n webNames) LookupHost(_ context.Context, host, _ string) (crawl.Lookup, error) {
	addrs, err := n.web.LookupHost(host)
	if err != nil {
		return crawl.Lookup{}, &crawl.LookupError{Host: host, NotFound: true, Err: err}
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.Is4() })
	return crawl.Lookup{Addrs: addrs, Expires: time.Now().Add(time.Hour)}, nil
}

// rig is a crawl with its admin server.
type rig struct {
	t   *testing.T
	web *simweb.Web
	dir string
	url string
	// moved is Server.Moved.
	moved bool
	tail  *Tail
	stop  func() *crawl.Result // stops the crawl and the server
}

// rigOptions returns the options of a crawl of web.
func rigOptions(t *testing.T, web *simweb.Web, client *fetch.Client) crawl.Options {
	return crawl.Options{Disk: crawl.DiskOptions{Dirs: []string{t.TempDir()}, CheckpointEvery: time.Second},
		Admission: crawl.AdmissionOptions{SeedLines: web.Seeds()},
		Identity:  crawl.IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
		Observe:   crawl.ObserveOptions{Control: new(crawl.Control), SnapshotEvery: 50 * time.Millisecond},
		Network: crawl.NetworkOptions{Resolver: webNames{web}, Fetcher: client, AllowedAddr: client.AllowedAddr,
			Ports: client.Ports(), Connections: 64},
		Limits: crawl.LimitsOptions{RAMBytes: 128 << 20, DiskBytes: 1 << 30, MaxDepth: crawl.Unlimited,
			Linger: time.Second},
		Politeness: crawl.PolitenessOptions{HostDelay: 50 * time.Millisecond, HostDelayMin: 20 * time.Millisecond},
		Output:     crawl.OutputOptions{Store: true}, Order: crawl.OrderOptions{Lanes: 2}}
}

// newRig starts a crawl of a synthetic web, slow enough to last, and its server.
func newRig(t *testing.T, change func(*crawl.Options, *Options)) *rig {
	t.Helper()
	o := simweb.Defaults(1)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LogRequests, o.HTTPS = 10, 30, 4000, 20, 100_000, 0
	web, err := simweb.New(o)
	must(t, err)
	client, err := fetch.New(fetch.Options{Dial: web.Dial,
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: ports.Of(8080)})
	must(t, err)
	r := &rig{t: t, web: web, tail: new(Tail)}
	opt := rigOptions(t, web, client)
	adm := Options{Control: opt.Observe.Control, Addr: "127.0.0.1:0", Dirs: opt.Disk.Dirs, Version: "test",
		Agent: "drumbeat", Log: r.tail}
	if change != nil {
		change(&opt, &adm)
	}
	r.dir = opt.Disk.Dirs[0]
	s, err := Listen(adm)
	must(t, err)
	r.url, r.moved = s.URL(), s.Moved()
	ctx, cancel := context.WithCancel(t.Context())
	served, crawled := make(chan error, 1), make(chan error, 1)
	var res *crawl.Result
	go func() { served <- s.Serve(ctx) }()
	crawling, cancelCrawl := context.WithCancel(t.Context())
	go func() {
		var err error
		res, err = crawl.Run(crawling, opt)
		crawled <- err
	}()
	ended := false
	r.stop = func() *crawl.Result {
		if ended {
			return res
		}
		ended = true
		cancelCrawl()
		err1 := <-crawled
		cancel()
		if err2 := <-served; err1 != nil || err2 != nil {
			t.Errorf("crawl: %v; server: %v", err1, err2)
		}
		_ = client.Close()
		return res
	}
	t.Cleanup(func() { r.stop() })
	select {
	case <-opt.Observe.Control.Started():
	case err := <-crawled:
		t.Fatalf("the crawl did not start: %v", err)
	}
	for range 2000 {
		if at, err := readAddress(r.dir); err == nil && at.URL == r.url {
			return r
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("the server wrote no address")
	return nil
}

// token returns the token of the crawl.
func (r *rig) token() string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, TokenName))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// ask sends a request and returns the status and the body. set changes the request.
func (r *rig) ask(method, path, body string, set func(*http.Request)) (int, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	if set != nil {
		set(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, out
}

// withToken adds the token.
func (r *rig) withToken(req *http.Request) { req.Header.Set("Authorization", "Bearer "+r.token()) }

// get asks for a value.
func get[T any](r *rig, path string) (v T) {
	r.t.Helper()
	code, body := r.ask("GET", path, "", nil)
	if code != http.StatusOK {
		r.t.Fatalf("%s: %d %s", path, code, body)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return v
}

// requests returns the number of requests that the web has seen.
func (r *rig) requests() (n int64) {
	for _, h := range r.web.Log().Snapshot().Hosts {
		n += int64(h.Requests)
	}
	return n
}

// await waits for a condition.
func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	for range 1000 {
		if f() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	r.t.Fatalf("not reached in 10 s: %s", what)
}

// example has a request for each operation: the path with its parameters and the body.
func (r *rig) examples() map[string][2]string {
	seed, err := url.Parse(r.web.Seeds()[0])
	if err != nil {
		r.t.Fatal(err)
	}
	host := seed.Hostname()
	pld := host[strings.Index(host, ".")+1:]
	return map[string][2]string{
		"status": {"/api/v1/status"}, "structures": {"/api/v1/structures"}, "slots": {"/api/v1/slots"},
		"hosts": {"/api/v1/hosts?sort=trouble&limit=10"}, "host": {"/api/v1/hosts/" + host},
		"plds": {"/api/v1/plds?limit=10"}, "pld": {"/api/v1/plds/" + pld},
		"explain": {"/api/v1/explain?url=http://" + host + ":8080/"}, "limits": {"/api/v1/limits"},
		"log": {"/api/v1/log?lines=5"}, "changes": {"/api/v1/changes"}, "pause": {"/api/v1/pause"},
		"resume": {"/api/v1/resume"}, "checkpoint": {"/api/v1/checkpoint"}, "drain": {"/api/v1/drain", `{"on":true}`},
		"setLimits":  {"/api/v1/limits", `{"rate":"100"}`},
		"setDelay":   {"/api/v1/hosts/" + host + "/delay", `{"delay":2.5}`},
		"clearDelay": {"/api/v1/hosts/" + host + "/delay"},
		"addSeeds":   {"/api/v1/seeds", `{"seeds":["http://` + host + `:8080/new","::"]}`},
		"enqueue":    {"/api/v1/enqueue", `{"urls":["http://` + host + `:8080/newer","::"]}`},
		"reload":     {"/api/v1/reload", `{}`}, "block": {"/api/v1/blocks", `{"rule":"host never.example"}`},
		"unblock":       {"/api/v1/blocks?rule=-%20host%20never.example"},
		"setBudget":     {"/api/v1/plds/" + pld + "/budget", `{"budget":50}`},
		"clearBudget":   {"/api/v1/plds/" + pld + "/budget"},
		"setFunction":   {"/api/v1/budget", `{"function":"equal","default":20,"max":20}`},
		"clearFunction": {"/api/v1/budget"},
		"setPriority":   {"/api/v1/priority", `{"priority":"depth","weights":[3,1]}`},
		"clearPriority": {"/api/v1/priority"}, "history": {"/api/v1/history?metrics=pages_total,urls"},
		"stop": {"/api/v1/stop"}, "cluster": {"/api/v1/cluster"}, "erasures": {"/api/v1/erase"},
		"erase": {"/api/v1/erase", `{"hosts":["never.example"],"reason":"x"}`},
	}
}

// TestOperations calls each operation of the table: changes need the token, and each answer is as the OpenAPI
// description says.
func TestOperations(t *testing.T) {
	place := t.TempDir()
	r := newRig(t, func(o *crawl.Options, _ *Options) {
		inCluster(t, o, 1)
		o.Backup = &backups.Options{Place: backup.Directory(disk.OS(), place), Every: time.Hour}
	})
	r.await("pages", func() bool { return r.requests() > 100 })
	r.await("a backup", func() bool {
		b := get[Status](r, "/api/v1/status").Backup
		return b != nil && b.Number == 1 && b.Place == place && b.Bytes > 0 && !b.Time.IsZero()
	})
	schemas := OpenAPI("test")["components"].(object)["schemas"].(object)
	examples := r.examples()
	order := slices.Clone(operations)
	slices.SortStableFunc(order, func(a, b Operation) int { // stop comes last
		return strings.Compare(fmt.Sprint(a.ID == "stop"), fmt.Sprint(b.ID == "stop"))
	})
	for _, op := range order {
		ex, ok := examples[op.ID]
		if !ok {
			t.Errorf("%s: the test has no example", op.ID)
			continue
		}
		if op.Changes() {
			if code, body := r.ask(op.Method, ex[0], ex[1], nil); code != http.StatusUnauthorized {
				t.Errorf("%s without token: %d %s", op.ID, code, body)
			}
		}
		if op.ID == "erase" {
			continue // the crawl rests meanwhile; see TestErase
		}
		code, body := r.ask(op.Method, ex[0], ex[1], r.withToken)
		var v any
		if err := json.Unmarshal(body, &v); code != http.StatusOK || err != nil {
			t.Errorf("%s: %d %v %s", op.ID, code, err, body)
			continue
		}
		for _, fault := range mismatch(v, schemaOf(reflect.TypeOf(op.Result), object{}), schemas, op.ID) {
			t.Error(fault)
		}
		if op.ID == "setPriority" {
			var s Structures
			_, body := r.ask("GET", "/api/v1/structures", "", nil)
			if err := json.Unmarshal(body, &s); err != nil {
				t.Error(err)
			}
			if l := s.Beast.Lanes; s.Beast.Priority != "depth" || len(l) != 2 || l[0].Weight != 3 || l[1].Weight != 1 {
				t.Errorf("priority %s, lanes %+v after %s", s.Beast.Priority, l, ex[1])
			}
		}
	}
	if res := r.stop(); res.Stop != crawl.StopCancelled {
		t.Errorf("stopped: %s", res.Stop)
	}
	if rep, err := audit.Run(disk.OS(), []string{r.dir}); err != nil || !rep.Balanced() {
		t.Errorf("audit: %v %+v", err, rep)
	}
	if _, err := os.Stat(filepath.Join(r.dir, AddressName)); err == nil {
		t.Error("the address is left over")
	}
	if info, err := os.Stat(filepath.Join(r.dir, TokenName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token: %v %v", info, err)
	}
}

// mismatch compares a value with a schema.
func mismatch(v any, schema, schemas object, at string) (faults []string) {
	if ref, ok := schema["$ref"].(string); ok {
		schema, ok = schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(object)
		if !ok {
			return []string{at + ": " + ref + " does not exist"}
		}
	}
	types := schema["type"]
	want, many := types.([]string)
	if !many {
		want = []string{fmt.Sprint(types)}
	}
	var got string
	switch v := v.(type) {
	case nil:
		got = "null"
	case bool:
		got = "boolean"
	case string:
		got = "string"
	case float64:
		if got = "number"; slices.Contains(want, "integer") && v == float64(int64(v)) {
			got = "integer"
		}
	case []any:
		got = "array"
		for i, item := range v {
			faults = append(faults, mismatch(item, schema["items"].(object), schemas, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		got = "object"
		properties, _ := schema["properties"].(object)
		for name, value := range v {
			if more, ok := schema["additionalProperties"].(object); ok {
				faults = append(faults, mismatch(value, more, schemas, at+"."+name)...)
			} else if p, ok := properties[name].(object); ok {
				faults = append(faults, mismatch(value, p, schemas, at+"."+name)...)
			} else {
				faults = append(faults, at+"."+name+" is not described")
			}
		}
		required, _ := schema["required"].([]string)
		for _, name := range required {
			if _, ok := v[name]; !ok {
				faults = append(faults, at+"."+name+" is missing")
			}
		}
	}
	if !slices.Contains(want, got) {
		faults = append(faults, fmt.Sprintf("%s is %s, want %v", at, got, want))
	}
	return faults
}

// TestPauseStopsTheWeb: within 2 s of a pause the web sees no further request.
func TestPauseStopsTheWeb(t *testing.T) {
	r := newRig(t, nil)
	r.await("pages", func() bool { return r.requests() > 50 })
	if code, body := r.ask("POST", "/api/v1/pause", "", r.withToken); code != http.StatusOK {
		t.Fatalf("pause: %d %s", code, body)
	}
	<-time.After(500 * time.Millisecond)
	before := r.requests()
	<-time.After(500 * time.Millisecond)
	if n := r.requests() - before; n != 0 {
		t.Errorf("%d requests after the pause", n)
	}
	r.await("paused", func() bool { return get[Status](r, "/api/v1/status").State == "paused" })
	s := get[Status](r, "/api/v1/status")
	if s.Health.Level != "warn" || len(s.Health.Problems) == 0 || s.Waiting == "" {
		t.Errorf("health %+v, waiting for %q", s.Health, s.Waiting)
	}
	r.ask("POST", "/api/v1/resume", "", r.withToken)
	r.await("requests again", func() bool { return r.requests() > before })
}

// TestStatusIsTheAudit: at rest the status has the numbers of the audit.
func TestStatusIsTheAudit(t *testing.T) {
	r := newRig(t, nil)
	r.await("pages", func() bool { return r.requests() > 200 })
	r.ask("POST", "/api/v1/pause", "", r.withToken)
	<-time.After(300 * time.Millisecond)
	r.ask("POST", "/api/v1/checkpoint", "", r.withToken)
	<-time.After(200 * time.Millisecond)
	s := get[Status](r, "/api/v1/status")
	r.stop()
	rep, err := audit.Run(disk.OS(), []string{r.dir})
	if err != nil || !rep.Balanced() {
		t.Fatalf("audit: %v %+v", err, rep)
	}
	rows := map[string]int64{}
	for _, row := range rep.Rows {
		rows[row.Place] = row.Account.N
	}
	sum := int64(0)
	for _, row := range s.Places {
		sum += row.URLs
		switch row.Name {
		case "robotscheck", "awaitrobots", "ready", "ram", "deferred", "beast", "star":
			continue // URLs move between these while no request starts
		}
		if got := rows[row.Name]; row.URLs != got {
			t.Errorf("%s: status %d, audit %d", row.Name, row.URLs, got)
		}
	}
	if s.Unique != rep.Unique.Account.N || sum != s.Unique || s.Counters["responses"] != rows["fetched"] {
		t.Errorf("unique %d, sum of places %d, audit %d; responses %d, audit %d", s.Unique, sum, rep.Unique.Account.N,
			s.Counters["responses"], rows["fetched"])
	}
}

// TestGuard: requests from elsewhere are refused.
func TestGuard(t *testing.T) {
	r := newRig(t, nil)
	for _, c := range []struct {
		name string
		set  func(*http.Request)
		want int
	}{
		{"plain", nil, http.StatusOK},
		{"localhost", func(q *http.Request) { q.Host = "localhost:7878" }, http.StatusOK},
		{"DNS rebinding", func(q *http.Request) { q.Host = "evil.example:7878" }, http.StatusMisdirectedRequest},
		{"another origin", func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") },
			http.StatusForbidden},
		{"no origin", func(q *http.Request) { q.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"own origin", func(q *http.Request) { q.Header.Set("Origin", r.url) }, http.StatusOK},
		{"another site", func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"a link elsewhere", fetchHeaders("cross-site", "navigate", "document"), http.StatusForbidden},
		{"a frame elsewhere", fetchHeaders("cross-site", "navigate", "iframe"), http.StatusForbidden},
		{"a page of another port", fetchHeaders("same-site", "no-cors", "image"), http.StatusForbidden},
		{"typed", fetchHeaders("none", "navigate", "document"), http.StatusOK},
		{"the dashboard", fetchHeaders("same-origin", "cors", "empty"), http.StatusOK},
	} {
		if code, body := r.ask("GET", "/api/v1/status", "", c.set); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
	}
	wrong := func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }
	if code, _ := r.ask("POST", "/api/v1/pause", "", wrong); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	fromElsewhere := func(q *http.Request) { r.withToken(q); q.Header.Set("Origin", "https://evil.example") }
	if code, _ := r.ask("POST", "/api/v1/pause", "", fromElsewhere); code != http.StatusForbidden {
		t.Errorf("the token from another origin: %d", code)
	}
	for path, want := range map[string]int{"/nothing": http.StatusNotFound,
		"/api/v1/pause": http.StatusMethodNotAllowed, "/healthz": http.StatusOK, "/readyz": http.StatusOK,
		"/openapi.json": http.StatusOK} {
		if code, body := r.ask("GET", path, "", nil); code != want {
			t.Errorf("GET %s: %d %s, want %d", path, code, body, want)
		}
	}
}

// TestOpenAddress: an address that is not loopback needs TLS or an explicit word, and the token for reading.
func TestOpenAddress(t *testing.T) {
	if _, err := Listen(Options{Control: new(crawl.Control), Addr: "0.0.0.0:0",
		Dirs: []string{t.TempDir()}}); err == nil {
		t.Error("an open address without TLS was accepted")
	}
	r := newRig(t, func(_ *crawl.Options, a *Options) { a.Addr, a.Plain = "0.0.0.0:0", true })
	r.url = strings.Replace(r.url, "0.0.0.0", "127.0.0.1", 1)
	if code, _ := r.ask("GET", "/api/v1/status", "", nil); code != http.StatusUnauthorized {
		t.Errorf("without token: %d", code)
	}
	if code, body := r.ask("GET", "/api/v1/status", "", r.withToken); code != http.StatusOK {
		t.Errorf("with token: %d %s", code, body)
	}
}

// TestEvents: the stream brings the status, log lines and changes.
func TestEvents(t *testing.T) {
	r := newRig(t, nil)
	resp, err := http.Get(r.url + "/api/v1/events")
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func(name string) string {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: "+name && lines.Scan() {
				return strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
	next("status")
	r.tail.Add(time.Now(), "WARN", "a line")
	if text := next("log"); !strings.Contains(text, "a line") {
		t.Errorf("log event: %s", text)
	}
	r.ask("POST", "/api/v1/pause", "", r.withToken)
	if text := next("change"); !strings.Contains(text, `"op":"pause"`) {
		t.Errorf("change event: %s", text)
	}
}

// TestWellKnownNames: the description has an identifier for each operation, each once, and all references
// resolve.
func TestWellKnownNames(t *testing.T) {
	doc, err := json.Marshal(OpenAPI("test"))
	must(t, err)
	seen := map[string]bool{}
	for _, op := range operations {
		if seen[op.ID] || op.Summary == "" || op.Result == nil {
			t.Errorf("operation %s: a second time, or incomplete", op.ID)
		}
		seen[op.ID] = true
		for _, p := range op.Params {
			if p.In == "path" && !strings.Contains(op.Path, "{"+p.Name+"}") {
				t.Errorf("operation %s: %s is not in its path", op.ID, p.Name)
			}
		}
	}
	var v struct {
		Components struct{ Schemas map[string]any }
	}
	must(t, json.Unmarshal(doc, &v))
	for _, part := range strings.Split(string(doc), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if v.Components.Schemas[name] == nil {
			t.Errorf("schema %s does not exist", name)
		}
	}
}
