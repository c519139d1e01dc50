package measure

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/internal/human"
)

// Usage is the memory use of a group that has ended, as the kernel reports it.
type Usage struct {
	// LimitBytes is the limit, PeakBytes the peak use with page cache; 0 if unknown.
	LimitBytes, PeakBytes int64
	// OOMKills is the number of processes that the kernel killed at the limit.
	OOMKills int64
	// SwapLimited is false if the child may have swapped: the machine has swap and the kernel doesn't
	// account for it.
	SwapLimited bool
}

// ErrMemory is wrapped by the error of a child that the kernel killed at the limit.
var ErrMemory = errors.New("the kernel killed the process for lack of memory")

// UnavailableError is the reason why no group can be created.
type UnavailableError struct{ Reason error }

// Error implements error.
func (e *UnavailableError) Error() string {
	return "cannot create a memory cgroup: " + e.Reason.Error()
}

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Reason }

// Limited starts cmd with a memory limit of bytes and waits for its end. It returns its memory use and the
// error of cmd.Wait. An *UnavailableError means that cmd was not started.
func Limited(cmd *exec.Cmd, bytes int64) (Usage, error) {
	if bytes <= 0 {
		return Usage{}, fmt.Errorf("measure: a limit of %d bytes, want more than 0", bytes)
	}
	g, err := newGroup(bytes)
	if err != nil {
		return Usage{}, &UnavailableError{err}
	}
	defer g.release()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := g.start(cmd)
		if err == nil {
			err = cmd.Wait()
		}
		if home {
			runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
		}
		done <- err
	}()
	err = <-done
	u := g.usage()
	if err != nil && u.OOMKills > 0 {
		err = fmt.Errorf("measure: %w (limit: %s): %w", ErrMemory, human.Bytes(bytes), err)
	}
	return u, errors.Join(err, g.remove())
}

// group is a cgroup created by this package.
type group struct {
	dir   string
	v2    bool
	home  string // with v1: the group of this process
	limit int64
	swap  bool   // Usage.SwapLimited
	fd    int    // with v2: the descriptor of dir
	gone  func() // closes fd
}

// start starts cmd in the group. home is false if the current thread couldn't return to its own group.
func (g *group) start(cmd *exec.Cmd) (home bool, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if g.v2 {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, g.fd
		if err := cmd.Start(); err != nil {
			return true, &UnavailableError{fmt.Errorf("start %s in %s: %w", cmd.Path, g.dir, err)}
		}
		return true, nil
	}
	// In v1 threads have groups of their own, and a child starts in the group of the forking thread.
	tid := strconv.Itoa(unix.Gettid())
	if err := put(g.dir, "tasks", tid); err != nil {
		return true, &UnavailableError{err}
	}
	startErr := cmd.Start()
	if err := put(g.home, "tasks", tid); err != nil {
		return false, errors.Join(startErr, fmt.Errorf("measure: leave %s: %w", g.dir, err))
	}
	return true, startErr
}

// put writes a value into a file of a group.
func put(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}

// read returns the number in a file of a group; 0 if there is none.
func read(dir, file string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// field returns the number after a name in a file of "name number" lines.
func field(dir, file, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, _ := strconv.ParseInt(value, 10, 64) // 0 if it isn't a number
			return n
		}
	}
	return 0
}

func (g *group) usage() Usage {
	u := Usage{LimitBytes: g.limit, SwapLimited: g.swap}
	if g.v2 {
		u.PeakBytes, u.OOMKills = read(g.dir, "memory.peak"), field(g.dir, "memory.events", "oom_kill")
	} else {
		u.PeakBytes, u.OOMKills = read(g.dir, "memory.max_usage_in_bytes"),
			field(g.dir, "memory.oom_control", "oom_kill")
	}
	return u
}

func (g *group) release() {
	if g.gone != nil {
		g.gone()
	}
}

const (
	// remove tries removeTries times, removePause apart, as the kernel needs a moment after the last process.
	removeTries = 200
	removePause = 10 * time.Millisecond
)

// remove kills all remaining processes of the group and removes it.
func (g *group) remove() error {
	var err error
	for range removeTries {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		procs, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs")) // ignore a missing group
		for _, p := range strings.Fields(string(procs)) {
			if pid, convErr := strconv.Atoi(p); convErr == nil && pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // ignore a process that has ended
			}
		}
		time.Sleep(removePause)
	}
	return fmt.Errorf("measure: remove group: %w", err)
}
