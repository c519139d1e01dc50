package cmd

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// eraseRig is a crawl in a process of its own, from which hosts are erased while it runs.
type eraseRig struct {
	t    *testing.T
	web  *simweb.Web
	dir  string
	args []string
	cmd  *exec.Cmd
	said bytes.Buffer
}

func newEraseRig(t *testing.T) *eraseRig {
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.LogRequests = 1500, 1_000_000 })
	dir := filepath.Join(t.TempDir(), "crawl")
	return &eraseRig{t: t, web: web, dir: dir, args: append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir,
		"--ram=256MiB", "--host-delay=20ms", "--linger=1s")}
}

func (r *eraseRig) start() {
	r.t.Helper()
	r.cmd = cmdtest.Child(r.t.Context(), r.args...)
	r.cmd.Stderr = &r.said
	must(r.t, r.cmd.Start())
}

// hits returns the requests to a host.
func (r *eraseRig) hits(host string) int { return int(r.web.Log().Snapshot().Hosts[host].Requests) }

// await waits for a condition.
func (r *eraseRig) await(what string, f func() bool) {
	r.t.Helper()
	for range 6000 {
		if f() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r.t.Fatalf("not reached in 60 s: %s\n%s", what, r.said.String())
}

// busiest returns the hosts with most requests, without such as share index lines with www.
func (r *eraseRig) busiest() []string {
	hosts := r.web.Log().Snapshot().Hosts
	names := slices.DeleteFunc(slices.Collect(maps.Keys(hosts)),
		func(name string) bool { return !strings.HasPrefix(name, "h") })
	slices.SortFunc(names, func(a, b string) int { return int(hosts[b].Requests) - int(hosts[a].Requests) })
	return names
}

// check audits the ended crawl, and searches for hosts.
func (r *eraseRig) check(hosts ...string) {
	r.t.Helper()
	out, _ := wantExit(r.t, term.ExitDone, "", "audit", "--deep", r.dir)
	if !strings.Contains(out, "balanced") {
		r.t.Errorf("audit: %s", out)
	}
	_, out, _ = runApp(r.t, "host:"+strings.Join(hosts, "\nhost:"), "audit", "--erased", "-", "--json", r.dir)
	var proof struct {
		Leftovers []struct{ File, Kind, Text string }
	}
	must(r.t, json.Unmarshal([]byte(out), &proof))
	for _, l := range proof.Leftovers { // pages that were fetched later may lead to the hosts, and redirect to them
		if !strings.HasPrefix(l.Kind, "line ") && !strings.HasPrefix(l.Kind, "field ") &&
			!(strings.HasSuffix(l.File, ".cdxj") && strings.HasPrefix(l.Text, "http")) {
			r.t.Errorf("left: %+v", l)
		}
	}
	if left := globbed(r.t, r.dir+"/"+state.ErasedDir+"/*.request"); len(left) > 0 {
		r.t.Errorf("requests are left: %q", left)
	}
}

// TestEraseRunning: ctl erase removes a host while the crawl runs. The process stays, the crawl continues to its end,
// and the server sees no request for the host after the answer.
func TestEraseRunning(t *testing.T) {
	notShort(t)
	t.Parallel()
	r := newEraseRig(t)
	r.start()
	r.await("requests", func() bool { return len(r.busiest()) > 1 && r.hits(r.busiest()[0]) > 30 })
	host := r.busiest()[0]
	out, _ := wantExit(t, term.ExitDone, "", "ctl", "erase", "--host", host, "--reason", "asked", "--dir", r.dir)
	before := r.hits(host)
	if !strings.Contains(out, "request 1, digest ") {
		t.Errorf("ctl erase: %s", out)
	}
	r.await("the erasure", func() bool { return len(globbed(t, r.dir+"/"+state.ErasedDir+"/*.json")) == 1 })
	pages := len(r.web.Log().Snapshot().Fetches)
	// The second one waits until the crawl fetches again.
	other := r.busiest()[1]
	out, _ = wantExit(t, term.ExitDone, "host:"+other, "ctl", "erase", "--list", "-", "--later", "--reason", "asked",
		"--dir", r.dir)
	otherBefore := r.hits(other)
	if !strings.Contains(out, "request 2, ") || !strings.Contains(out, "waits until the crawl ends or starts") {
		t.Errorf("ctl erase --later: %s", out)
	}
	out, _ = wantExit(t, term.ExitDone, "", "ctl", "erase", "--report", "--dir", r.dir)
	if !strings.Contains(out, "waits until the crawl ends") || !strings.Contains(out, "captures removed") {
		t.Errorf("ctl erase --report: %s", out)
	}
	out, _ = wantExit(t, term.ExitDone, "", "erase", "--report", r.dir)
	if !strings.Contains(out, "request 2 of ") || !strings.Contains(out, "erasure 1, ") {
		t.Errorf("erase --report: %s", out)
	}
	wantExit(t, term.ExitUsage, "", "ctl", "erase", "--host", other, "--dir", r.dir) // no reason
	err := r.cmd.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, r.said.String())
	}
	if len(r.web.Log().Snapshot().Fetches) <= pages {
		t.Error("the crawl did not continue")
	}
	if a, b := r.hits(host), r.hits(other); a != before || b != otherBefore {
		t.Errorf("requests: %d and %d, at the answers %d and %d", a, b, before, otherBefore)
	}
	r.check(host, other)
}

// TestEraseKill: the process is killed between the answer and the end of the erasure, at the places that its files
// show. The next start finishes the erasure before it fetches.
func TestEraseKill(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, place := range []string{"erasures/000001.request", "erase-tmp", "state/ERASE", "erasures/000001.keys",
		"erasures/000001.json"} {
		r := newEraseRig(t)
		r.start()
		r.await("requests", func() bool { return len(r.busiest()) > 0 && r.hits(r.busiest()[0]) > 30 })
		host := r.busiest()[0]
		wantExit(t, term.ExitDone, "", "ctl", "erase", "--host", host, "--reason", "asked", "--dir", r.dir)
		before := r.hits(host)
		for { // a place that is gone again has been passed
			_, err := os.Stat(filepath.Join(r.dir, place))
			_, done := os.Stat(filepath.Join(r.dir, "erasures/000001.json"))
			if err == nil || done == nil {
				break
			}
		}
		must(t, r.cmd.Process.Kill())
		_ = r.cmd.Wait()
		r.start()
		if err := r.cmd.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", place, err, r.said.String())
		}
		// A host has one request at a time, and the web may read one that was cut off after the answer.
		if n := r.hits(host); n > before+1 {
			t.Errorf("%s: %d requests, at the answer %d", place, n, before)
		}
		r.check(host)
	}
}
