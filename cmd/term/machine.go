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

// Machine holds the properties of the machine that defaults depend on.
type Machine struct {
	RAMBytes    int64  // the smaller of physical and cgroup memory
	RAMFrom     string // the source of RAMBytes, for messages
	Descriptors int64  // limit of open files and sockets of this process
	files       int64  // descriptors that the crawl's files need
}

// ThisMachine returns the properties of this machine.
func ThisMachine() (Machine, error) {
	var m Machine
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("read the size of RAM: %w", err)
	}
	m.RAMBytes, m.RAMFrom = int64(info.Totalram)*int64(info.Unit), "physical memory"
	if limit, ok := cgroupMemory(os.DirFS("/")); ok && limit < m.RAMBytes {
		m.RAMBytes, m.RAMFrom = limit, "the cgroup's memory limit"
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("read the limit of file descriptors: %w", err)
	}
	m.Descriptors = int64(min(files.Cur, math.MaxInt32)) // the Go runtime has raised it to the hard limit
	return m, nil
}

// cgroupMemory returns the lowest memory limit of the cgroups of this process; false if there is none.
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

// memoryLimit returns the lowest limit of a cgroup and its parents. Inside a container the path may be valid
// only outside it; the root of the mount is then the container's own group.
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

// leastFiles is the minimum number of descriptors reserved for files.
const leastFiles = 256

// WithFiles reserves descriptors for the files of a crawl. A merge worker has three open files in each
// directory: the old cache, the new one and a list. The four stores besides URLseen have one worker each,
// without lists. Direct I/O opens each of these files twice. Locks, tails and logs take six per directory,
// output four; 64 more are for short-lived files.
func (m Machine) WithFiles(dirs, outs, workers int, direct bool) Machine {
	merging := 3*workers + 4*2
	if direct {
		merging *= 2
	}
	m.files = int64(64 + dirs*(merging+6) + 4*outs)
	return m
}

// Reserved returns the number of descriptors that are not available to connections.
func (m Machine) Reserved() int64 { return max(leastFiles, m.files) }

// Connections returns wanted, or the largest number that the descriptors allow and a message about it.
func (m Machine) Connections(wanted int64) (int64, string) {
	most := max(1, m.Descriptors-m.Reserved())
	if wanted <= most {
		return wanted, ""
	}
	return most, fmt.Sprintf("connections lowered from %d to %d: the limit of file descriptors is %d (ulimit -n), of which %d are reserved for files",
		wanted, most, m.Descriptors, m.Reserved())
}

// mostIdleConnections bounds the idle connections: with TLS each takes some 40 KiB on both sides.
const mostIdleConnections = 1024

// IdleConnections returns the number of idle connections to keep besides those in use.
func (m Machine) IdleConnections(inUse int64) int {
	return int(max(1, min(mostIdleConnections, m.Descriptors-m.Reserved()-inUse)))
}

// DiskBytes returns 90 % of the free space on the file systems of the directories, plus what the crawl
// already uses there.
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
			return 0, fmt.Errorf("stat %s: %w", existing, err)
		}
		sum += TreeBytes(dir)
		if seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		free, _, err := fsys.Space(existing)
		if err != nil {
			return 0, fmt.Errorf("read the free space of %s: %w", existing, err)
		}
		sum += free / 10 * 9
	}
	return sum, nil
}

// ExistingParent returns dir, or its nearest parent that exists, as an absolute path.
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

// TreeBytes returns the total size of all files below dir, without those that cannot be read.
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
