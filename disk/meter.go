package disk

import (
	"io"
	"slices"
	"sync/atomic"
)

// Meter is an FS that counts the operations and bytes that pass through it, and measures the use of
// directories. It is safe for concurrent use.
type Meter struct {
	fs   FS
	c    counters
	dirs []*useMeter
}

type counters struct {
	reads, readBytes, writes, writtenBytes, syncs, names atomic.Int64
}

// Counts holds the totals of a Meter since its creation.
type Counts struct {
	// Reads and ReadBytes count calls of ReadAt and the bytes returned.
	Reads, ReadBytes int64
	// Writes and WrittenBytes count calls of WriteAt and the bytes written.
	Writes, WrittenBytes int64
	// Syncs counts calls of Sync, SyncDir and SyncFS.
	Syncs int64
	// Names counts operations on names: create, open, remove, rename, mkdir, list, size and chmod.
	Names int64
}

// NewMeter returns a counting FS on top of fs. It measures the use of each of dirs: two reads of the clock
// and two locks for each operation on their files.
func NewMeter(fs FS, dirs ...string) *Meter {
	m := &Meter{fs: fs}
	for _, dir := range dirs {
		u := newUseMeter(dir)
		if !slices.ContainsFunc(m.dirs, func(v *useMeter) bool { return v.below == u.below }) {
			m.dirs = append(m.dirs, u)
		}
	}
	return m
}

// Counts returns the current totals. It reads them one after another, not atomically.
func (m *Meter) Counts() Counts {
	return Counts{
		Reads: m.c.reads.Load(), ReadBytes: m.c.readBytes.Load(),
		Writes: m.c.writes.Load(), WrittenBytes: m.c.writtenBytes.Load(),
		Syncs: m.c.syncs.Load(), Names: m.c.names.Load(),
	}
}

func (m *Meter) file(name string, f File, err error) (File, error) {
	m.c.names.Add(1)
	if err != nil {
		return nil, err
	}
	return meterFile{File: f, c: &m.c, use: m.useOf(name)}, nil
}

// Create implements FS.
func (m *Meter) Create(name string) (File, error) {
	f, err := m.fs.Create(name)
	return m.file(name, f, err)
}

// Open implements FS.
func (m *Meter) Open(name string) (File, error) {
	f, err := m.fs.Open(name)
	return m.file(name, f, err)
}

// OpenRead implements FS.
func (m *Meter) OpenRead(name string) (File, error) {
	f, err := m.fs.OpenRead(name)
	return m.file(name, f, err)
}

// Remove implements FS.
func (m *Meter) Remove(name string) error {
	m.c.names.Add(1)
	return m.fs.Remove(name)
}

// Rename implements FS.
func (m *Meter) Rename(from, to string) error {
	m.c.names.Add(1)
	return m.fs.Rename(from, to)
}

// MkdirAll implements FS.
func (m *Meter) MkdirAll(name string) error {
	m.c.names.Add(1)
	return m.fs.MkdirAll(name)
}

// List implements FS.
func (m *Meter) List(dir string) ([]string, error) {
	m.c.names.Add(1)
	return m.fs.List(dir)
}

// Size implements FS.
func (m *Meter) Size(name string) (int64, error) {
	m.c.names.Add(1)
	return m.fs.Size(name)
}

// Allocated implements FS.
func (m *Meter) Allocated(name string) (int64, error) {
	m.c.names.Add(1)
	return m.fs.Allocated(name)
}

// SyncDir implements FS.
func (m *Meter) SyncDir(dir string) error {
	m.c.syncs.Add(1)
	_, err := m.useOf(dir).write(func() (int, error) { return 0, m.fs.SyncDir(dir) })
	return err
}

// SyncFS implements FS.
func (m *Meter) SyncFS(dir string) error {
	m.c.syncs.Add(1)
	_, err := m.useOf(dir).write(func() (int, error) { return 0, m.fs.SyncFS(dir) })
	return err
}

// Space implements FS.
func (m *Meter) Space(dir string) (free, total int64, err error) { return m.fs.Space(dir) }

// FreeFiles implements FS.
func (m *Meter) FreeFiles(dir string) (int64, error) { return m.fs.FreeFiles(dir) }

// Lock implements FS.
func (m *Meter) Lock(dir string) (io.Closer, error) { return m.fs.Lock(dir) }

type meterFile struct {
	File
	c   *counters
	use *useMeter
}

func (f meterFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.use.read(func() (int, error) { return f.File.ReadAt(p, off) })
	f.c.reads.Add(1)
	f.c.readBytes.Add(int64(n))
	return n, err
}

func (f meterFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.use.write(func() (int, error) { return f.File.WriteAt(p, off) })
	f.c.writes.Add(1)
	f.c.writtenBytes.Add(int64(n))
	return n, err
}

func (f meterFile) Sync() error {
	f.c.syncs.Add(1)
	_, err := f.use.write(func() (int, error) { return 0, f.File.Sync() })
	return err
}
