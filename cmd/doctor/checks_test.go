package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	benchdisk "drumbeat/bench/disk"
)

// bad is a case of a check.
type bad struct {
	name   string
	check  func(context.Context, *env) []finding
	files  map[string]string
	change func(*env)
	want   status
	now    string // part of what the worst result says
	fix    string // part of how to fix it
}

// worst returns the result with the worst status.
func worst(list []finding) (w finding) {
	for _, r := range list {
		if w.Check == "" || r.Status > w.Status {
			w = r
		}
	}
	return w
}

func try(t *testing.T, cases []bad) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newMachine(t, c.files)
			if c.change != nil {
				c.change(e)
			}
			r := worst(c.check(t.Context(), e))
			if r.Status != c.want || !strings.Contains(r.Now, c.now) ||
				!strings.Contains(strings.Join(r.Fix, "\n"), c.fix) {
				t.Errorf("got %s: %q, fix %q", marks[r.Status].text, r.Now, r.Fix)
			}
			if (r.Status >= warn) != (len(r.Fix) > 0) {
				t.Errorf("%s has the fix %q", marks[r.Status].text, r.Fix)
			}
		})
	}
}

// TestGoodMachine: on a good machine every check is ok, except those of name servers, which are skipped.
func TestGoodMachine(t *testing.T) {
	e := newMachine(t, nil)
	for _, r := range run(t.Context(), e, checks()) {
		if want := r.Check == "name server"; (r.Status == unknown) != want || r.Status > unknown {
			t.Errorf("got %+v", r)
		}
	}
}

// TestNothingThere: without /proc and /sys each check that reads them is unknown, or its absence is ok.
func TestNothingThere(t *testing.T) {
	e := newMachine(t, nil)
	e.root = os.DirFS(t.TempDir())
	got := map[status]int{}
	for _, r := range run(t.Context(), e, checks()) {
		got[r.Status]++
		if r.Status == unknown && r.Check != "name server" && !strings.Contains(r.Now, "read /proc/") {
			t.Errorf("got %+v", r)
		}
	}
	if got[warn]+got[fail] > 0 || got[unknown] < 10 {
		t.Errorf("got %v", got)
	}
}

// TestGarbage: files with unexpected content make no check panic.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"", "\n", "x", "-1", "99999999999999999999", "1 2", "a b c d e f g h i j k",
		":", "0::/\n"} {
		change := map[string]string{}
		for name := range good {
			change[name] = text
		}
		for _, r := range run(t.Context(), newMachine(t, change), checks()) {
			if r.Now == "" {
				t.Errorf("%q: got %+v", text, r)
			}
		}
	}
}

func limits(file, open, space string) map[string]string {
	return map[string]string{"proc/self/limits": "Max file size  " + file + "  " + file +
		"  bytes\nMax open files  " + open + "\nMax address space  " + space + " unlimited bytes\n"}
}

// TestProcess: kernel, limits, RAM, CPU and clock.
func TestProcess(t *testing.T) {
	one := func(name, text string) map[string]string { return map[string]string{name: text} }
	const cgroup = "proc/self/cgroup"
	clock := func(state int, status int32, err error) func(*env) {
		return func(e *env) {
			e.adjtimex = func(tx *unix.Timex) (int, error) {
				tx.Status = status
				return state, err
			}
		}
	}
	try(t, []bad{
		{"old kernel", checkKernel, one("proc/sys/kernel/osrelease", "5.4.0-1"), nil, warn, "5.4.0", "upgrade"},
		{"new kernel", checkKernel, one("proc/sys/kernel/osrelease", "5.8.0"), nil, ok, "5.8.0", ""},
		{"few files", checkOpenFiles, limits("unlimited", "1024 4096 files", "unlimited"), nil, fail,
			"soft 1,024, hard 4,096", "LimitNOFILE=4096"},
		{"no idle", checkOpenFiles, limits("unlimited", "2500 2500 files", "unlimited"), nil, warn, "2,500",
			"ulimit -n 4096"},
		{"unlimited files", checkOpenFiles, limits("unlimited", "unlimited unlimited files", "unlimited"), nil, ok,
			"unlimited", ""},
		{"bad limit", checkOpenFiles, limits("unlimited", "x y files", "unlimited"), nil, unknown, "not a number", ""},
		{"system files", checkSystemFiles, one("proc/sys/fs/file-nr", "9000 0 10000"), nil, fail, "10,000, 9,000 open",
			"sysctl -w fs.file-max=16384"},
		{"small file size", checkProcessLimits, limits("1000000", "1 1 files", "unlimited"), nil, fail,
			"file size 977 KiB", "ulimit -f"},
		{"large file size", checkProcessLimits, limits("100000000000", "1 1 files", "unlimited"), nil, warn,
			"file size", "ulimit -f"},
		{"address space", checkProcessLimits, limits("unlimited", "1 1 files", "1000000000"), nil, fail,
			"address space", "ulimit -v"},
		{"quota", checkCPU, one("sys/fs/cgroup/a/cpu.max", "50000 100000"), nil, warn, "cgroup allows 0.5",
			"--max-rate 500"},
		{"quota of a parent", checkCPU, one("sys/fs/cgroup/cpu.max", "50000 100000"), nil, warn, "cgroup allows 0.5",
			"CPUQuota=100%"},
		{"no quota", checkCPU, one("sys/fs/cgroup/a/cpu.max", "max 100000"), nil, ok, "4 cores, load", ""},
		{"quota v1", checkCPU,
			map[string]string{cgroup: "3:cpu,cpuacct:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "20000",
				"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, nil, warn, "cgroup allows 0.2", "--max-rate 200"},
		{"few cores", checkCPU, nil, func(e *env) { e.need.Rate = 8000 }, warn, "4 cores", "--max-rate 4000"},
		{"busy", checkCPU, one("proc/loadavg", "3.50 0 0 1/1 1"), nil, warn, "load 3.50", "other programs"},
		{"too much RAM", checkRAM, nil, func(e *env) { e.need.RAMBytes = 20 << 30 }, fail, "16 GiB", "--ram 8GiB"},
		{"most RAM", checkRAM, one("proc/meminfo", "MemTotal: 4300000 kB\nMemAvailable: 4250000 kB\n"), nil, warn,
			"4.1 GiB", "--ram"},
		{"RAM in use", checkRAM, one("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 2097152 kB\n"), nil, warn,
			"2.0 GiB available", "stop programs"},
		{"cgroup RAM", checkRAM, one("sys/fs/cgroup/a/memory.max", "1073741824"), nil, fail,
			"cgroup allows 1.0 GiB", "MemoryMax="},
		{"cgroup RAM v1", checkRAM, map[string]string{cgroup: "3:memory:/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824"}, nil,
			fail, "cgroup allows 1.0 GiB", "MemoryMax="},
		{"no meminfo line", checkRAM, one("proc/meminfo", "MemTotal: 1 kB"), nil, unknown,
			`no line "MemAvailable"`, ""},
		{"no swap", checkSwap, one("proc/meminfo", "SwapTotal: 0 kB\nSwapFree: 0 kB\n"), nil, ok, "none", ""},
		{"swapping", checkSwap, one("proc/meminfo", "SwapTotal: 1000 kB\nSwapFree: 100 kB\n"), nil, warn,
			"900 KiB in use", "swappiness"},
		{"commit limit", checkOvercommit, one("proc/sys/vm/overcommit_memory", "2"), nil, warn, "7.0 GiB left",
			"overcommit_memory=0"},
		{"commit limit too low", checkOvercommit, one("proc/sys/vm/overcommit_memory", "2"),
			func(e *env) { e.need.RAMBytes = 8 << 30 }, fail, "7.0 GiB left", "overcommit_memory=0"},
		{"clock", checkClock, nil, nil, ok, "error up to 12.3 ms", ""},
		{"no synchronization", checkClock, nil, clock(unix.TIME_ERROR, unix.STA_UNSYNC, nil), warn,
			"not synchronized", "set-ntp"},
		{"no permission", checkClock, nil, clock(0, 0, unix.EPERM), unknown, "adjtimex: operation not permitted", ""},
		{"step", checkClock, nil, func(e *env) {
			e.elapsed = func() (time.Time, time.Duration, time.Duration) { return builtAfter, 0, 3 * time.Second }
		}, warn, "stepped by -3 s", "set-ntp"},
		{"1970", checkClock, nil, func(e *env) {
			e.elapsed = func() (time.Time, time.Duration, time.Duration) { return time.Unix(0, 0), 0, 0 }
		}, fail, "it is 1970-01-01", "date -s"},
	})
}

// TestNetwork: ports, tables of the kernel, routes.
func TestNetwork(t *testing.T) {
	one := func(name, text string) map[string]string { return map[string]string{name: text} }
	const conntrack = "proc/sys/net/netfilter/nf_conntrack_max"
	family := func(f string) func(*env) { return func(e *env) { e.family = f } }
	const routes, addresses = "proc/net/ipv6_route", "proc/net/if_inet6"
	reject := strings.Replace(good[routes], "00000003     eth0", "00000203     eth0", 1)
	try(t, []bad{
		{"few ports", checkPorts, one("proc/sys/net/ipv4/ip_local_port_range", "60000 60999"), nil, warn,
			"1,000: 60000", "ip_local_port_range"},
		{"half a range", checkPorts, one("proc/sys/net/ipv4/ip_local_port_range", "60000"), nil, unknown,
			"1 numbers", ""},
		{"few TIME_WAIT", checkTimeWait, one("proc/sys/net/ipv4/tcp_max_tw_buckets", "65536"), nil, warn,
			"65,536 sockets", "tcp_max_tw_buckets=131072"},
		{"no conntrack", checkConntrack, one(conntrack, missing), nil, ok, "not loaded", ""},
		{"small conntrack", checkConntrack, one(conntrack, "65536"), nil, warn, "65,536", "nf_conntrack_max=262144"},
		{"tiny conntrack", checkConntrack, one(conntrack, "2048"), nil, fail, "2,048", "nf_conntrack_max=262144"},
		{"no count", checkConntrack, one("proc/sys/net/netfilter/nf_conntrack_count", missing), nil, unknown,
			"nf_conntrack_count", ""},
		{"no IPv4 route", checkIPv4, one("proc/net/route", "Iface\n"), nil, warn, "no default route", "ip route add"},
		{"IPv6 alone", checkIPv4, one("proc/net/route", "Iface\n"), family("6"), ok, "not used", ""},
		{"IPv4 alone", checkIPv6, one(routes, missing), family("4"), ok, "not used", ""},
		{"IPv6", checkIPv6, nil, family("both"), ok, "2001:db8::1, default route by eth0", ""},
		{"no IPv6, auto", checkIPv6, map[string]string{routes: missing, addresses: missing}, nil, ok, "IPv4 only", ""},
		{"no IPv6, both", checkIPv6, one(routes, reject), family("both"), fail, "no default route", "--ip auto"},
		{"private IPv6", checkIPv6, one(addresses, "fd000000000000000000000000000002 04 40 00 82     eth0\n"), nil,
			warn, "no public address", "--ip 4"},
		{"tentative IPv6", checkIPv6, one(addresses, "20010db8000000000000000000000001 02 40 00 40     eth0\n"), nil,
			warn, "no public address", "--ip 4"},
	})
}

// statfs sets the file system of all directories.
func statfs(st unix.Statfs_t) func(*env) {
	return func(e *env) {
		e.statfs = func(_ string, to *unix.Statfs_t) error {
			*to = st
			return nil
		}
	}
}

// second adds a directory on another device, or an output directory.
func second(major, minor uint32, out bool) func(*env) {
	return func(e *env) {
		dir := e.need.Dirs[0] + "/second"
		if err := os.Mkdir(dir, 0o700); err != nil {
			panic(err)
		}
		if e.need.Outs = nil; out {
			e.need.Outs, e.need.OutputRate = []string{dir}, 6e6
		} else {
			e.need.Dirs = append(e.need.Dirs, dir)
		}
		first := e.stat
		e.stat = func(path string, st *unix.Stat_t) error {
			err := first(path, st)
			if filepath.Base(path) == "second" {
				st.Dev = unix.Mkdev(major, minor)
			}
			return err
		}
	}
}

// TestDisks: file systems, devices, space and speed.
func TestDisks(t *testing.T) {
	typ := func(magic uint32, flags int64) func(*env) {
		return statfs(unix.Statfs_t{Type: int64(magic), Flags: flags})
	}
	free := func(bytes, files uint64) func(*env) {
		return statfs(unix.Statfs_t{Type: unix.XFS_SUPER_MAGIC, Bsize: 1000, Bavail: bytes / 1000,
			Files: files, Ffree: files})
	}
	try(t, []bad{
		{"writable", checkDirectories, nil, nil, ok, "writable", ""},
		{"new", checkDirectories, nil, func(e *env) { e.need.Dirs[0] += "/a/b" }, ok, "can be created", ""},
		{"a file", checkDirectories, nil, func(e *env) {
			e.need.Dirs[0] += "/f"
			if err := os.WriteFile(e.need.Dirs[0], nil, 0o600); err != nil {
				panic(err)
			}
		}, fail, "is not a directory", "another --dir"},
		{"below a file", checkSpace, nil, func(e *env) { e.need.Dirs[0] = "/dev/null/x" }, ok, "", ""},
		{"not creatable", checkDirectories, nil, func(e *env) { e.need.Dirs[0] = "/proc/none" }, fail, "",
			"another --dir"},
		{"ext4", checkFileSystems, nil, nil, ok, "ext4 on sda (rotational)", ""},
		{"other disk", checkFileSystems, nil, func(e *env) {
			e.stat = func(_ string, st *unix.Stat_t) error {
				*st = unix.Stat_t{Dev: unix.Mkdev(8, 17), Mode: unix.S_IFDIR}
				return nil
			}
		}, ok, "ext4 on sdb", ""},
		{"nfs", checkFileSystems, nil, typ(unix.NFS_SUPER_MAGIC, 0), warn,
			"nfs on sda (rotational), on the network", "local ext4"},
		{"smb", checkFileSystems, nil, typ(unix.CIFS_SUPER_MAGIC, 0), warn, "smb", "local ext4"},
		{"tmpfs", checkFileSystems, nil, typ(unix.TMPFS_MAGIC, 0), warn, "in RAM", "local ext4"},
		{"overlay", checkFileSystems, nil, typ(unix.OVERLAYFS_SUPER_MAGIC, 0), warn, "container", "local ext4"},
		{"unknown type", checkFileSystems, nil, typ(0x1234, 0), ok, "type 0x1234", ""},
		{"read-only", checkFileSystems, nil, typ(unix.EXT4_SUPER_MAGIC, unix.ST_RDONLY), fail, "read-only",
			"mount -o remount,rw /"},
		{"sync", checkFileSystems, nil, typ(unix.EXT4_SUPER_MAGIC, unix.ST_SYNCHRONOUS), warn, "mounted with sync",
			"remount,async"},
		{"stat fails", checkFileSystems, nil, func(e *env) {
			e.statfs = func(string, *unix.Statfs_t) error { return unix.EIO }
		}, unknown, "input/output error", ""},
		{"two disks", checkDevices, nil, second(8, 17, false), ok, "2 directories on 2 disks", ""},
		{"two partitions", checkDevices, nil, second(8, 2, false), warn, "on sda", "one --dir for each disk"},
		{"no name of a disk", checkDevices, nil, second(0, 40, false), ok, "2 disks", ""},
		{"full", checkSpace, nil, free(500e6, 1e6), fail, "477 MiB free", "free 477 MiB"},
		{"too small", checkSpace, nil, free(100e9, 1e6), fail, "93 GiB free", "at most 2,000,000 pages"},
		{"state fits without output", checkSpace, nil, func(e *env) {
			second(8, 17, true)(e)
			free(120e9, 1e6)(e)
		}, ok, "112 GiB free", ""},
		{"few inodes", checkSpace, nil, free(1e12, 2000), fail, "2,000 free", "mkfs.ext4 -N"},
		{"no inodes", checkSpace, nil, free(1e12, 0), ok, "", ""},
		{"--disk", checkSpace, nil, func(e *env) { e.need.Disk = 1e9 }, fail, "954 MiB", "a larger --disk"},
		{"slow", checkSpeed, nil, func(e *env) {
			e.speeds = func(context.Context, []string, int64, time.Duration) []benchdisk.Speed {
				return []benchdisk.Speed{{Write: 20e6, Read: 40e6}}
			}
		}, warn, "writes 19 MiB/s, reads 38 MiB/s (page cache)", "allows 500 pages/s"},
		{"speed fails", checkSpeed, nil, func(e *env) {
			e.speeds = func(context.Context, []string, int64, time.Duration) []benchdisk.Speed {
				return []benchdisk.Speed{{Err: errors.New("no")}}
			}
		}, unknown, "no", ""},
		{"no speed", checkSpeed, nil, func(e *env) { e.diskTest = 0 }, unknown, "--disk-test 0", ""},
	})
}

// TestMountPoint: the longest mount point above a path.
func TestMountPoint(t *testing.T) {
	e := newMachine(t, nil)
	for path, want := range map[string]string{"/disk/a": "/disk", "/disk": "/disk", "/disks/a": "/", "/": "/"} {
		if got := e.mountPoint(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
