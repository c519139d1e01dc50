package render

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	// StartTime is how long a browser may take from its start to its first answer, on a busy machine.
	StartTime = time.Minute
	// measureEvery is the time between two measurements of the RAM of a browser. One that takes 1 GiB/s more passes
	// its limit by that much.
	measureEvery = time.Second
	// tailBytes bounds what an error repeats of the texts of a browser, logTexts the pieces of them in the log.
	tailBytes = 600
	logTexts  = 200
	// profilePrefix begins the name of a profile.
	profilePrefix = "drumbeat-browser-"
	// nobody is the user of a browser of root: Chromium has no sandbox as root, and without one it must not be root.
	nobody = "nobody"
)

// Launch says how to start a browser as a child, which ends with the process that starts it. The methods are safe for
// concurrent use, if TooLarge and Debug are.
type Launch struct {
	Program string // name or path of Chromium; "": the one that is installed
	Path    string // PATH of its environment
	// NoSandbox starts Chromium without its sandbox: a page that takes over a renderer then has the rights of its user.
	NoSandbox bool
	// Bytes is the limit of the RAM that the browser's processes have beside files, each its own and what it shares
	// with others. Above it the browser ends.
	Bytes int64
	// TooLarge, if set, is told of a browser that took more, and Debug gets the texts of browsers.
	TooLarge func(bytes int64)
	Debug    func(text string)

	// For tests.
	ram  func(group int) int64 // nil: groupRAM
	user string                // of the browser of root; "": nobody
}

// Child is a browser that Start has started.
type Child struct {
	*Browser
	profile string
	lock    *os.File
	group   int // process id of the browser, and of its process group

	mu     sync.Mutex // guards reaped
	reaped bool       // the id may be another process's
	ended  chan struct{}
}

// Start starts a browser, and connects to it by pipes. Its user is nobody if this process is root's; its environment
// has nothing of this process but PATH, and its profile is new. Close ends it; so does the end of this process, however
// it ends. An error has the last texts of the browser.
func (l *Launch) Start(ctx context.Context) (*Child, error) {
	name := l.Program
	if name == "" {
		var ok bool
		if name, ok = Installed(); !ok {
			return nil, fmt.Errorf("render: no Chromium found: PATH has none of %s; install one, as with "+
				"apt install chromium",
				strings.Join(programs[:], ", "))
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("render: start the browser: %w", err)
	}
	removeProfiles(os.TempDir(), time.Now())
	profile, err := os.MkdirTemp("", profilePrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("render: profile of the browser: %w", err)
	}
	lock, err := lockDir(profile)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("render: lock %s: %w", profile, err), os.RemoveAll(profile))
	}
	c, err := l.start(ctx, program, profile, lock)
	if err != nil {
		_ = lock.Close() // it is closed if there was a process
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	return c, nil
}

func (l *Launch) start(ctx context.Context, program, profile string, lock *os.File) (*Child, error) {
	cmd := exec.Command(program, arguments("--remote-debugging-pipe", profile)...)
	if l.NoSandbox {
		cmd.Args = append(cmd.Args, "--no-sandbox")
	}
	cmd.Dir = profile
	cmd.Env = []string{"PATH=" + l.Path, "HOME=" + profile, "TMPDIR=" + profile, "LANG=C.UTF-8"}
	// The group has the browser's helpers, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		name := cmp.Or(l.user, nobody)
		if err := give(profile, name, cmd.SysProcAttr); err != nil {
			return nil, fmt.Errorf("render: run the browser as %s: %w", name, err)
		}
	}
	var theirs [2]*os.File
	var ours pipes
	var err error
	if theirs[0], ours.out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if ours.r, theirs[1], err = os.Pipe(); err != nil {
		return nil, errors.Join(err, theirs[0].Close(), ours.out.Close())
	}
	ours.in = bufio.NewReaderSize(ours.r, 64<<10)
	cmd.ExtraFiles = theirs[:] // 3 and 4, as --remote-debugging-pipe has it
	texts := &lastTexts{debug: l.Debug}
	cmd.Stderr = texts
	cmd.WaitDelay = closeTime // for a helper that has left the group, and keeps standard error
	c := &Child{profile: profile, lock: lock, ended: make(chan struct{})}
	err = c.run(cmd)
	for _, f := range theirs {
		_ = f.Close() // the child has its own
	}
	if err != nil {
		ours.close()
		return nil, fmt.Errorf("render: start the browser: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, StartTime)
	defer cancel()
	c.Browser, err = attach(starting, &ours)
	if err == nil {
		if err = c.checkFlags(starting); err != nil {
			c.Browser.Close()
		}
	}
	if err != nil {
		c.kill()
		<-c.ended
		if errors.Is(err, ErrLost) {
			err = fmt.Errorf("it exits at once or does not answer over --remote-debugging-pipe%s: %w", texts, ErrLost)
		}
		return nil, fmt.Errorf("render: %s does not start: %w", program, err)
	}
	go l.watch(c)
	return c, nil
}

// give makes a user the owner of the profile, and of a process to be started.
func give(profile, name string, attr *syscall.SysProcAttr) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(profile, int(uid), int(gid))
}

// run starts the process. A goroutine waits for it. It keeps its thread: when that ended, the kernel would take it for
// the end of the parent, and kill the browser (prctl(2), PR_SET_PDEATHSIG).
func (c *Child) run(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // until the thread ends, with the goroutine
		err := cmd.Start()
		if err == nil {
			c.group = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		defer close(c.ended)
		var info unix.Siginfo
		for unix.Waitid(unix.P_PID, c.group, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		c.kill() // helpers that are left, while the id is still ours
		c.mu.Lock()
		c.reaped = true
		c.mu.Unlock()
		_ = cmd.Wait() // ended, whatever the code
		_ = os.RemoveAll(c.profile)
		_ = c.lock.Close()
	}()
	return <-started
}

// kill ends the browser and its helpers. Nothing of a profile is kept, so nothing is lost.
func (c *Child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.group, syscall.SIGKILL) // it may have ended
	}
}

// Close ends the connection and the browser, removes its profile, and returns when both are gone.
func (c *Child) Close() {
	c.Browser.Close()
	c.kill()
	<-c.ended
}

// watch ends a browser that takes more RAM than Launch.Bytes. It ends with the browser.
func (l *Launch) watch(c *Child) {
	measure := l.ram
	if measure == nil {
		measure = groupRAM
	}
	every := time.NewTicker(measureEvery)
	defer every.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-every.C:
		}
		if n := measure(c.group); l.Bytes > 0 && n > l.Bytes {
			if l.TooLarge != nil {
				l.TooLarge(n)
			}
			c.kill()
			return
		}
	}
}

// groupRAM returns the bytes of RAM that the processes of a group have beside files: their own, and shared memory.
func groupRAM(group int) (n int64) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue // it has ended
		}
		for line := range bytes.Lines(data) {
			name, value, _ := strings.Cut(string(line), ":")
			if name != "RssAnon" && name != "RssShmem" {
				continue
			}
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // else 0
			n += kib << 10
		}
	}
	return n
}

// removeProfiles removes profiles of crawlers that were killed, and so could not. A crawler locks those in use. New
// ones stay, since their crawlers may be about to lock them.
func removeProfiles(dir string, now time.Time) {
	names, _ := filepath.Glob(filepath.Join(dir, profilePrefix+"*")) // the pattern is good
	for _, name := range names {
		if info, err := os.Lstat(name); err != nil || !info.IsDir() || now.Sub(info.ModTime()) < StartTime {
			continue
		}
		if lock, err := lockDir(name); err == nil {
			_ = os.RemoveAll(name) // that of another user stays
			_ = lock.Close()
		}
	}
}

// lockDir locks a directory until the file is closed, or the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lastTexts keeps the last texts that a browser writes, and logs the first logTexts pieces of them.
type lastTexts struct {
	debug func(text string)

	mu     sync.Mutex // guards the fields below
	tail   []byte
	logged int
}

// Write implements io.Writer.
func (t *lastTexts) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.logged < logTexts && t.debug != nil {
		t.logged++
		t.debug(string(p[:min(len(p), tailBytes)]))
	}
	t.tail = append(t.tail, p[max(0, len(p)-tailBytes):]...)
	t.tail = append(t.tail[:0], t.tail[max(0, len(t.tail)-tailBytes):]...)
	return len(p), nil
}

// String returns the last texts as the end of a sentence.
func (t *lastTexts) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	isSpace := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	text := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(t.tail), ""), isSpace), " ")
	if text == "" {
		return ""
	}
	return "; its output: " + text
}
