package doctor

import (
	"context"
	"io/fs"
	"net/netip"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	benchdisk "drumbeat/bench/disk"
)

// commands are those that the tests here run.
type commands struct {
	Doctor Command `cmd:""`
}

// good are the files of a machine on which every check is ok.
var good = map[string]string{
	"proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
	"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max file size             unlimited            unlimited            bytes     \n" +
		"Max open files            65536                65536                files     \n" +
		"Max address space         unlimited            unlimited            bytes     \n",
	"proc/self/cgroup": "0::/a\n",
	"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:17 / /disk rw - " +
		"ext4 /dev/sdb1 rw\n",
	"proc/sys/fs/file-nr": "1024\t0\t9223372036854775807\n",
	"proc/loadavg":        "0.10 0.20 0.30 1/100 1234\n",
	"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   " +
		"12582912 kB\nSwapTotal: 1000 kB\nSwapFree: 1000 kB\nCommitLimit: 8388608 kB\nCommitted_AS: 1048576 kB\n",
	"proc/sys/vm/overcommit_memory":           "0\n",
	"proc/sys/net/ipv4/ip_local_port_range":   "32768\t60999\n",
	"proc/sys/net/ipv4/tcp_max_tw_buckets":    "262144\n",
	"proc/sys/net/ipv4/tcp_tw_reuse":          "2\n",
	"proc/sys/net/netfilter/nf_conntrack_max": "524288\n", "proc/sys/net/netfilter/nf_conntrack_count": "100\n",
	"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait": "120\n",
	"proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
	"proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80       lo\n" +
		"20010db8000000000000000000000001 02 40 00 80     eth0\n",
	"proc/net/ipv6_route": "00000000000000000000000000000000 00 00000000000000000000000000000000 00 " +
		"fe800000000000000000000000000001 00000400 00000003 00000000 00000003     eth0\n",
	"sys/devices/sda/sda1/partition": "1\n", "sys/devices/sda/sda2/partition": "2\n",
	"sys/devices/sdb/sdb1/partition": "1\n", "sys/block/sda/queue/rotational": "1\n",
	"sys/block/sdb/queue/rotational": "0\n",
}

// missing as the content of a file removes it.
const missing = "-"

// newMachine returns the env of a good machine with some files changed.
func newMachine(t *testing.T, change map[string]string) *env {
	t.Helper()
	root := fstest.MapFS{}
	for _, files := range []map[string]string{good, change} {
		for name, text := range files {
			if root[name] = (&fstest.MapFile{Data: []byte(text)}); text == missing {
				delete(root, name)
			}
		}
	}
	for dev, target := range map[string]string{"8:1": "sda/sda1", "8:2": "sda/sda2", "8:17": "sdb/sdb1"} {
		root["sys/dev/block/"+dev] = &fstest.MapFile{Data: []byte("../../devices/" + target), Mode: fs.ModeSymlink}
	}
	need := &needs{Pages: 1e6, Connections: 2000, Idle: 1024, Files: 256, RAMBytes: 4 << 30, StateBytes: 100e9,
		OutputBytes: 50e9, KeepFreeBytes: 1e9, Inodes: 10_000, LargestFile: 60e9, MostPages: 2e6, Rate: 1000,
		Requests: 1200, Lookups: 41, StateRate: 60e6, Dirs: []string{t.TempDir()}}
	return &env{need: need, root: root, cpus: 4,
		statfs: func(_ string, st *unix.Statfs_t) error {
			*st = unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bsize: 4096, Bavail: 1e12 / 4096, Files: 1e6, Ffree: 5e5}
			return nil
		},
		stat: func(path string, st *unix.Stat_t) error {
			*st = unix.Stat_t{Dev: unix.Mkdev(8, 1), Mode: unix.S_IFDIR}
			return nil
		},
		adjtimex: func(tx *unix.Timex) (int, error) {
			tx.Maxerror = 12_345
			return 0, nil
		},
		elapsed: func() (time.Time, time.Duration, time.Duration) {
			return builtAfter.AddDate(1, 0, 0), time.Second, time.Second
		},
		speeds: func(_ context.Context, dirs []string, _ int64, _ time.Duration) []benchdisk.Speed {
			list := make([]benchdisk.Speed, len(dirs))
			for i := range list {
				list[i] = benchdisk.Speed{Write: 200e6, Read: 250e6, Direct: true}
			}
			return list
		},
		family: "auto", queries: 100, diskTest: 1 << 20, say: func(string) {}, servers: []netip.AddrPort{},
		skipNetwork: true,
	}
}
