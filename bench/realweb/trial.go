package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
