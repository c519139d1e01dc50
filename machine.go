package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// machine is what defaults are computed from.
type machine struct {
	ramBytes    int64  // the smaller of physical and cgroup memory
	ramFrom     string // which of the two that is
	descriptors int64  // files and sockets that this process may have open
	files       int64  // of these, what the crawl's files take
}

func thisMachine() (machine, error) {
	var m machine
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("find out how much RAM there is: %w", err)
	}
	m.ramBytes, m.ramFrom = int64(info.Totalram)*int64(info.Unit), "physical memory"
	if limit, ok := cgroupMemory(os.DirFS("/")); ok && limit < m.ramBytes {
		m.ramBytes, m.ramFrom = limit, "the cgroup's memory limit"
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return m, fmt.Errorf("find out the limit of descriptors: %w", err)
	}
	m.descriptors = int64(min(files.Cur, math.MaxInt32)) // the runtime has raised it to the hard limit
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

// withFiles reserves the descriptors for the files of a crawl. A worker that merges has three files open in each directory: the old
// cache, the new one and a list. The four stores besides URLseen have one worker each, without lists. With direct I/O each of these
// files is open twice. Locks, tails and logs take six in a directory, output four; the rest is for what is open for a moment.
func (m machine) withFiles(dirs, outs, workers int, direct bool) machine {
	merging := 3*workers + 4*2
	if direct {
		merging *= 2
	}
	m.files = int64(64 + dirs*(merging+6) + 4*outs)
	return m
}

// forCrawl reserves what a crawl with these flags takes.
func (m machine) forCrawl(c *crawlCmd) machine {
	workers := int(c.DrumWorkers)
	if workers == 0 {
		workers = min(8, 1+runtime.GOMAXPROCS(0)) // as crawl has it
	}
	return m.withFiles(len(c.dirs()), len(c.outs()), workers, c.DirectIO)
}

// reserved are the descriptors that connections don't get.
func (m machine) reserved() int64 { return max(leastFiles, m.files) }

// connections is the default for --connections, and the most that the descriptors allow.
func (m machine) connections(wanted int64) (int64, string) {
	most := max(1, m.descriptors-m.reserved())
	if wanted <= most {
		return wanted, ""
	}
	return most, fmt.Sprintf("connections lowered from %d to %d: the limit of descriptors is %d, of which %d are kept for files (ulimit -n)",
		wanted, most, m.descriptors, m.reserved())
}

// mostIdleConnections bounds the connections that are kept for a next page: some 40 KiB each with TLS, here and there.
const mostIdleConnections = 1024

// idleConnections is how many connections may be kept besides those in use.
func (m machine) idleConnections(inUse int64) int {
	return int(max(1, min(mostIdleConnections, m.descriptors-m.reserved()-inUse)))
}

// diskBytes is 90 % of what is free on the file systems of the directories, and what the crawl holds there already.
func diskBytes(fsys disk.FS, dirs []string) (int64, error) {
	var sum int64
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		existing, err := existingParent(dir)
		if err != nil {
			return 0, err
		}
		var st unix.Stat_t
		if err := unix.Stat(existing, &st); err != nil {
			return 0, fmt.Errorf("look at %s: %w", existing, err)
		}
		sum += treeBytes(dir)
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

// existingParent is dir or the nearest directory above it that exists.
func existingParent(dir string) (string, error) {
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

// treeBytes is the length of all files below dir; what can't be read counts as nothing.
func treeBytes(dir string) (sum int64) {
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
