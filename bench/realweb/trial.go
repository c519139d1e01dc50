package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drumbeat/bench/result"
)

// trial is one run of one contender.
type trial struct {
	cost
	first time.Duration   // from the start to the first answer
	tail  time.Duration   // from the last answer to the end
	ends  []time.Duration // when each page was answered, from the start
	log   *requests
}

func (l *trial) rate() float64 { return float64(len(l.log.pages)) / l.wall.Seconds() }

func (l *trial) cpuMillis() float64 { return l.perPage(l.cpu) / 1e3 }

// perPage returns a CPU time in microseconds per page.
func (l *trial) perPage(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(len(l.log.pages))
}

// run runs a program to its end, as a child that dies with this process.
func (r *trials) run(ctx context.Context, name string) (*trial, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	dir := r.web.path("trial")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	syscall.Sync() // write the data of the previous trial
	log := r.web.path("access.log")
	if err := os.Truncate(log, 0); err != nil {
		return nil, err
	}
	cmd := r.command(name, dir)
	out, err := os.Create(filepath.Join(dir, "out.txt"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	l := new(trial)
	server := r.servers.cpu()
	c, err := startChild(cmd, dir, out)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() {
		cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(grace, func() { cmd.Process.Kill() })
	})
	err = cmd.Wait()
	release()
	c.ended(&l.cost)
	l.serverCPU, l.idle = r.servers.cpu()-server, c.idleSince()
	// wget2 exits with 8 if any URL had an error status, such as 404.
	if ctx.Err() != nil || err != nil && !(name == wget2Name && cmd.ProcessState.ExitCode() == 8) {
		return nil, fmt.Errorf("realweb: %s: %w\n%s", strings.Join(cmd.Args, " "), cmp.Or(ctx.Err(), err),
			outputTail(out))
	}
	time.Sleep(1500 * time.Millisecond) // nginx flushes its log each second
	if l.log, err = readRequests(log); err != nil {
		return nil, err
	}
	if len(l.log.pages) == 0 {
		return nil, fmt.Errorf("realweb: %s fetched no page", strings.Join(cmd.Args, " "))
	}
	start := time.Duration(c.began.UnixNano())
	l.first, l.tail = l.log.first-start, start+l.wall-l.log.last
	for _, at := range l.log.pageEnds {
		l.ends = append(l.ends, at-start)
	}
	return l, nil
}

// Names of the contenders.
const (
	wget2Name       = "wget2"
	drumbeatName    = "drumbeat"
	noStoreName     = "drumbeat-nostore" // drumbeat --store none
	bareName        = "bare"             // the bare loop
	bareNoStoreName = "bare-nostore"     // the bare loop without WARC files
)

// contenders is the order of the first round and of the report.
var contenders = []string{wget2Name, bareName, bareNoStoreName, drumbeatName, noStoreName}

// crawlers are the contenders that find the pages themselves.
var crawlers = []string{wget2Name, drumbeatName, noStoreName}

// ratios adds the ratios of medians to the report.
func (r *trials) ratios(rep *result.Report) {
	r.runs.ratios(rep, "Race", (*trial).rate, (*trial).cpuMillis, []ratio{{drumbeatName, wget2Name, r.LeastWget2, 0},
		{drumbeatName, bareName, r.LeastBare, r.MostCPU}, {noStoreName, bareName, 0, 0},
		{noStoreName, bareNoStoreName, r.LeastNoStore, 0}})
}

// command returns the command line of a contender; dir is a new directory for its files.
func (r *trials) command(name, dir string) *exec.Cmd {
	port := strconv.Itoa(r.web.httpPort)
	switch name {
	case drumbeatName, noStoreName:
		args := append([]string{"crawl", "--seeds", r.web.path("seeds.txt"), "--dir",
			filepath.Join(dir, "crawl"), "--contact", "realweb@example.org", "--scope", "host", "--host-delay", "0s",
			"--server-delay", "0s", "--resolver", r.servers.dns.Addr().String(), "--allow-net", "127.0.0.0/8",
			"--ports", port, "--skip-extensions", "none", "--accept", "*/*"}, r.Flags...)
		if r.Web == webOne {
			args = append(args, "--linger", "0s")
		}
		if name == noStoreName {
			args = append(args, "--store", "none")
		}
		return exec.Command(r.Drumbeat, args...)
	case wget2Name:
		return r.wget2(r.web.path("seeds.txt"), r.Names, r.web.path("names.txt"), 2*len(r.web.hosts)+100, dir)
	}
	args := []string{"floor", "--list", r.web.path("list.txt")}
	if name == bareName {
		args = append(args, "--store", dir)
	}
	if r.Web == webOne {
		args = append(args, "--connections", "1")
	}
	return exec.Command("/proc/self/exe", args...)
}
