package testworld

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/warc"
)

// PartOf returns the state of one structure in a manifest.
func PartOf[S any](t testing.TB, m *state.Manifest, name string) *S {
	t.Helper()
	s, err := state.Part[S](m, name)
	must(t, err)
	return s
}

// ExportedRows returns the rows in the parts of a table of JSON lines, and fails if a file is not whole.
func ExportedRows(t *testing.T, fs disk.FS, dir string) (rows []map[string]any) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if !strings.HasPrefix(name, "part-") {
			continue
		}
		data, err := disk.ReadFile(fs, dir+"/"+name)
		must(t, err)
		if !strings.HasSuffix(string(data), "}\n") {
			t.Errorf("%s ends with %.40q", name, data[max(0, len(data)-40):])
		}
		for line := range strings.Lines(string(data)) {
			var row map[string]any
			must(t, json.Unmarshal([]byte(line), &row))
			rows = append(rows, row)
		}
	}
	return rows
}

// Deep runs a Deep audit of a crawl in memory.
func Deep(t *testing.T, fs disk.FS, dirs []string) *audit.DeepReport {
	t.Helper()
	rep, err := audit.Deep(audit.Options{FS: fs, Dirs: dirs, RAMBytes: 1 << 20})
	must(t, err)
	if names, err := fs.List(dirs[0]); err != nil || strings.Contains(strings.Join(names, " "), "audit-tmp") {
		t.Errorf("the audit left its temporary files: %q, %v", names, err)
	}
	return rep
}

// EachRecord calls f with each record of the WARC files with a final name. r is valid during the call.
func EachRecord(t testing.TB, fs disk.FS, dirs []string, f func(r *warc.Record)) {
	t.Helper()
	files, err := warc.Files(disk.Set{FS: fs, Paths: dirs})
	must(t, err)
	for _, name := range files {
		must(t, warc.ReadFile(fs, name, 1<<30, func(r *warc.Record) error { f(r); return nil }))
	}
}

// StateFiles lists the files below state, in all directories, that want selects for damage.
func StateFiles(t testing.TB, fs disk.FS, dirs []string, want func(path string) bool) []string {
	t.Helper()
	var all []string
	for _, dir := range dirs {
		files, err := repair.FilesIn(fs, dir+"/state", true)
		must(t, err)
		for _, f := range files {
			if size, err := fs.Size(f); err == nil && size > 0 && want(f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// Spoil overwrites n random bytes of a file with wrong ones.
func Spoil(t testing.TB, rng *rand.Rand, fs disk.FS, name string, n int) {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	off := rng.Int64N(size)
	b := make([]byte, min(int64(n), size-off))
	must(t, disk.ReadFull(f, b, off))
	for i := range b {
		b[i] ^= byte(1 + rng.IntN(255))
	}
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// Repair repairs the crawl in dirs, by options that change may change.
func Repair(t testing.TB, fs disk.FS, dirs []string, change func(*repair.Options)) (*repair.Report, error) {
	t.Helper()
	ro := repair.Options{Options: audit.Options{FS: fs, Dirs: dirs, RAMBytes: 1 << 20}}
	if change != nil {
		change(&ro)
	}
	return repair.Run(ro)
}

// Hurt damages up to three of the files: "bytes", "cut" or "gone".
func Hurt(t *testing.T, rng *rand.Rand, mem *memfs.FS, files []string, how string) {
	t.Helper()
	for _, i := range rng.Perm(len(files))[:min(len(files), 3)] {
		switch how {
		case "bytes":
			for range 1 + rng.IntN(3) {
				Spoil(t, rng, mem, files[i], 1+rng.IntN(1000))
			}
		case "gone":
			must(t, mem.Remove(files[i]))
		case "cut":
			f, err := mem.Open(files[i])
			must(t, err)
			size, err := f.Size()
			if err == nil {
				err = f.Truncate(rng.Int64N(size))
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Mirrors is a web with n hosts that have the same pages, with relative links, and one link from the first page
// of host 0 to each other host. A page of a host that is not a mirror is linked from the last page of each host.
func Mirrors(n, pages int) *Web {
	text := strings.Repeat("text ", 100)
	return &Web{Serve: func(host, path string) Answer {
		var page int
		switch {
		case path == "/robots.txt":
			return NoRobots
		case host == "m0.test" && path == "/":
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "<a href=http://m%d.test/p0>m</a>", i)
			}
			return Answer{200, "", "<html>" + b.String()}
		case strings.HasPrefix(path, "/end"):
			return Answer{200, "", "<html>" + host}
		}
		if _, err := fmt.Sscanf(path, "/p%d", &page); err != nil {
			return Answer{404, "", "no page"}
		}
		next := fmt.Sprintf("<a href=p%d>n</a>", page+1)
		if page == pages-1 {
			next = "<a href=end>e</a>"
		}
		return Answer{200, "", fmt.Sprintf("<html>%s%d%s", text, page, next)}
	}}
}
