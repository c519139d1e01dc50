package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// tailBufferBytes is the size of the writes to a tail file.
const tailBufferBytes = 256 << 10

// Ref names a byte string in a tail file. The states in a manifest contain Refs. The zero Ref is the empty
// string.
type Ref struct {
	// Dir is the number of the directory.
	Dir int
	// Gen is the generation of the tail file.
	Gen uint64
	// Off and Len are the offset and length in the file, in bytes.
	Off, Len int64
	// Sum is the xxhash64 of the bytes.
	Sum uint64
}

// Tails writes the tail files of one checkpoint, state/tails-<gen> in each directory. It gathers the
// content of thousands of partly filled buffers in one sequential file per disk. It is safe for concurrent
// use. After a failed write, every later write to that directory fails with the same error.
type Tails struct {
	set   Set
	gen   uint64
	files []tailFile
	other atomic.Int64
	whole atomic.Int64
}

type tailFile struct {
	// mu guards the fields below and is held during writes.
	mu   sync.Mutex
	f    File // nil until the first byte
	buf  []byte
	size int64 // bytes written to f; buf follows
	err  error
}

// CreateTails starts the tail files of generation gen. The first Write to a directory creates its file.
func CreateTails(set Set, gen uint64) (*Tails, error) {
	for dir := range set.Paths {
		_, err := set.FS.Size(set.Path(dir, stateDirName, tailsName(gen)))
		if err == nil {
			err = fs.ErrExist
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("disk: create tails %d in %s: %w", gen, set.Path(dir), err)
		}
	}
	return &Tails{set: set, gen: gen, files: make([]tailFile, set.Len())}, nil
}

// Write appends p to the tail file of directory dir and returns its position. It copies p; the copy may
// stay in a buffer until Close. For an empty p it returns the zero Ref and creates no file.
func (t *Tails) Write(dir int, p []byte) (Ref, error) {
	if len(p) == 0 {
		return Ref{}, nil
	}
	sum := xxhash.Sum64(p)
	tf := &t.files[dir]
	tf.mu.Lock()
	defer tf.mu.Unlock()
	if tf.err == nil && tf.f == nil {
		tf.err = t.create(dir, tf)
	}
	ref := Ref{Dir: dir, Gen: t.gen, Off: tf.size + int64(len(tf.buf)), Len: int64(len(p)), Sum: sum}
	if tf.err == nil {
		tf.append(p)
	}
	if tf.err != nil {
		return Ref{}, fmt.Errorf("disk: write tails %d in %s: %w", t.gen, t.set.Path(dir), tf.err)
	}
	return ref, nil
}

func (t *Tails) create(dir int, tf *tailFile) error {
	if err := t.set.FS.MkdirAll(t.set.Path(dir, stateDirName)); err != nil {
		return err
	}
	f, err := t.set.FS.Create(t.set.Path(dir, stateDirName, tailsName(t.gen)))
	if err != nil {
		return err
	}
	tf.f = f
	h := Header{Kind: tailKind, Version: tailVersion, Number: t.gen, Place: uint64(dir)}
	tf.buf = h.Append(nil)
	return nil
}

// append buffers p and writes the buffer when it is full. Large strings bypass the buffer.
func (tf *tailFile) append(p []byte) {
	if len(tf.buf)+len(p) > tailBufferBytes {
		tf.flush()
	}
	if len(p) >= tailBufferBytes {
		tf.write(p)
		return
	}
	tf.buf = append(tf.buf, p...)
}

func (tf *tailFile) flush() {
	tf.write(tf.buf)
	tf.buf = tf.buf[:0]
}

func (tf *tailFile) write(p []byte) {
	if tf.err != nil || len(p) == 0 {
		return
	}
	if _, err := tf.f.WriteAt(p, tf.size); err != nil {
		tf.err = err
		return
	}
	tf.size += int64(len(p))
}

// Close writes the buffers and closes the files. It does not sync: the caller then calls SyncFS for each
// directory.
func (t *Tails) Close() error {
	var errs []error
	for dir := range t.files {
		if err := t.files[dir].close(); err != nil {
			errs = append(errs, fmt.Errorf("disk: close tails %d in %s: %w", t.gen, t.set.Path(dir), err))
		}
	}
	return errors.Join(errs...)
}

func (tf *tailFile) close() error {
	tf.mu.Lock()
	defer tf.mu.Unlock()
	if tf.f == nil {
		return tf.err
	}
	tf.flush()
	tf.buf = nil
	err := errors.Join(tf.err, tf.f.Close())
	tf.f, tf.err = nil, fs.ErrClosed
	return err
}

// Count adds n bytes to Bytes, for data of this checkpoint in other files.
func (t *Tails) Count(n int64) { t.other.Add(n) }

// CountFile is Count for a whole file that was kept in RAM until this checkpoint.
func (t *Tails) CountFile(n int64) {
	t.other.Add(n)
	t.whole.Add(n)
}

// Files returns the bytes added by CountFile.
func (t *Tails) Files() int64 { return t.whole.Load() }

// Bytes returns the bytes written or buffered in all directories, headers included, plus those added by
// Count and CountFile.
func (t *Tails) Bytes() int64 {
	sum := t.other.Load()
	for dir := range t.files {
		tf := &t.files[dir]
		tf.mu.Lock()
		sum += tf.size + int64(len(tf.buf))
		tf.mu.Unlock()
	}
	return sum
}

// ReadTail returns the bytes that r names, or nil for the zero Ref. Damage is a *CorruptError.
func ReadTail(set Set, r Ref) ([]byte, error) {
	if r.Len == 0 {
		return nil, nil
	}
	if r.Dir < 0 || r.Dir >= set.Len() || r.Off < HeaderBytes || r.Len < 0 {
		return nil, fmt.Errorf("disk: read tail: invalid reference %+v with %d directories", r, set.Len())
	}
	f, err := set.FS.OpenRead(set.Path(r.Dir, stateDirName, tailsName(r.Gen)))
	if err != nil {
		return nil, fmt.Errorf("disk: read tail: %w", err)
	}
	defer f.Close()
	h := Header{Kind: tailKind, Version: tailVersion, Number: r.Gen, Place: uint64(r.Dir)}
	if err := CheckHeader(f, h); err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("disk: read tail: %w", err)
	}
	if r.Len > size-r.Off {
		return nil, &CorruptError{
			Path: f.Name(), Offset: r.Off,
			Want: fmt.Sprintf("%d bytes", r.Len), Got: fmt.Sprintf("file of %d bytes", size),
		}
	}
	p := make([]byte, r.Len)
	if err := ReadFull(f, p, r.Off); err != nil {
		return nil, err
	}
	if sum := xxhash.Sum64(p); sum != r.Sum {
		return nil, &CorruptError{
			Path: f.Name(), Offset: r.Off,
			Want: fmt.Sprintf("xxhash64 %016x", r.Sum), Got: fmt.Sprintf("%016x", sum),
		}
	}
	return p, nil
}

// RemoveTails deletes the tail files for whose generation keep returns false. It leaves other files.
func RemoveTails(set Set, keep func(gen uint64) bool) error {
	for dir := range set.Paths {
		names, err := set.FS.List(set.Path(dir, stateDirName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("disk: remove tails: %w", err)
		}
		for _, name := range names {
			gen, ok := parseTailsName(name)
			if !ok || keep(gen) {
				continue
			}
			if err := set.FS.Remove(set.Path(dir, stateDirName, name)); err != nil {
				return fmt.Errorf("disk: remove tails: %w", err)
			}
		}
	}
	return nil
}
