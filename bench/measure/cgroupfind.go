package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// place is where groups can be created.
type place struct {
	dir string // the parent of new groups
	own string // the group of this process
	v2  bool
}

// find locates the memory cgroup of this process. root is the file system.
func find(root fs.FS) (place, error) {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return place{}, err
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return place{}, err
	}
	if path, ok := ownPath(string(own), "memory"); ok {
		dir, err := locate(root, string(mounts), "memory", path)
		return place{dir: dir, own: dir}, err
	}
	path, ok := ownPath(string(own), "")
	if !ok {
		return place{}, errors.New("this process is not in a cgroup that limits memory")
	}
	dir, err := locate(root, string(mounts), "", path)
	if err != nil {
		return place{}, err
	}
	return delegated(root, dir)
}

// ownPath finds the line of a controller in /proc/self/cgroup; "" means v2.
func ownPath(text, controller string) (string, bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if controller == "" && parts[0] == "0" && parts[1] == "" ||
			controller != "" && strings.Contains(","+parts[1]+",", ","+controller+",") {
			return parts[2], true
		}
	}
	return "", false
}

// locate finds the directory of a group in the list of mounts. In a container the path may be valid only
// outside; then the root of the mount is the container's group.
func locate(root fs.FS, mounts, controller, path string) (string, error) {
	for sc := bufio.NewScanner(strings.NewReader(mounts)); sc.Scan(); {
		before, after, ok := strings.Cut(sc.Text(), " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(kind) < 3 {
			continue
		}
		match := kind[0] == "cgroup2" && controller == "" ||
			kind[0] == "cgroup" && controller != "" && strings.Contains(","+kind[2]+",", ","+controller+",")
		if !match {
			continue
		}
		top, mount := f[3], f[4]
		inside, below := strings.CutPrefix(path, strings.TrimSuffix(top, "/"))
		dir := filepath.Join(mount, inside)
		if _, err := fs.Stat(root, strings.TrimPrefix(dir, "/")); below && err == nil {
			return dir, nil
		}
		return mount, nil
	}
	return "", errors.New("no cgroup file system with the memory controller is mounted")
}

// delegated finds the nearest v2 group, from own upward, that delegates the memory controller. It stops at
// a group with a limit, which the child would escape.
func delegated(root fs.FS, own string) (place, error) {
	for dir := own; ; dir = filepath.Dir(dir) {
		at := strings.TrimPrefix(dir, "/")
		control, err := fs.ReadFile(root, filepath.Join(at, "cgroup.subtree_control"))
		if err != nil {
			return place{}, errors.New("neither " + own + " nor a parent delegates the memory controller")
		}
		if strings.Contains(" "+strings.TrimSpace(string(control))+" ", " memory ") {
			return place{dir: dir, own: own, v2: true}, nil
		}
		limit, err := fs.ReadFile(root, filepath.Join(at, "memory.max"))
		if err == nil && strings.TrimSpace(string(limit)) != "max" {
			return place{}, fmt.Errorf("%s has a limit and does not delegate the memory controller", dir)
		}
	}
}

// number distinguishes the groups of a process.
var number atomic.Int64

const prefix = "drumbeat-"

// newGroup creates a group with a limit in bytes.
func newGroup(bytes int64) (*group, error) {
	p, err := find(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	sweep(p.dir)
	g := &group{
		dir: filepath.Join(p.dir, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), number.Add(1))), home: p.own,
		v2: p.v2, limit: bytes,
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	if err := g.setLimits(); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// setLimits limits memory and swap.
func (g *group) setLimits() error {
	value := strconv.FormatInt(g.limit, 10)
	if !g.v2 {
		if err := put(g.dir, "memory.limit_in_bytes", value); err != nil {
			return err
		}
		g.swap = put(g.dir, "memory.memsw.limit_in_bytes", value) == nil || noSwap()
		return nil
	}
	if err := put(g.dir, "memory.max", value); err != nil {
		return err
	}
	g.swap = put(g.dir, "memory.swap.max", "0") == nil || noSwap()
	fd, err := unix.Open(g.dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", g.dir, err)
	}
	g.fd, g.gone = fd, func() { _ = unix.Close(fd) } // a directory
	return nil
}

// noSwap reports whether the machine has no swap.
func noSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) == nil && info.Totalswap == 0
}

// sweep removes the groups of processes that have ended. The kernel doesn't remove a group that has
// processes.
func sweep(dir string) {
	names, _ := os.ReadDir(dir) // best effort
	for _, n := range names {
		rest, ok := strings.CutPrefix(n.Name(), prefix)
		pid, _, _ := strings.Cut(rest, "-")
		id, err := strconv.Atoi(pid)
		if !ok || err != nil || !n.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(id))); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(filepath.Join(dir, n.Name()))
		}
	}
}
