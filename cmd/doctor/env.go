package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/cmd/flags"
	"drumbeat/internal/bug"
)

// env is what the checks see: the machine, the needs, and what they may do. It does not change while they
// run.
type env struct {
	need *needs
	root fs.FS // "/"; the checks read proc and sys
	cpus int   // processors that the process may use

	statfs   func(path string, st *unix.Statfs_t) error
	stat     func(path string, st *unix.Stat_t) error
	adjtimex func(*unix.Timex) (state int, err error)
	// elapsed returns the time since the start by the wall clock and by the monotonic clock.
	elapsed func() (now time.Time, wall, mono time.Duration)
	speeds  func(ctx context.Context, dirs []string, bytes int64, limit time.Duration) []benchdisk.Speed

	family      string // --ip
	admin       flags.Admin
	skipNetwork bool
	servers     []netip.AddrPort
	noServers   error // why there are no servers
	names       []string
	queries     int
	diskTest    int64
	panicked    func(name string, value any, stack []byte)
	say         func(what string)
}

// thisMachine returns the env of this machine.
func thisMachine(need *needs) *env {
	start := time.Now()
	return &env{need: need, root: os.DirFS("/"), cpus: runtime.NumCPU(),
		statfs: unix.Statfs, stat: unix.Stat, adjtimex: unix.Adjtimex,
		elapsed: func() (now time.Time, wall, mono time.Duration) {
			now = time.Now()
			return now, now.Round(0).Sub(start.Round(0)), now.Sub(start)
		},
		speeds: benchdisk.Speeds, say: func(string) {}}
}

// text returns the content of a file of root without the spaces around it.
func (e *env) text(name string) (string, error) {
	data, err := fs.ReadFile(e.root, name)
	if err != nil {
		return "", fmt.Errorf("read /%s: %w", name, cause(err))
	}
	return strings.TrimSpace(string(data)), nil
}

// numbers returns the numbers in a file, at least least. A number beyond an int64 counts as the largest one.
func (e *env) numbers(name string, least int) ([]int64, error) {
	text, err := e.text(name)
	if err != nil {
		return nil, err
	}
	var list []int64
	for _, f := range strings.Fields(text) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil && n == 0 {
			return nil, fmt.Errorf("read /%s: %q is not a number", name, f)
		}
		list = append(list, n)
	}
	if len(list) < least {
		return nil, fmt.Errorf("read /%s: %d numbers, want %d", name, len(list), least)
	}
	return list, nil
}

// number returns the first number in a file.
func (e *env) number(name string) (int64, error) {
	list, err := e.numbers(name, 1)
	if err != nil {
		return 0, err
	}
	return list[0], nil
}

// cause returns the error below a *fs.PathError, whose path is relative to root.
func cause(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}

// check is a row of the table of checks.
type check struct {
	name  string
	limit time.Duration // deadline of the check
	run   func(ctx context.Context, e *env) []finding
}

// short is the deadline of checks that only read some files.
const short = 3 * time.Second

// checks returns the table of checks, in the order of the output.
func checks() []check {
	return []check{
		{"kernel", short, checkKernel},
		{"open files", short, checkOpenFiles},
		{"files of the system", short, checkSystemFiles},
		{"limits of the process", short, checkProcessLimits},
		{"CPU", short, checkCPU},
		{"RAM", short, checkRAM},
		{"swap", short, checkSwap},
		{"overcommit", short, checkOvercommit},
		{"ports", short, checkPorts},
		{"TIME_WAIT", short, checkTimeWait},
		{"conntrack", short, checkConntrack},
		{"IPv4", short, checkIPv4},
		{"IPv6", short, checkIPv6},
		{"admin port", short, checkAdmin},
		{"name servers", 10 * time.Second, checkNameServers},
		{"directories", short, checkDirectories},
		{"file systems", short, checkFileSystems},
		{"devices", short, checkDevices},
		{"disk space", short, checkSpace},
		{"disk speed", 7 * time.Second, checkSpeed},
		{"clock", short, checkClock}, // last, so it sees a step during the others
	}
}

// grace is what a check gets after its deadline to return what it has.
const grace = 500 * time.Millisecond

// run makes the checks one after the other. A check without a result by its deadline is unknown.
func run(ctx context.Context, e *env, list []check) (all []finding) {
	for _, c := range list {
		if ctx.Err() != nil {
			all = append(all, finding{Check: c.name, Now: "not checked: --deadline has passed", Status: unknown})
			continue
		}
		all = append(all, runOne(ctx, e, c)...)
	}
	return all
}

func runOne(ctx context.Context, e *env, c check) []finding {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	done := make(chan []finding, 1)
	go func() {
		defer bug.Fatal()
		done <- c.run(ctx, e)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case r := <-done:
		return r
	case <-late.C:
		return []finding{{Check: c.name, Now: "no result in time", Status: unknown}}
	}
}
