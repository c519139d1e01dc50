package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// trial is one run of one contender.
type trial struct {
	wall      time.Duration // from the start of the process to its end
	cpu       time.Duration // of the process, user and system
	serverCPU time.Duration // of nginx during the trial
	idle      float64       // idle share of the machine's CPU time
	rssBytes  int64
	first     time.Duration // from the start to the first answer
	tail      time.Duration // from the last answer to the end
	ends      []float64     // when each page was answered, in seconds from the start
	log       *requests
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
	cmd := r.command(ctx, name, dir)
	out, err := os.Create(filepath.Join(dir, "out.txt"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	l := new(trial)
	server, idle, all := r.servers.cpu(), int64(0), int64(0)
	idle, all = machineTicks()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("realweb: start %s: %w", name, err)
	}
	stop := make(chan struct{})
	peak := make(chan int64)
	go watchRSS(cmd.Process.Pid, stop, peak)
	err = cmd.Wait()
	l.wall = time.Since(began)
	close(stop)
	l.rssBytes = <-peak
	idle2, all2 := machineTicks()
	l.serverCPU, l.idle = r.servers.cpu()-server, float64(idle2-idle)/float64(max(all2-all, 1))
	l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	// wget2 exits with 8 if any URL had an error status, such as 404.
	if ctx.Err() != nil || err != nil && !(name == wget2Name && cmd.ProcessState.ExitCode() == 8) {
		text, _ := os.ReadFile(out.Name())
		return nil, fmt.Errorf("realweb: %s: %w\n%s", strings.Join(cmd.Args, " "), cmp.Or(ctx.Err(), err), text[max(0, len(text)-4000):])
	}
	time.Sleep(1500 * time.Millisecond) // nginx flushes its log each second
	if l.log, err = readRequests(log); err != nil {
		return nil, err
	}
	if len(l.log.pages) == 0 {
		return nil, fmt.Errorf("realweb: %s fetched no page", strings.Join(cmd.Args, " "))
	}
	start := time.Duration(began.UnixNano())
	l.first, l.tail = l.log.first-start, start+l.wall-l.log.last
	for _, at := range l.log.pageEnds {
		l.ends = append(l.ends, (at - start).Seconds())
	}
	return l, nil
}

// watchRSS sends the peak resident set of a process when stop is closed. The kernel's own figure for an
// ended child would include this process's memory from before the exec.
func watchRSS(pid int, stop <-chan struct{}, peak chan<- int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var most int64
	for {
		select {
		case <-stop:
			peak <- most
			return
		case <-tick.C:
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty once it has ended
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		if f := strings.Fields(rest); len(f) > 0 {
			kib, _ := strconv.ParseInt(f[0], 10, 64)
			most = max(most, kib<<10)
		}
	}
}

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// cpu returns the CPU time of nginx's processes.
func (s *servers) cpu() time.Duration {
	var sum time.Duration
	pid := s.nginx.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, p := range strings.Fields(string(children)) {
		text, _ := os.ReadFile("/proc/" + p + "/stat")
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest) // from field 3 on: user is 14, system 15
		if len(f) < 13 {
			continue
		}
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		sum += time.Duration(user+system) * tick
	}
	return sum
}

// machineTicks returns the machine's total and idle CPU time, in ticks.
func machineTicks() (idle, all int64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || i > 8 { // the word cpu, and guest time, which user includes
			continue
		}
		all += n
		if i == 4 || i == 5 { // idle, iowait
			idle += n
		}
	}
	return idle, all
}
