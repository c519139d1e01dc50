package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestQuotaHoldsExactly: random operations on real files, from several goroutines, must never take more than the
// limit, and the count must equal the sizes of the files.
func TestQuotaHoldsExactly(t *testing.T) {
	dir := t.TempDir()
	const limit = 1 << 20
	q := disk.NewQuota(disk.OS(), disk.QuotaOptions{Dirs: []string{dir}, Limit: limit})
	disk.Must(t, q.Count())
	var wg sync.WaitGroup
	full := make([]int, 4)
	for g := range full {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 400 {
				if err := quotaStep(q, rng, filepath.Join(dir, fmt.Sprint(g)), i); errors.Is(err, syscall.ENOSPC) {
					full[g]++
				} else if err != nil {
					t.Errorf("step %d: %v", i, err)
				}
				if used := q.Used(); used > limit {
					t.Errorf("%d bytes are used, the limit is %d", used, limit)
				}
			}
		})
	}
	wg.Wait()
	for g, n := range full {
		if n == 0 {
			t.Errorf("goroutine %d never met the limit", g)
		}
	}
	checkQuota(t, q, dir)
	again := disk.NewQuota(disk.OS(), disk.QuotaOptions{Dirs: []string{dir}, Limit: limit})
	disk.Must(t, errors.Join(again.Count(), q.Count()))
	if again.Used() != q.Used() {
		t.Errorf("a new count finds %d bytes, the running one %d", again.Used(), q.Used())
	}
}

// quotaStep does one operation on some file of dir.
func quotaStep(q *disk.Quota, rng *rand.Rand, dir string, i int) error {
	if err := q.MkdirAll(dir); err != nil {
		return err
	}
	name := fmt.Sprintf("%s/%d", dir, rng.IntN(20))
	switch rng.IntN(8) {
	case 0:
		if err := q.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case 1:
		if err := q.Rename(name, fmt.Sprintf("%s/%d", dir, rng.IntN(20))); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := q.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = q.Create(name)
	}
	if err != nil {
		return err
	}
	switch rng.IntN(5) {
	case 0:
		err = f.Truncate(rng.Int64N(50_000))
	case 1:
		err = f.Preallocate(rng.Int64N(30_000), 1+rng.Int64N(60_000))
	default:
		_, err = f.WriteAt(make([]byte, 1+rng.IntN(40_000)), rng.Int64N(30_000))
	}
	return errors.Join(err, f.Close())
}

// checkQuota compares the count with what the file system reports, one block a file allowed.
func checkQuota(t *testing.T, q *disk.Quota, dir string) {
	t.Helper()
	var sum, files int64
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		info, err := d.Info()
		if err == nil {
			sum += max(info.Sys().(*syscall.Stat_t).Blocks*512, info.Size())
		}
		return err
	})
	disk.Must(t, err)
	if used := q.Used(); used < sum-4096*files || used > sum+4096*files {
		t.Errorf("%d bytes are counted, %d files take %d", used, files, sum)
	}
}

// TestQuotaSeesOthers: files of other programs count since the next Count: they appear, grow and vanish. A file
// that was moved away makes room, and so does a deleted directory.
func TestQuotaSeesOthers(t *testing.T) {
	mem, other := memfs.New(1), "d/broker/log"
	q := disk.NewQuota(mem, disk.QuotaOptions{Dirs: []string{"d"}, Limit: 1 << 20,
		Final: func(name string) bool { return name == "d/a.warc" }})
	used := func(want int64) {
		t.Helper()
		disk.Must(t, q.Count())
		if q.Used() != want {
			t.Fatalf("%d bytes are used, want %d", q.Used(), want)
		}
	}
	do := func(err error) {
		t.Helper()
		disk.Must(t, err)
	}
	do(q.MkdirAll("d"))
	used(4096)
	do(mem.MkdirAll("d/broker"))
	do(disk.WriteFileAtomic(mem, other, make([]byte, 5000)))
	used(4096 + 4096 + 8192)
	for n := int64(3); n < 6; n++ {
		do(disk.WriteFileAtomic(mem, other, make([]byte, n*4096)))
		used((2 + n) * 4096)
	}
	do(disk.WriteFileAtomic(q, "d/a.warc", make([]byte, 100)))
	used(8 * 4096)
	used(8 * 4096)
	do(mem.Remove("d/a.warc"))
	used(7 * 4096)
	do(errors.Join(mem.Remove(other), mem.Remove("d/broker")))
	used(4096)
	if err := disk.WriteFileAtomic(q, "d/b", make([]byte, 1<<20)); !errors.Is(err, disk.ErrQuota) ||
		!errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file beyond the limit: %v", err)
	}
}

// TestQuotaStartsAboveItsLimit: files that already exceed the limit can be overwritten, cut and deleted, but not grow.
func TestQuotaStartsAboveItsLimit(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	disk.Must(t, os.WriteFile(name, make([]byte, 100_000), 0o600))
	q := disk.NewQuota(disk.OS(), disk.QuotaOptions{Dirs: []string{dir}, Limit: 50_000})
	disk.Must(t, q.Count())
	f, err := q.Open(name)
	disk.Must(t, err)
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 10), 99_990); err != nil {
		t.Errorf("overwrite: %v", err)
	}
	if _, err := f.WriteAt(make([]byte, 10_000), 99_990); !errors.Is(err, disk.ErrQuota) {
		t.Errorf("append: %v", err)
	}
	if err := f.Truncate(20_000); err != nil || q.Used() != 4096+20480 {
		t.Errorf("truncate: %v, %d bytes used", err, q.Used())
	}
	if _, err := f.WriteAt(make([]byte, 10_000), 20_000); err != nil {
		t.Errorf("append below the limit: %v", err)
	}
}

// BenchmarkQuotaWrite is the cost of counting: writes that grow a file, and writes inside it, on a file that does
// nothing.
func BenchmarkQuotaWrite(b *testing.B) {
	for _, grows := range []bool{false, true} {
		b.Run(fmt.Sprintf("grows=%v", grows), func(b *testing.B) {
			q := disk.NewQuota(nullFS{memfs.New(1)}, disk.QuotaOptions{Dirs: []string{"d"}, Limit: 1 << 62})
			f, err := q.Create("d/f")
			disk.Must(b, err)
			off, p := int64(0), make([]byte, 4096)
			for b.Loop() {
				if _, err := f.WriteAt(p, off); err != nil {
					b.Fatal(err)
				}
				if grows {
					off += 4096
				}
			}
		})
	}
}

type nullFS struct{ disk.FS }

func (nullFS) Create(string) (disk.File, error) { return nullFile{}, nil }

type nullFile struct{ disk.File }

func (nullFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
