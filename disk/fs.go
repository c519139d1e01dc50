package disk

import "io"

// FS is the seam between the storage packages and the disk. Names are slash-separated paths. An
// implementation is safe for concurrent use. Durability follows POSIX: bytes of a file survive a power cut
// after File.Sync or SyncFS; a name created, renamed or removed survives after SyncDir of its directory or
// SyncFS. Until then either state, or for bytes any mixture by block, may be found after the cut.
type FS interface {
	// Create makes a new file, open for reading and writing. It fails with fs.ErrExist if the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename replaces to by from, atomically.
	Rename(from, to string) error
	// MkdirAll makes a directory (mode 0700) and its parents.
	MkdirAll(name string) error
	// List returns the sorted names in a directory.
	List(dir string) ([]string, error)
	// Size returns the length of a file in bytes; fs.ErrNotExist if there is none.
	Size(name string) (int64, error)
	// Allocated returns the bytes that a file takes on the disk: its length, or more if space behind its end is allocated.
	Allocated(name string) (int64, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// SyncFS makes everything written so far to the file system that holds dir durable.
	SyncFS(dir string) error
	// Space returns the free (to this process) and total bytes of the file system that holds dir.
	Space(dir string) (free, total int64, err error)
	// FreeFiles returns how many more files the file system that holds dir has room for; math.MaxInt64 if it sets no number.
	FreeFiles(dir string) (int64, error)
	// Lock takes the exclusive lock file of dir, or fails with ErrLocked. Closing the result releases it. In between SyncFS of dir
	// reports every error of write-back, also one that another program has been told.
	Lock(dir string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt are safe for concurrent use at disjoint ranges.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the name the file was opened under.
	Name() string
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes.
	Truncate(size int64) error
	// Sync makes the bytes durable.
	Sync() error
	// Preallocate reserves space for [off, off+n) without changing the length; a hint that may do nothing.
	// It returns an error only when the file system says that there is no room.
	Preallocate(off, n int64) error
}
