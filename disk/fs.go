package disk

import "io"

// FS is a file system. Names are slash-separated paths. Implementations are safe for concurrent use.
// Durability follows POSIX: a file's bytes survive a power cut after File.Sync or SyncFS; a created,
// renamed or removed name survives after SyncFS or SyncDir of its directory. Before that, a power cut may
// leave the old or the new state, and any mixture of old and new blocks within a file.
type FS interface {
	// Create creates a file and opens it for reading and writing. It fails with fs.ErrExist if the name
	// exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename atomically renames from to to, replacing to if it exists.
	Rename(from, to string) error
	// MkdirAll creates a directory (mode 0700) and its parents.
	MkdirAll(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Size returns the length of a file in bytes. It fails with fs.ErrNotExist if there is no such file.
	Size(name string) (int64, error)
	// Allocated returns the bytes that a file occupies on disk: its length, or more if space past its end
	// is allocated.
	Allocated(name string) (int64, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// SyncFS makes durable everything written so far to the file system that holds dir.
	SyncFS(dir string) error
	// Space returns the total size of the file system that holds dir, and the space free to this process,
	// in bytes.
	Space(dir string) (free, total int64, err error)
	// FreeFiles returns the number of files that the file system that holds dir can still create;
	// math.MaxInt64 if it has no limit.
	FreeFiles(dir string) (int64, error)
	// Lock takes the exclusive lock file of dir, or fails with a LockedError. Closing the result releases it.
	// While the lock is held, SyncFS of dir reports every write-back error, even one already reported to
	// another process.
	Lock(dir string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt are safe for concurrent use on disjoint ranges.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the name under which the file was opened.
	Name() string
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes.
	Truncate(size int64) error
	// Sync makes the bytes durable.
	Sync() error
	// Preallocate reserves space for [off, off+n) without changing the length. It is a hint that may do
	// nothing. It fails only when the file system reports that there is no room, or an I/O error.
	Preallocate(off, n int64) error
}
