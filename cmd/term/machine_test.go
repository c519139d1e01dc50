package term

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCgroupMemory: the lowest limit of a group and its parents, for both cgroup versions.
func TestCgroupMemory(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	check := func(want int64, ok bool) {
		t.Helper()
		if got, is := CgroupMemory(os.DirFS(root)); is != ok || ok && got != want {
			t.Errorf("got %d, %t, want %d, %t", got, is, want, ok)
		}
	}
	check(0, false)
	write("proc/self/cgroup", "0::/a/b\n")
	check(0, false)
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	check(0, false)
	write("sys/fs/cgroup/a/memory.max", "1000\n")
	check(1000, true)
	write("sys/fs/cgroup/a/b/memory.max", "500\n")
	check(500, true)
	write("proc/self/cgroup", "4:cpu,memory:/x\n3:pids:/y\n")
	write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n")
	check(700, true)
}

// TestDescriptorsForFiles: many directories and workers leave fewer descriptors for connections.
func TestDescriptorsForFiles(t *testing.T) {
	m := Machine{Descriptors: 1024}
	for _, v := range []struct {
		dirs, outs, workers int
		direct              bool
		want                int64
	}{{1, 0, 3, false, 1024 - leastFiles}, {12, 12, 8, false, 1024 - 568}, {12, 12, 8, true, 1024 - 952},
		{24, 0, 16, true, 1}} {
		if n, why := m.WithFiles(v.dirs, v.outs, v.workers, v.direct).Connections(10_000); n != v.want || why == "" {
			t.Errorf("%+v: got %d connections, %q", v, n, why)
		}
	}
}
