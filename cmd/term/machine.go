package term

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// Machine is what defaults are computed from.
type Machine struct {
	RAMBytes    int64  // the smaller of physical and cgroup memory
	RAMFrom     string // which of the two that is
	Descriptors int64  // files and sockets that this process may have open
	files       int64  // of these, what the crawl's files take
}

// ThisMachine asks the system.
func ThisMachine() (Machine, error) {
	var m Machine
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("find out how much RAM there is: %w", err)
	}
	m.RAMBytes, m.RAMFrom = int64(info.Totalram)*int64(info.Unit), "physical memory"
	if limit, ok := cgroupMemory(os.DirFS("/")); ok && limit < m.RAMBytes {
		m.RAMBytes, m.RAMFrom = limit, "the cgroup's memory limit"
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("find out the limit of descriptors: %w", err)
	}
	m.Descriptors = int64(min(files.Cur, math.MaxInt32)) // the runtime has raised it to the hard limit
	return m, nil
}

// cgroupMemory is the least memory limit of the cgroups that this process is in; false if there is none.
func cgroupMemory(root fs.FS) (int64, bool) {
	f, err := root.Open("proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	least := int64(math.MaxInt64)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		parts := strings.SplitN(sc.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			least = min(least, memoryLimit(root, "sys/fs/cgroup", parts[2], "memory.max"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			least = min(least, memoryLimit(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	return least, least < math.MaxInt64
}

// memoryLimit looks at a cgroup and all above it. Inside a container the path may be one that only the outside knows;
// the mount's root is then the container's own group.
func memoryLimit(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for dir := strings.Trim(filepath.Clean("/"+group), "/"); ; dir = filepath.Dir(dir) {
		if data, err := fs.ReadFile(root, filepath.Join(mount, dir, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
		if dir == "" || dir == "." {
			return least
		}
	}
}

// leastFiles are the descriptors that are kept for files at least.
const leastFiles = 256

// WithFiles reserves the descriptors for the files of a crawl. A worker that merges has three files open in each directory: the old
// cache, the new one and a list. The four stores besides URLseen have one worker each, without lists. With direct I/O each of these
// files is open twice. Locks, tails and logs take six in a directory, output four; the rest is for what is open for a moment.
func (m Machine) WithFiles(dirs, outs, workers int, direct bool) Machine {
	merging := 3*workers + 4*2
	if direct {
		merging *= 2
	}
	m.files = int64(64 + dirs*(merging+6) + 4*outs)
	return m
}

// Reserved are the descriptors that connections don't get.
func (m Machine) Reserved() int64 { return max(leastFiles, m.files) }

// Connections is the default for --connections, and the most that the descriptors allow.
func (m Machine) Connections(wanted int64) (int64, string) {
	most := max(1, m.Descriptors-m.Reserved())
	if wanted <= most {
		return wanted, ""
	}
	return most, fmt.Sprintf("connections lowered from %d to %d: the limit of descriptors is %d, of which %d are kept for files (ulimit -n)",
		wanted, most, m.Descriptors, m.Reserved())
}

// mostIdleConnections bounds the connections that are kept for a next page: some 40 KiB each with TLS, here and there.
const mostIdleConnections = 1024

// IdleConnections is how many connections may be kept besides those in use.
func (m Machine) IdleConnections(inUse int64) int {
	return int(max(1, min(mostIdleConnections, m.Descriptors-m.Reserved()-inUse)))
}

// DiskBytes is 90 % of what is free on the file systems of the directories, and what the crawl holds there already.
func DiskBytes(fsys disk.FS, dirs []string) (int64, error) {
	var sum int64
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		existing, err := ExistingParent(dir)
		if err != nil {
			return 0, err
		}
		var st unix.Stat_t
		if err := unix.Stat(existing, &st); err != nil {
			return 0, fmt.Errorf("look at %s: %w", existing, err)
		}
		sum += TreeBytes(dir)
		if seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		free, _, err := fsys.Space(existing)
		if err != nil {
			return 0, fmt.Errorf("find out the free space of %s: %w", existing, err)
		}
		sum += free / 10 * 9
	}
	return sum, nil
}

// ExistingParent is dir or the nearest directory above it that exists.
func ExistingParent(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(abs)
		if err == nil {
			return abs, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || abs == filepath.Dir(abs) {
			return "", fmt.Errorf("directory %s: %w", dir, err)
		}
		abs = filepath.Dir(abs)
	}
}

// TreeBytes is the length of all files below dir; what can't be read counts as nothing.
func TreeBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
