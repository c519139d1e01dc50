package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drumbeat/bench/bareloop"
	"drumbeat/bench/result"
	"drumbeat/internal/cputime"
)

// raceFlags are what both races take.
type raceFlags struct {
	Work      string        `required:"" help:"Existing directory for the web, inputs, logs and crawls."`
	Drumbeat  string        `required:"" help:"Binary of drumbeat."`
	Wget2     string        `default:"wget2" help:"Binary of wget2."`
	Pairs     int           `default:"5" help:"Number of trials of each contender. Contenders alternate."`
	Limit     time.Duration `default:"5m" help:"Maximum duration of a trial."`
	Flags     []string      `sep:"none" help:"Further flags of drumbeat crawl. Repeatable."`
	Out       string        `help:"Also write the report to this directory, as text and JSON."`
	LeastBare float64       `help:"Target: at least N times the pages/s of the bare loop."`
	MostCPU   float64       `name:"most-cpu" help:"Target: at most N times the CPU per page of the bare loop."`
}

func (f *raceFlags) check() error {
	if f.Pairs < 1 || f.Pairs > 1000 {
		return fmt.Errorf("realweb: --pairs %d: want 1 to 1,000", f.Pairs)
	}
	return nil
}

// alternate calls run for each contender in each round. The order changes from round to round.
func (f *raceFlags) alternate(contenders []string, run func(round int, name string) error) error {
	for i := range f.Pairs {
		order := slices.Clone(contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			if err := run(i+1, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// wget2Threads is the best setting of wget2: with 2 and 8 threads it takes as much CPU. (With --spider it
// misses pages.)
const wget2Threads = 16

// wget2Ignores are the tags of images, scripts and styles, which wget2 would fetch too.
const wget2Ignores = "img,script,link/href,video,audio,source,embed,object,input,body/background," +
	"table/background,td/background"

// wget2 returns the command line of wget2, with flags that differ between the races. library is
// libnss_wrapper.so, names the file of its names, at most hosts of them, and dir is for wget2's own files.
func (f *raceFlags) wget2(seeds, library, names string, hosts int, dir string, flags ...string) *exec.Cmd {
	args := append([]string{"--quiet", "--input-file", seeds, "--recursive", "--level=inf",
		"--max-threads=" + strconv.Itoa(wget2Threads), "--compression=gzip",
		"--output-document=/dev/null", "--no-config", "--no-hsts", "--no-cookies", "--no-netrc", "--no-proxy",
		"--no-xattr", "--no-http2", "--ignore-tags=" + wget2Ignores}, flags...)
	cmd := exec.Command(f.Wget2, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "NSS_WRAPPER_HOSTS="+names,
		"NSS_WRAPPER_MAX_HOSTENTS="+strconv.Itoa(hosts), "HOME="+dir) // default: 100 names
	return cmd
}

// describe puts the command lines of the contenders and the version of wget2 into a report.
func (f *raceFlags) describe(rep *result.Report, contenders []string, work string,
	command func(name string) *exec.Cmd) {
	for _, name := range contenders {
		cmd := command(name)
		rep.Set(name, "%s %s", filepath.Base(cmd.Path),
			strings.ReplaceAll(strings.Join(cmd.Args[1:], " "), work, "WEB"))
	}
	if slices.Contains(contenders, wget2Name) {
		if out, err := exec.Command(f.Wget2, "--version").Output(); err == nil {
			version, _, _ := strings.Cut(string(out), "\n")
			rep.Set("wget2 is", "%s", version)
		}
	}
}

// cost is what one run of a contender took.
type cost struct {
	wall      time.Duration // from the start of the process to its end
	cpu       time.Duration // of the process, user and system
	serverCPU time.Duration // of the web's servers
	idle      float64       // idle share of the machine's CPU time
	rssBytes  int64
}

// child is a contender that runs. It dies with this process.
type child struct {
	*exec.Cmd
	began     time.Time
	idle, all int64
	stop      chan struct{}
	peak      chan int64
}

// startChild starts a contender in the directory dir, with its output in out.
func startChild(cmd *exec.Cmd, dir string, out *os.File) (*child, error) {
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c := &child{Cmd: cmd, stop: make(chan struct{}), peak: make(chan int64)}
	c.idle, c.all = machineTicks()
	c.began = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("realweb: start %s: %w", filepath.Base(cmd.Path), err)
	}
	go watchRSS(cmd.Process.Pid, c.stop, c.peak)
	return c, nil
}

// idleSince returns the idle share of the machine's CPU time since the start.
func (c *child) idleSince() float64 {
	idle, all := machineTicks()
	return float64(idle-c.idle) / float64(max(all-c.all, 1))
}

// ended fills in what is known once the process has ended.
func (c *child) ended(l *cost) {
	l.wall = time.Since(c.began)
	close(c.stop)
	l.rssBytes = <-c.peak
	l.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// outputTail returns the end of a contender's output.
func outputTail(out *os.File) []byte {
	text, _ := os.ReadFile(out.Name())
	return text[max(0, len(text)-4000):]
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
		_, now := cputime.RSS(pid) // 0 once it has ended
		most = max(most, now)
	}
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

// cpu returns the CPU time of nginx's processes.
func (s *servers) cpu() (sum time.Duration) {
	pid := s.nginx.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, p := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(p)
		used, _ := cputime.Of(pid) // 0 if it has ended
		sum += used
	}
	return sum
}

// runs are the trials of the contenders.
type runs[T any] map[string][]T

func (r runs[T]) median(name string, figure func(T) float64) float64 {
	return result.Of(r[name], figure).Median()
}

func (r runs[T]) last(name string) T { return r[name][len(r[name])-1] }

// column is a column of medians.
type column[T any] struct {
	head, format string
	figure       func(T) float64
}

// medians returns a table with a row for each contender.
func (r runs[T]) medians(title string, contenders []string, columns []column[T]) result.Table {
	t := result.Table{Title: title, Head: []string{"contender"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for _, name := range contenders {
		row := []string{name}
		for _, c := range columns {
			row = append(row, fmt.Sprintf(c.format, r.median(name, c.figure)))
		}
		t.Add(row...)
	}
	return t
}

// spread inserts the least and the largest pages/s after the first column of medians.
func (r runs[T]) spread(t *result.Table, rate func(T) float64) {
	t.Head = slices.Insert(t.Head, 1, "min-max pages/s")
	for i, row := range t.Rows {
		t.Rows[i] = slices.Insert(row, 1, result.Of(r[row[0]], rate).Spread())
	}
}

// ratio is a pair of contenders whose medians are compared. 0: no target.
type ratio struct {
	over, under        string
	leastRate, mostCPU float64
}

// ratios adds the ratios of medians to a report, of those pairs that have run: a table, a line for each, and
// the checks.
func (r runs[T]) ratios(rep *result.Report, benchmark string, rate, cpu func(T) float64, list []ratio) {
	t := result.Table{Title: "ratios of the medians", Head: []string{"ratio", "pages/s", "CPU per page"}}
	for _, q := range list {
		if len(r[q.over]) == 0 || len(r[q.under]) == 0 {
			continue
		}
		rates, cpus := r.median(q.over, rate)/r.median(q.under, rate), r.median(q.over, cpu)/r.median(q.under, cpu)
		t.Add(q.over+"/"+q.under, fmt.Sprintf("%.2f", rates), fmt.Sprintf("%.2f", cpus))
		rep.Add("Benchmark"+benchmark+"Ratio/over="+q.over+"/under="+q.under, 1,
			result.Metric{Value: rates, Unit: "pages/s-ratio"}, result.Metric{Value: cpus, Unit: "cpu-ratio"})
		if q.leastRate > 0 {
			rep.Checks = append(rep.Checks,
				result.AtLeast("pages/s of "+q.over+" / "+q.under, rates, q.leastRate, "x"))
		}
		if q.mostCPU > 0 {
			rep.Checks = append(rep.Checks,
				result.AtMost("CPU per page of "+q.over+" / "+q.under, cpus, q.mostCPU, "x"))
		}
	}
	if len(t.Rows) > 0 {
		rep.Tables = append(rep.Tables, t)
	}
}

// floorCmd runs the bare loop in a process of its own.
type floorCmd struct {
	List        string `required:"" help:"File of requests, one per line: address:port, host:port, target."`
	Store       string `help:"Write the responses to WARC files in this directory. Default: do not store them."`
	Connections int    `default:"16" help:"Concurrent requests. With 1, process each response before the next request."`
}

// Run is the command floor.
func (c floorCmd) Run(ctx context.Context) error {
	var list []bareloop.Request
	err := readLines(c.List, func(line string) error {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("line has %d fields, want 3", len(f))
		}
		addr, err := netip.ParseAddrPort(f[0])
		list = append(list, bareloop.Request{Addr: addr, Host: f[1], Target: f[2]})
		return err
	})
	if err != nil {
		return err
	}
	sum, err := bareloop.Run(ctx, list, bareloop.Options{Connections: c.Connections, Store: c.Store})
	fmt.Printf("%d responses, %d bytes, %d links\n", sum.Responses, sum.Bytes, sum.Links)
	return err
}
