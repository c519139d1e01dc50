package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// demo is the command demo, with a web that lasts longer than the test at some 100 requests per second.
type demo struct {
	t       *testing.T
	bin     string
	dir     string
	log     string // of the servers
	address string // of the admin server

	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	output *tail
}

// buildDemo builds the command.
func buildDemo(ctx context.Context, t *testing.T) *demo {
	t.Helper()
	d := &demo{t: t, bin: filepath.Join(t.TempDir(), "drumbeat"), address: "127.0.0.1:0"}
	d.dir, d.log = filepath.Join(t.TempDir(), "crawl"), filepath.Join(t.TempDir(), "requests")
	build := exec.CommandContext(ctx, "go", "build", "-o", d.bin, "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Cleanup(d.kill)
	return d
}

// start starts the process and waits until its admin server answers. After the first start it keeps its address.
func (d *demo) start(ctx context.Context) {
	d.t.Helper()
	d.output = &tail{}
	d.cmd = exec.Command(d.bin, "demo", "--quiet", "--pages=100000", "--hosts=300", "--plds=60",
		"--host-delay=1s", "--connections=100", "--ram=256MiB", "--admin="+d.address, "--dir="+d.dir,
		"--server-log="+d.log)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, ended := d.cmd, make(chan struct{})
	d.ended = ended
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(ended)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var address struct {
			URL string
			PID int
		}
		data, err := os.ReadFile(filepath.Join(d.dir, "admin.json"))
		if err == nil && json.Unmarshal(data, &address) == nil && address.PID == d.cmd.Process.Pid {
			d.address = strings.TrimPrefix(address.URL, "http://")
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			d.t.Fatalf("demo has ended: %v\n%s", d.cmd.ProcessState, d.output)
		case <-ctx.Done():
			d.t.Fatalf("demo has no admin server: %v\n%s", ctx.Err(), d.output)
		}
	}
}

// kill sends SIGKILL and waits for the end.
func (d *demo) kill() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// url is the address of the dashboard.
func (d *demo) url() string { return "http://" + d.address + "/" }

// token reads the token for changes.
func (d *demo) token() string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "admin-token"))
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// request is a line of the servers' log.
type request struct {
	at   time.Time
	text string // the URL
	url  *url.URL
}

// requests reads the whole lines of the servers' log.
func (d *demo) requests() []request {
	d.t.Helper()
	data, err := os.ReadFile(d.log)
	if err != nil {
		d.t.Fatal(err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var list []request
	for line := range strings.Lines(string(data)) {
		r, err := parseRequest(strings.TrimSuffix(line, "\n"))
		if err != nil {
			d.t.Fatalf("servers' log: %q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

func parseRequest(line string) (r request, err error) {
	fields := strings.Split(line, " ")
	if len(fields) != 3 {
		return r, fmt.Errorf("%d fields, want 3", len(fields))
	}
	if r.at, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		return r, err
	}
	r.text = fields[2]
	r.url, err = url.Parse(r.text)
	return r, err
}

// quiet waits until the servers have received no request for some seconds, and returns the time of the last
// one. The crawl has URLs whose time has come, so a crawl that is not paused is never quiet.
func (d *demo) quiet(p *page) time.Time {
	d.t.Helper()
	const silence = 4 * time.Second
	count, since := -1, time.Now()
	var last time.Time
	p.wait("the servers' log ends", 30*time.Second, func() bool {
		list := d.requests()
		if len(list) != count {
			count, since = len(list), time.Now()
			if count > 0 {
				last = list[count-1].at
			}
		}
		return time.Since(since) > silence
	})
	return last
}

// flows waits until the servers have received more requests.
func (d *demo) flows(p *page, more int) {
	d.t.Helper()
	before := len(d.requests())
	p.wait("requests flow", 20*time.Second, func() bool { return len(d.requests()) >= before+more })
}

// inRAM returns the number of a host's URLs that wait in RAM for their turn, as of the last checkpoint.
func (d *demo) inRAM(p *page, host string) int {
	d.t.Helper()
	var report struct {
		Host struct{ Places map[string]int }
	}
	request, err := http.NewRequestWithContext(p.ctx, http.MethodGet, d.url()+"api/v1/explain?url="+host, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&report); err != nil || answer.StatusCode != http.StatusOK {
		d.t.Fatalf("explain %s: %s, %v", host, answer.Status, err)
	}
	return report.Host.Places["ram"]
}

func itoa(n int) string { return strconv.Itoa(n) }
