package tabular

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestEveryFailure lets each operation on the file system fail once, with a full disk, and then continues
// the table. After each failure each file with a final name is whole.
func TestEveryFailure(t *testing.T) {
	rows := makeRows(random(t), 3000)
	step := 1
	if testing.Short() {
		step = 20
	}
	for _, format := range formats {
		for failAt := 1; ; failAt += step {
			inner := memfs.New(1)
			ops, open := 0, 0
			fsys := memfs.NewFault(inner, func(op memfs.Op, name string) error {
				switch op {
				case memfs.OpClose:
					open--
				case memfs.OpCreate, memfs.OpOpenRead:
					open++
				}
				if ops++; ops == failAt {
					if op == memfs.OpCreate || op == memfs.OpOpenRead {
						open--
					}
					return fmt.Errorf("%s %s: %w", op, name, syscall.ENOSPC)
				}
				return nil
			})
			opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 100_000, GroupBytes: 1}
			w, err := Create(opt)
			if err == nil {
				err = writeAll(w, rows)
			}
			if open != 0 {
				t.Fatalf("%s, operation %d: %d files stay open", format, failAt, open)
			}
			passed := ops < failAt
			if passed != (err == nil) || !passed && !errors.Is(err, syscall.ENOSPC) {
				// Only the removal of a name that the next Create deletes may fail silently.
				t.Fatalf("%s, operation %d of %d: %v", format, failAt, ops, err)
			}
			opt.FS = inner
			checkWhole(t, inner, opt)
			again, err := Create(opt)
			must(t, err)
			must(t, writeAll(again, rows))
			if !reflect.DeepEqual(tableRows(t, inner, "t", again), wantRows(format, rows)) {
				t.Fatalf("%s, operation %d: other rows after resuming", format, failAt)
			}
			if passed {
				break
			}
		}
	}
}

// checkWhole reads all files with final names.
func checkWhole(t *testing.T, fsys disk.FS, opt Options) {
	t.Helper()
	names, err := fsys.List(opt.Dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, partPrefix) {
			data, err := disk.ReadFile(fsys, opt.Dir+"/"+name)
			must(t, err)
			if len(readRows(t, opt.Format, data)) == 0 {
				t.Fatalf("%s has no rows", name)
			}
		}
	}
}

// TestPowerCut stops the machine after each operation. Parts that the durable state names are whole.
func TestPowerCut(t *testing.T) {
	rows := makeRows(random(t), 3000)
	step := 1
	if testing.Short() {
		step = 9
	}
	for _, format := range formats {
		cuts := 0
		for after := 1; ; after += 3 * step {
			fsys := memfs.New(uint64(after))
			fsys.CrashAfter(after)
			opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 100_000, GroupBytes: 1}
			w, err := Create(opt)
			if err == nil {
				err = writeAll(w, rows)
			}
			if err == nil {
				break
			}
			cuts++
			left := fsys.Crash()
			opt.FS = left
			checkWhole(t, left, opt)
			again, err := Create(opt)
			must(t, err)
			must(t, writeAll(again, rows))
			if !reflect.DeepEqual(tableRows(t, left, "t", again), wantRows(format, rows)) {
				t.Fatalf("%s, cut after %d: other rows", format, after)
			}
		}
		if cuts < 5/step {
			t.Errorf("%s: %d cuts", format, cuts)
		}
	}
}

// TestFullDisk fills a disk of 200 KB.
func TestFullDisk(t *testing.T) {
	rows := makeRows(random(t), 3000)
	for _, format := range formats {
		fsys := memfs.New(1)
		fsys.SetCapacity(60_000)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 20_000, GroupBytes: 1}
		w, err := Create(opt)
		must(t, err)
		if err := writeAll(w, rows); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: %v", format, err)
		}
		if err := w.Write(rows[0]); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: after the failure: %v", format, err)
		}
		checkWhole(t, fsys, opt)
	}
}

// TestOtherContent refuses directories that hold something else, and leaves them as they are.
func TestOtherContent(t *testing.T) {
	fsys := memfs.New(1)
	opt := Options{FS: fsys, Dir: "t", Format: CSV, Columns: columns, Kind: "pages", Source: "1"}
	for _, name := range []string{"notes.txt", "part-00000.csv", "part-00000.parquet", ".hidden"} {
		must(t, fsys.MkdirAll("t"))
		must(t, disk.WriteFileAtomic(fsys, "t/"+name, []byte("x")))
		if _, err := Create(opt); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := fsys.List("t"); !reflect.DeepEqual(names, []string{name}) {
			t.Errorf("left: %q", names)
		}
		must(t, fsys.Remove("t/"+name))
	}
	rows := makeRows(random(t), 1000)
	w, err := Create(opt)
	must(t, err)
	must(t, writeAll(w, rows))
	for _, change := range []func(o *Options){
		func(o *Options) { o.Kind = "hosts" },
		func(o *Options) { o.Format = JSONL },
	} {
		other := opt
		change(&other)
		if _, err := Create(other); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(CSV, rows)) {
		t.Error("other rows")
	}
}

// TestUnfinished: no pattern of finished parts matches a part that is being written, and the next Create deletes what a
// killed process has left, also under the names of earlier versions.
func TestUnfinished(t *testing.T) {
	for _, format := range []Format{Parquet, CSV, JSONL, TSV} {
		fsys := memfs.New(1)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: []Column{{Name: "url", Type: String}},
			Kind: "pages", Source: "1"}
		w, err := Create(opt)
		must(t, err)
		must(t, w.Write([]Value{Str("a")}))
		names, err := fsys.List("t")
		if err != nil || len(names) != 2 {
			t.Fatalf("%q, %v: want a part and the progress", names, err)
		}
		for _, name := range names {
			if match, _ := filepath.Match("*."+string(format), name); match {
				t.Errorf("*.%s matches the unfinished %s", format, name)
			}
		}
		must(t, disk.WriteFileAtomic(fsys, "t/.part-00000."+string(format), []byte("x")))
		if w, err = Create(opt); err != nil { // as after kill -9
			t.Fatal(err)
		}
		if names, _ := fsys.List("t"); !reflect.DeepEqual(names, []string{progressName}) {
			t.Errorf("left: %q", names)
		}
		w.Abort()
	}
}

// TestOtherSource replaces the table of an older source.
func TestOtherSource(t *testing.T) {
	fsys := memfs.New(1)
	r := random(t)
	for i, source := range []string{"1", "2"} {
		rows := makeRows(r, 3000/(i+1))
		w, err := Create(Options{FS: fsys, Dir: "t", Format: JSONL, Columns: columns, Source: source,
			PartBytes: 100_000})
		must(t, err)
		if got := w.Resumed(); i == 1 && (got.ReplacedSource != "1" || got.Replaced < 3 || got.Rows != 0) {
			t.Errorf("%+v", got)
		}
		must(t, writeAll(w, rows))
		if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(JSONL, rows)) {
			t.Errorf("source %s: other rows", source)
		}
	}
}

// TestDamagedPart writes a part again that has another size, and those after it.
func TestDamagedPart(t *testing.T) {
	fsys := memfs.New(1)
	rows := makeRows(random(t), 3000)
	opt := Options{FS: fsys, Dir: "t", Format: JSONL, Columns: columns, PartBytes: 100_000}
	for _, lost := range []bool{false, true, false} {
		w, err := Create(opt)
		must(t, err)
		if lost && w.Resumed().Parts != 1 {
			t.Errorf("%+v", w.Resumed())
		}
		must(t, writeAll(w, rows))
		if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(JSONL, rows)) {
			t.Error("other rows")
		}
		f, err := fsys.Open("t/part-00001.jsonl")
		must(t, err)
		must(t, errors.Join(f.Truncate(10), f.Close()))
	}
	w, err := Create(opt)
	must(t, err)
	if err := writeAll(w, rows[:10]); err == nil || !strings.Contains(err.Error(), "more rows than its source") {
		t.Errorf("a source with fewer rows: %v", err)
	}
}

func TestNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		fsys := memfs.NewFault(disk.OS(), func(op memfs.Op, name string) error {
			if op == memfs.OpMkdirAll {
				return &os.PathError{Op: "mkdir", Path: name, Err: syscall.EACCES}
			}
			return nil
		})
		_, err := Create(Options{FS: fsys, Dir: t.TempDir() + "/x", Format: CSV, Columns: columns})
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "/x") {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	_, err := Create(Options{FS: disk.OS(), Dir: dir + "/x", Format: CSV, Columns: columns})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}
