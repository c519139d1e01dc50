package soak

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/warc"
)

// process is one run of the command.
type process struct {
	cmd            *exec.Cmd
	began          time.Time
	requestsBefore int // requests that the web had answered before its start
	tail           *tail
	done           chan struct{} // closed when it has ended
	sampled        chan []sample // receives all samples once
}

// tail keeps the last bytes written to it, and the numbers of goroutines in progress lines.
type tail struct {
	mu         sync.Mutex
	b          []byte
	goroutines []int
}

// tailBytes is the number of bytes of standard error to keep: enough for a dump of all goroutines.
const tailBytes = 1 << 20

var goroutinesField = regexp.MustCompile(`goroutines=(\d+)`)

// Write implements io.Writer.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := goroutinesField.FindSubmatch(p); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			w.goroutines = append(w.goroutines, n)
		}
	}
	w.b = append(w.b, p...)
	if len(w.b) > 2*tailBytes {
		w.b = slices.Clone(w.b[len(w.b)-tailBytes:])
	}
	return len(p), nil
}

func (w *tail) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// brief returns its beginning and end.
func (w *tail) brief() string {
	const most = 3000
	text := w.text()
	if len(text) <= 2*most {
		return text
	}
	return text[:most] + "\n[...]\n" + text[len(text)-most:]
}

// sample is the resources of a process at one moment.
type sample struct {
	threads, descriptors int
	rss                  int64
	virtual              uint64
}

// sampleEvery is the time between two samples.
const sampleEvery = 250 * time.Millisecond

// args returns the arguments for the crawl in dirs.
func (s *soak) args(dirs []string, more ...string) []string {
	args := slices.Concat(s.flags, more)
	for i, dir := range dirs {
		if i == 0 {
			args = append(args, "--dir="+dir)
		} else {
			args = append(args, "--add-dir="+dir) // dirs may contain directories that the crawl does not have yet
		}
	}
	return args
}

// start runs the command on the current crawl, or on a new one if that is done.
func (s *soak) start(more ...string) {
	s.t.Helper()
	if s.p != nil {
		return
	}
	if len(s.dirs) == 0 {
		s.newCrawl(s.pages)
	}
	s.starts++
	args := append([]string{s.bin}, s.args(s.dirs, more...)...)
	if s.descriptorLimit > 0 {
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, s.descriptorLimit)}, args...)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), tail: &tail{}, done: make(chan struct{}),
		sampled: make(chan []sample, 1)}
	p.cmd.Stderr = p.tail
	p.requestsBefore, _, _ = s.web.Log().Totals()
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.p = p
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.done)
	}()
	go p.sample()
}

// sample samples the process until it ends.
func (p *process) sample() {
	var list []sample
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			p.sampled <- list
			return
		case <-tick.C:
			if sm := p.now(); sm.descriptors > 0 {
				list = append(list, sm)
			}
		}
	}
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// code returns the exit code of a process that has ended; -1 for a signal.
func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

// signal sends a signal, which a process that has ended ignores.
func (s *soak) signal(sig syscall.Signal) { _ = s.p.cmd.Process.Signal(sig) }

// stop ends the process by SIGKILL or SIGTERM.
func (s *soak) stop() {
	s.t.Helper()
	if s.rng.IntN(2) == 0 {
		s.kill()
		return
	}
	s.term()
}

// Whether a process that ends may have been killed.
const (
	alive  = false
	killed = true
)

// ends waits for the process and asserts how it ended: killed, by one of the codes, or done.
func (s *soak) ends(mayBeKilled bool, codes ...int) {
	s.t.Helper()
	p := s.p
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("the process does not end; standard error ends:\n%s", p.tail.brief())
	}
	s.samples = append(s.samples, <-p.sampled...)
	s.goroutines = append(s.goroutines, p.tail.goroutines...)
	s.p = nil
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	how := fmt.Sprintf("exit code %d", ws.ExitStatus())
	ok := ws.ExitStatus() == term.ExitDone || slices.Contains(codes, ws.ExitStatus())
	if ws.Signaled() {
		how = "signal " + ws.Signal().String()
		ok = mayBeKilled && ws.Signal() == syscall.SIGKILL
	}
	s.outcomes[how]++
	if text := strings.TrimSpace(p.tail.text()); ws.ExitStatus() == term.ExitFailure ||
		ws.ExitStatus() == term.ExitDiskFull {
		s.t.Logf("%s: %s", how, text[strings.LastIndexByte(text, '\n')+1:])
	}
	s.done = s.done || how == "exit code 0"
	if !ok {
		s.t.Fatalf("it ended by %s, want one of the codes %v; standard error ends:\n%s", how, codes, p.tail.brief())
	}
}

// compare asserts that a finished crawl fetched every URL that a correct crawl fetches, has each once in its
// output and no other, and kept the delays between requests to a host.
func (s *soak) compare() {
	t := s.t
	t.Helper()
	snap := s.web.Log().Snapshot()
	want := s.web.Expected(flags.DefaultAgent)
	records := s.recorded()
	bad := 0
	fail := func(format string, args ...any) {
		if bad++; bad <= 20 {
			t.Errorf(format, args...)
		}
	}
	for url := range want.FetchedURLs() {
		if snap.Fetches[url] == 0 {
			fail("not fetched: %s", url)
		}
		if records[url] != 1 {
			fail("%d records of %s in the output", records[url], url)
		}
		s.records += records[url]
		s.repeated += max(0, snap.Fetches[url]-1)
		delete(records, url)
	}
	for url, n := range records {
		fail("%d records of %s in the output, which must not be fetched", n, url)
	}
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			fail("fetched, but must not be: %s", url)
		}
	}
	s.urls += want.Fetched
	if err := snap.CheckEndGaps(10*time.Millisecond, 0); err != nil {
		t.Error(err)
	}
	t.Logf("crawl %d is done: %d URLs compared", s.crawls, want.Fetched)
}

// recorded counts the response records of each URL in the output.
func (s *soak) recorded() map[string]int {
	s.t.Helper()
	set := disk.Set{FS: disk.OS(), Paths: s.dirs}
	paths, err := warc.Files(set)
	must(s, err)
	urls := map[string]int{}
	for _, path := range paths {
		must(s, warc.ReadFile(set.FS, path, 1<<30, func(rec *warc.Record) error {
			if uri := rec.Get("WARC-Target-URI"); rec.IsCapture() && rec.Get("WARC-Resource-Type") == "" &&
				!strings.HasPrefix(uri, "dns:") {
				urls[uri]++
			}
			return nil
		}))
	}
	return urls
}
