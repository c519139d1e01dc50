package measure

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// childVar makes the test binary a child; its value says what kind of memory to use and how many MiB.
const childVar = "DRUMBEAT_LIMIT_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childVar); what != "" {
		if err := child(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(what string) error {
	if err := protocolChild(what); !errors.Is(err, errUnknownKind) {
		return err
	}
	var mib int
	var kind, name string
	if _, err := fmt.Sscan(what, &kind, &mib, &name); err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	if kind == "heap" {
		keep := make([][]byte, 0, mib)
		for range mib {
			keep = append(keep, append([]byte(nil), b...))
		}
		fmt.Println(len(keep))
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for range mib {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return f.Close()
}

func run(t *testing.T, what string, bytes int64) (Usage, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+what)
	u, err := Limited(cmd, bytes)
	var no *UnavailableError
	if errors.As(err, &no) {
		t.Skip(err)
	}
	return u, err
}

// left lists the existing groups of this process.
func left(t *testing.T) (names []string) {
	p, err := find(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	names, err = filepath.Glob(filepath.Join(p.dir, fmt.Sprintf("%s%d-*", prefix, os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPageCache: the page cache of a child's files counts, and the limit does the child no harm.
func TestPageCache(t *testing.T) {
	const limit = 48 << 20
	u, err := run(t, "file 200 "+filepath.Join(t.TempDir(), "f"), limit)
	if err != nil {
		t.Fatal(err)
	}
	if u.LimitBytes != limit || u.PeakBytes > limit || u.PeakBytes != 0 && u.PeakBytes < limit*9/10 || u.OOMKills != 0 {
		t.Errorf("got %+v, want a peak near %d", u, limit)
	}
	if names := left(t); len(names) > 0 {
		t.Errorf("groups are left: %q", names)
	}
}

// TestTooMuch: the kernel kills a child that needs more than the limit, and the error names the reason.
func TestTooMuch(t *testing.T) {
	u, err := run(t, "heap 150 -", 48<<20)
	if err == nil || u.OOMKills == 0 || !errors.Is(err, ErrMemory) {
		t.Errorf("got %+v, %v, want it to be killed", u, err)
	}
	if !u.SwapLimited {
		t.Log("swap isn't accounted for here")
	}
	if names := left(t); len(names) > 0 {
		t.Errorf("groups are left: %q", names)
	}
}

// TestChildFails: Limited returns the error of a child that fails by itself.
func TestChildFails(t *testing.T) {
	u, err := run(t, "what", 48<<20)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || u.OOMKills != 0 {
		t.Errorf("got %+v, %v, want exit code 1", u, err)
	}
	if _, err := Limited(exec.Command(os.Args[0]), 0); err == nil {
		t.Error("got no error for a limit of 0")
	}
}

func TestFind(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const v1 = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 25 0:27 / /sys/fs/cgroup/memory rw - " +
		"cgroup cgroup rw,memory\n"
	const v2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for _, c := range []struct {
		name   string
		root   fstest.MapFS
		want   place
		reason string
	}{
		{"v1", fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/a/b\n0::/\n"), "proc/self/mountinfo": file(v1),
			"sys/fs/cgroup/memory/a/b/tasks": file(""),
		}, place{dir: "/sys/fs/cgroup/memory/a/b", own: "/sys/fs/cgroup/memory/a/b"}, ""},
		{"v1 in a container", fstest.MapFS{
			"proc/self/cgroup": file("4:cpu,memory:/docker/x\n"), "proc/self/mountinfo": file(v1),
			"sys/fs/cgroup/memory/tasks": file(""),
		}, place{dir: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory"}, ""},
		{"v2 beside", fstest.MapFS{
			"proc/self/cgroup": file("0::/user/app\n"), "proc/self/mountinfo": file(v2),
			"sys/fs/cgroup/user/app/cgroup.subtree_control": file("\n"),
			"sys/fs/cgroup/user/app/memory.max":             file("max\n"),
			"sys/fs/cgroup/user/cgroup.subtree_control":     file("cpu memory pids\n"),
		}, place{dir: "/sys/fs/cgroup/user", own: "/sys/fs/cgroup/user/app", v2: true}, ""},
		{"v2 with a limit", fstest.MapFS{
			"proc/self/cgroup": file("0::/user/app\n"), "proc/self/mountinfo": file(v2),
			"sys/fs/cgroup/user/app/cgroup.subtree_control": file(""),
			"sys/fs/cgroup/user/app/memory.max":             file("1000000\n"),
			"sys/fs/cgroup/user/cgroup.subtree_control":     file("memory"),
		}, place{}, "has a limit"},
		{"v2 not delegated", fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file(v2),
			"sys/fs/cgroup/cgroup.subtree_control": file("cpu\n"),
		}, place{}, "delegates the memory controller"},
		{"nothing mounted", fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/\n"), "proc/self/mountinfo": file("x\n"),
		}, place{}, "mounted"},
		{"no group", fstest.MapFS{"proc/self/cgroup": file("4:cpu:/\n"), "proc/self/mountinfo": file(v1)}, place{},
			"not in a cgroup"},
	} {
		got, err := find(c.root)
		if got != c.want && c.reason == "" || (err == nil) != (c.reason == "") ||
			err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got %+v, %v, want %+v, %q", c.name, got, err, c.want, c.reason)
		}
	}
}
