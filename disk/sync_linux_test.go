package disk

import (
	"errors"
	"os"
	"path"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSyncFSKeepsItsDescriptor checks that SyncFS uses the descriptor opened by Lock. The test moves the
// directory, so a new open would fail.
func TestSyncFSKeepsItsDescriptor(t *testing.T) {
	dir := path.Join(t.TempDir(), "d")
	for _, fsys := range []FS{OS(), Direct()} {
		Must(t, fsys.MkdirAll(dir))
		lock, err := fsys.Lock(dir)
		Must(t, err)
		Must(t, os.Rename(dir, dir+"2"))
		Must(t, fsys.SyncFS(dir))
		Must(t, lock.Close())
		if err := fsys.SyncFS(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("SyncFS of a directory that isn't there: %v", err)
		}
		Must(t, os.Rename(dir+"2", dir))
		lock, err = fsys.Lock(dir)
		Must(t, err)
		Must(t, lock.Close())
		Must(t, lock.Close()) // as Close of the lock does
	}
}

// TestSyncFSByFile checks that, where syncfs reports no errors, SyncFS syncs the written files under their
// current names.
func TestSyncFSByFile(t *testing.T) {
	dir := t.TempDir()
	o := newOS()
	o.sync.byFile = true
	for _, name := range []string{"a", "b", "gone"} {
		f := MustCreate(t, o, path.Join(dir, name))
		MustWrite(t, f, []byte("x"), 0)
		Must(t, f.Close())
	}
	Must(t, o.Remove(path.Join(dir, "gone")))
	Must(t, o.Rename(path.Join(dir, "b"), path.Join(dir, "c")))
	if _, ok := o.sync.written[path.Join(dir, "c")]; !ok || len(o.sync.written) != 3 {
		t.Errorf("written: %v, want a, c and gone", o.sync.written)
	}
	Must(t, o.SyncFS(t.TempDir()))
	if len(o.sync.written) != 3 {
		t.Errorf("another directory's sync: %v are left, want all", o.sync.written)
	}
	Must(t, o.SyncFS(dir))
	if len(o.sync.written) != 0 {
		t.Errorf("not synced: %v", o.sync.written)
	}
	// SyncFS returns the error of a file's sync. Here a link that leads to itself makes the open fail.
	f := MustCreate(t, o, path.Join(dir, "d"))
	Must(t, f.Truncate(5))
	Must(t, f.Close())
	Must(t, o.Remove(path.Join(dir, "d")))
	Must(t, os.Symlink(path.Join(dir, "d"), path.Join(dir, "d")))
	if err := o.SyncFS(dir); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("got %v, want ELOOP", err)
	}
}

func TestKernelRelease(t *testing.T) {
	for release, want := range map[string]bool{
		"5.8.0": true, "5.7.19": false, "6.1.0-18-amd64": true, "4.18.0-513.el8.x86_64": false,
		"5.10-rc1": true, "10.0": true,
		"": false, "x": false, "5": false, "4.4.0": false,
	} {
		if got := atLeast58(release); got != want {
			t.Errorf("%q: got %v, want %v", release, got, want)
		}
	}
}

// TestDirectShortWrite checks a direct write on a disk that becomes full. The rest goes through the page
// cache, whose error says why; WriteAt must not return io.EOF.
func TestDirectShortWrite(t *testing.T) {
	made, err := Direct().Create(path.Join(t.TempDir(), "f"))
	Must(t, err)
	f := made.(*directFile)
	page := Alloc(2 * DirectAlign)
	defer Free(page)
	if f.past(page, 0) == nil {
		t.Skip("no O_DIRECT here")
	}
	for _, part := range []int{0, 512, DirectAlign + 512} {
		f.pwrite = func(fd int, p []byte, off int64) (int, error) { return min(part, len(p)), nil }
		if n, err := f.WriteAt(page, 0); n != len(page) || err != nil {
			t.Errorf("%d bytes fit: got %d, %v", part, n, err)
		}
	}
	f.File = fullFile{f.File}
	if _, err := f.WriteAt(page, 0); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	Must(t, f.Close())
}

// fullFile is a file on a full disk.
type fullFile struct{ File }

func (f fullFile) WriteAt([]byte, int64) (int, error) { return 0, unix.ENOSPC }

// TestAllocated checks that preallocated space past the end of a file counts.
func TestAllocated(t *testing.T) {
	o := newOS()
	name := path.Join(t.TempDir(), "f")
	f := MustCreate(t, o, name)
	MustWrite(t, f, make([]byte, 5000), 0)
	if n, err := o.Allocated(name); n < 5000 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if err := unix.Fallocate(int(f.(osFile).Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
		t.Skipf("no fallocate here: %v", err)
	}
	if n, err := o.Allocated(name); n < 1<<20 || err != nil {
		t.Errorf("1 MiB is allocated: got %d, %v", n, err)
	}
	if n, err := o.Size(name); n != 5000 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	Must(t, f.Close())
}
