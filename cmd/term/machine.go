package term

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	if limit, ok := CgroupMemory(os.DirFS("/")); ok && limit < m.RAMBytes {
		m.RAMBytes, m.RAMFrom = limit, "the cgroup's memory limit"
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("read the limit of file descriptors: %w", err)
	}
	m.Descriptors = int64(min(files.Cur, math.MaxInt32)) // the Go runtime has raised it to the hard limit
	return m, nil
}

// CgroupMemory returns the lowest memory limit of the cgroups of this process; false if there is none.
func CgroupMemory(root fs.FS) (int64, bool) {
	least := int64(math.MaxInt64)
	for _, text := range slices.Concat(CgroupFiles(root, "", "memory.max"),
		CgroupFiles(root, "memory", "memory.limit_in_bytes")) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	return least, least < math.MaxInt64
}

// CgroupFiles returns the contents of a file in the cgroup of this process and in its parents, without
// those that lack it. The controller "" stands for cgroup version 2, others for version 1. root is "/". Inside
// a container the path may be valid only outside it; the root of the mount is then the container's own group.
func CgroupFiles(root fs.FS, controller, file string) (texts []string) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		mount := filepath.Join("sys/fs/cgroup", controller)
		dir := strings.Trim(filepath.Clean("/"+parts[2]), "/")
		for last := false; !last; dir = filepath.Dir(dir) {
			last = dir == "" || dir == "."
			if data, err := fs.ReadFile(root, filepath.Join(mount, dir, file)); err == nil {
				texts = append(texts, strings.TrimSpace(string(data)))
			}
		}
	}
	return texts
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
	return most, fmt.Sprintf("connections lowered from %d to %d: the limit of file descriptors is %d (ulimit -n), and "+
		"%d of them are reserved for files", wanted, most, m.Descriptors, m.Reserved())
}

// MostIdleConnections bounds the idle connections: with TLS each takes some 40 KiB on both sides.
const MostIdleConnections = 1024

// IdleConnections returns the number of idle connections to keep besides those in use.
func (m Machine) IdleConnections(inUse int64) int {
	return int(max(1, min(MostIdleConnections, m.Descriptors-m.Reserved()-inUse)))
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
