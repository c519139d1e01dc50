package soak

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

var (
	longRuns = flag.Bool("long", false, "run the long forms")
	soakFor  = flag.Duration("soak", 0,
		"length of TestSoak (0: 6s, or 1m with -long); from 1m on, as root, it mounts file systems")
	soakSeed = flag.Uint64("seed", 1, "seed of TestSoak")
)

// longSoak is the minimum length of a soak with all faults.
const longSoak = time.Minute

// A fault is one event that the soak injects into a crawl.
type fault struct {
	name string
	run  func(s *soak)
	// mounts: needs file systems that only root can mount. steady: leaves the process running. long: the
	// crawl needs a minute or more to recover, too long for the short form.
	mounts, steady, long bool
}

var faults = []fault{
	{name: "kill -9", run: (*soak).kill},
	{name: "SIGTERM", run: (*soak).term},
	{name: "two signals", run: (*soak).twoSignals},
	{name: "machine stands still", run: (*soak).freeze, steady: true},
	{name: "fewer descriptors while it runs", run: (*soak).descriptors},
	{name: "few descriptors from the start", run: (*soak).fewDescriptors},
	{name: "no memory", run: (*soak).memory},
	{name: "outage", run: (*soak).outage, steady: true, long: true},
	{name: "--disk reached", run: (*soak).diskLimit},
	{name: "directory missing", run: (*soak).missing},
	{name: "directory left out", run: (*soak).leftOut},
	{name: "directories in another order", run: (*soak).swapped},
	{name: "directory moved", run: (*soak).moved},
	{name: "foreign directory", run: (*soak).foreign},
	{name: "machine lost", run: (*soak).lost},
	{name: "disk unmounted", run: (*soak).unmounted, mounts: true},
	{name: "disk nearly full", run: (*soak).nearlyFull, mounts: true, steady: true},
	{name: "disk full to the last byte", run: (*soak).full, mounts: true, steady: true},
	{name: "killed while the disk is full", run: (*soak).fullAndKilled, mounts: true},
	{name: "slow disk", run: (*soak).slowDisk, mounts: true, steady: true},
}

// soak is the state of the test: the web, the current crawl and process, and the figures.
type soak struct {
	t     *testing.T
	rng   *rand.Rand
	bin   string // the command
	tmp   string
	disks soakDisks
	unit  time.Duration // a fault takes a few of them

	web    *simweb.Web
	server *simweb.Server
	flags  []string // all except the directories
	dirs   []string // of the current crawl
	crawls int
	pages  int    // of a crawl's web
	other  string // directory of another crawl

	p          *process // the running one; nil if none runs
	done       bool     // the current crawl has finished, and its output must be compared
	samples    []sample // of processes that have ended
	goroutines []int    // numbers that these processes logged

	descriptorLimit int // for the next start; 0: none

	injected      map[string]int // number of faults by name
	outcomes      map[string]int // ends of processes
	starts        int
	longest       time.Duration // from a start to the first request
	urls, records int           // compared
	repeated      int           // fetches
	audits        int
}

// TestSoak runs the command against a synthetic web over sockets and injects faults in random order for the
// time of -soak. It checks that each finished crawl has every URL in its output once, that the accounts
// balance after every fault, and that long-lived processes do not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	if *soakFor == 0 {
		if *soakFor = 6 * time.Second; *longRuns {
			*soakFor = longSoak
		}
	}
	s := newSoak(t)
	t.Logf("seed %d, %v, unit %v, mounts: %t, throttle: %t", *soakSeed, *soakFor, s.unit, s.disks.mounted,
		s.disks.throttle != "")
	began := time.Now()
	faultsEnd := began.Add(*soakFor * 2 / 3)
	for first := true; first || time.Now().Before(faultsEnd); first = false { // each fault at least once
		for _, i := range s.rng.Perm(len(faults)) {
			if !first && time.Now().After(faultsEnd) {
				break
			}
			if s.inject(&faults[i]); t.Failed() {
				t.FailNow()
			}
		}
	}
	s.finish()
	s.steady(max(time.Until(began.Add(*soakFor)), *soakFor/6))
	s.report(time.Since(began))
}

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, rng: rand.New(rand.NewPCG(*soakSeed, 3)), tmp: t.TempDir(), injected: map[string]int{},
		outcomes: map[string]int{}}
	s.unit = min(max(*soakFor/400, 150*time.Millisecond), 2*time.Second)
	s.pages = int(min(max(soakFor.Seconds()*25, 600), 20_000))
	s.bin = filepath.Join(s.tmp, "drumbeat")
	if out, err := exec.Command("go", "build", "-o", s.bin, "../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if s.p != nil {
			_ = s.p.cmd.Process.Kill()
			<-s.p.done
		}
	})
	s.disks.mount(t, filepath.Join(s.tmp, "disks"), *soakFor >= longSoak)
	s.newCrawl(s.pages)
	s.other = filepath.Join(s.tmp, "other")
	s.run(term.ExitPages, append(slices.Clone(s.flags), "--dir="+s.other, "--max-pages=5", "--backup=")...)
	s.web.Log().Reset()
	return s
}

// newCrawl begins a crawl of a web of its own.
func (s *soak) newCrawl(pages int) {
	s.t.Helper()
	s.closeWeb()
	s.crawls++
	o := simweb.Defaults(*soakSeed + uint64(s.crawls))
	o.PLDs, o.Hosts, o.IPs, o.Pages, o.LogRequests = 40, 120, 40, pages, 1
	o.CrawlDelay, o.Robots.ServerError = 50*time.Millisecond, 0
	web, err := simweb.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	server, err := web.Start(s.t.Context(), simweb.ServerOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.web, s.server = web, server
	s.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.flags = []string{"crawl", "--contact=test@example.org", "--allow-net=127.0.0.0/8", "--host-delay=20ms,min=10ms",
		"--server-delay=20ms,min=10ms", "--network-rate=0", "--network-connections=50", "--host-delay-factor=0",
		"--linger=300ms", fmt.Sprintf("--ram=%dMiB", soakRAM), "--connections=64", "--crawl-log=all",
		"--skip-extensions=none", "--accept=*/*", "--backup=" + s.backups(), "--backup-every=1s",
		"--backup-keep=2", "--checkpoint-every=" + (s.unit / 2).String(),
		"--resolver=" + server.DNSAddrs()[0].String(), "--seeds=" + cmdtest.SeedFile(s.t, web),
		fmt.Sprintf("--map-port=80=%d", server.HTTPPort()), fmt.Sprintf("--map-port=8080=%d", server.HTTPPort()),
		fmt.Sprintf("--map-port=443=%d", server.HTTPSPort())}
	s.dirs = s.disks.directories(s.t, s.crawls)
}

func (s *soak) closeWeb() {
	if s.server != nil {
		if err := s.server.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// inject starts the crawl if none runs, lets it work for a moment, injects the fault, ends the process and
// audits the files.
func (s *soak) inject(f *fault) {
	if !s.can(f) {
		return
	}
	s.t.Logf("%v: %s", time.Now().Format("15:04:05"), f.name)
	s.injected[f.name]++
	s.start()
	s.working()
	s.let(s.unit, 3*s.unit)
	f.run(s)
	if s.p != nil { // still there
		s.let(0, s.unit)
		if s.rng.IntN(2) == 0 {
			s.signal(syscall.SIGKILL)
		} else {
			s.signal(syscall.SIGTERM)
		}
		s.ends(killed, term.ExitSignal)
	}
	s.audit()
}

// can reports whether this machine and this length of the soak allow a fault.
func (s *soak) can(f *fault) bool {
	switch {
	case f.mounts && !s.disks.mounted, f.name == "slow disk" && s.disks.throttle == "", f.long && *soakFor < longSoak:
		return false
	}
	return true
}

// let waits for a random time between least and most, or until the process ends.
func (s *soak) let(least, most time.Duration) {
	d := least + time.Duration(s.rng.Int64N(int64(most-least)+1))
	if s.p == nil {
		return
	}
	select {
	case <-s.p.done:
	case <-time.After(d):
	}
}

// working waits for the crawl's first request, and measures the time since its start.
func (s *soak) working() {
	s.t.Helper()
	before := s.p.requestsBefore
	if s.waitFor(time.Minute, func() bool { n, _, _ := s.web.Log().Totals(); return n > before }) {
		s.longest = max(s.longest, time.Since(s.p.began))
	}
}

// waitFor returns true when cond becomes true, false if the process ends first. It fails the test after
// limit.
func (s *soak) waitFor(limit time.Duration, cond func() bool) bool {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for !cond() {
		select {
		case <-s.p.done:
			return cond()
		case <-late:
			s.t.Errorf("nothing after %v; standard error ends:\n%s", limit, s.p.tail.brief())
			return false
		case <-tick.C:
		}
	}
	return true
}

// goesOn asserts that the process sends further requests, or ends because the crawl is done.
func (s *soak) goesOn(limit time.Duration) {
	s.t.Helper()
	before, _, _ := s.web.Log().Totals()
	if !s.waitFor(limit, func() bool { n, _, _ := s.web.Log().Totals(); return n > before }) && s.p != nil {
		s.ends(alive) // done
	}
}

// finish lets the current crawl end, and compares its output.
func (s *soak) finish() {
	s.t.Helper()
	if len(s.dirs) == 0 {
		return
	}
	s.start()
	select {
	case <-s.p.done:
	case <-time.After(15 * time.Minute):
		s.t.Fatalf("the crawl does not end; standard error ends:\n%s", s.p.tail.brief())
	}
	s.ends(alive)
	s.audit()
	if len(s.dirs) > 0 {
		s.t.Fatal("the crawl ended before it was done")
	}
}

// steady runs one process for d, injects only faults that do not end it, and asserts that it does not grow.
func (s *soak) steady(d time.Duration) {
	s.newCrawl(max(3000, int(d.Seconds()*600)))
	end := time.Now().Add(d)
	s.start()
	s.working()
	s.samples, s.goroutines = nil, nil
	for i := 0; time.Now().Before(end); i++ {
		f := &faults[i%len(faults)]
		if !f.steady || !s.can(f) {
			continue
		}
		s.let(3*s.unit, 8*s.unit)
		if s.p == nil || s.p.exited() {
			s.t.Log("the steady process has ended")
			break
		}
		s.injected[f.name+" (steady)"]++
		f.run(s)
		if s.p == nil {
			s.start()
			s.working()
		}
	}
	if s.p != nil {
		s.signal(syscall.SIGTERM)
		s.ends(alive, term.ExitSignal)
	}
	s.audit()
	s.flat()
}

// flat asserts that a long-lived process uses as many resources at its end as near its beginning.
func (s *soak) flat() {
	pick := func(f func(*sample) int) (list []int) {
		for i := range s.samples {
			list = append(list, f(&s.samples[i]))
		}
		return list
	}
	for _, c := range []struct {
		what   string
		values []int
		slack  int // allowed growth of the median from the first quarter to the last, in addition to 25 %
		most   int
	}{
		{"goroutines", s.goroutines, 20, 1000},
		{"descriptors", pick(func(sm *sample) int { return sm.descriptors }), 20, 400},
		{"threads", pick(func(sm *sample) int { return sm.threads }), 10, 200},
		{"MiB of RAM", pick(func(sm *sample) int { return int(sm.rss >> 20) }), 32, soakRAM * 11 / 10},
	} {
		n := len(c.values)
		if n < 4 {
			s.t.Logf("%s: only %d samples", c.what, n)
			continue
		}
		first, last, most := median(c.values[:n/4]), median(c.values[n-n/4:]), slices.Max(c.values)
		s.t.Logf("%s: %d samples, least %d, most %d; median of the first quarter %d, of the last %d", c.what, n,
			slices.Min(c.values), most, first, last)
		if n >= steadySamples && last > first+first/4+c.slack {
			s.t.Errorf("%s grew from %d to %d", c.what, first, last)
		}
		if most > c.most {
			s.t.Errorf("%d %s, want %d at most", most, c.what, c.most)
		}
	}
}

// steadySamples is the minimum number of samples to tell growth from warming up.
const steadySamples = 40

// soakRAM is the --ram of the soak's crawls in MiB.
const soakRAM = 192

func median(values []int) int {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// report prints the figures.
func (s *soak) report(took time.Duration) {
	var b strings.Builder
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.injected)) {
		fmt.Fprintf(&b, "  %4d  %s\n", s.injected[name], name)
		total += s.injected[name]
	}
	fmt.Fprintf(&b, "process ends:\n")
	for _, name := range slices.Sorted(maps.Keys(s.outcomes)) {
		fmt.Fprintf(&b, "  %4d  %s\n", s.outcomes[name], name)
	}
	s.t.Logf("soak of %v: %d faults, %d starts, %d crawls; compared %d URLs with %d records, %d fetches were "+
		"repeated; %d audits;\n"+
		"longest time from a start to the first request %v\n%s", took.Round(time.Second), total, s.starts, s.crawls,
		s.urls, s.records, s.repeated, s.audits, s.longest.Round(time.Millisecond), b.String())
}

// run runs the command to its end and returns its output.
func (s *soak) run(want int, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.bin, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	timer.Stop()
	if got := cmd.ProcessState.ExitCode(); got != want {
		text := out.String()
		s.t.Fatalf("%v:\n%v, exit code %d, want %d\n%s", args, err, got, want, text[max(0, len(text)-4000):])
	}
	return out.String()
}

// audit checks that no URL is lost; if the crawl is done it also compares its output.
func (s *soak) audit() {
	s.t.Helper()
	s.audits++
	out := s.run(term.ExitDone, append([]string{"audit"}, s.dirs...)...)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "refused ") && !strings.HasPrefix(line, "refused robots:") {
			s.t.Errorf("a failure was counted against a host: %s", line)
		}
	}
	if s.done {
		s.done = false
		s.compare()
		for _, dir := range s.dirs {
			if err := os.RemoveAll(dir); err != nil {
				s.t.Fatal(err)
			}
		}
		s.dirs = nil
	}
}
