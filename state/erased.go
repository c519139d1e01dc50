package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// ErasedKeys is the suffix of the files in ErasedDir with the keys of the URLs that an erasure has ended: 8
// bytes each, little-endian, ascending, and then the xxhash64 of all. Neither output nor log names these URLs,
// so an audit takes their keys from here.
const ErasedKeys = ".keys"

// AskedKeys is the suffix of files of the same form with the keys of URLs that were to be erased and whose outcome
// is not known, for example because no log has it. An audit does not count them.
const AskedKeys = ".asked"

// EachErasedKey calls fn with the key of each URL that the erasures of the crawl have ended. Damage is a
// *disk.CorruptError.
func (s *Saved) EachErasedKey(fn func(key uint64) error) error {
	dir := s.Set.Path(0, ErasedDir)
	names, err := s.Set.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if err == nil && strings.HasSuffix(name, ErasedKeys) && name[0] != '.' {
			err = EachKey(s.Set.FS, dir+"/"+name, fn)
		}
	}
	if err != nil {
		return fmt.Errorf("crawl: keys of erased URLs: %w", err)
	}
	return nil
}

// IsErased reports whether an erasure of the crawl has ended the URL with a key, or named it. It reads some 25 keys of
// each file.
func (s *Saved) IsErased(key uint64) (bool, error) {
	dir := s.Set.Path(0, ErasedDir)
	names, err := s.Set.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, name := range names {
		if suffix := path.Ext(name); err == nil && (suffix == ErasedKeys || suffix == AskedKeys) && name[0] != '.' {
			var is bool
			if is, err = hasKey(s.Set.FS, dir+"/"+name, key); is {
				return true, nil
			}
		}
	}
	if err != nil {
		return false, fmt.Errorf("crawl: keys of erased URLs: %w", err)
	}
	return false, nil
}

// hasKey searches a file of sorted keys.
func hasKey(fsys disk.FS, name string, key uint64) (bool, error) {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	var b [8]byte
	lo, hi := int64(0), size/8-1 // the last 8 bytes are a checksum
	for lo < hi {
		mid := (lo + hi) / 2
		if err := disk.ReadFull(f, b[:], 8*mid); err != nil {
			return false, err
		}
		switch at := binary.LittleEndian.Uint64(b[:]); {
		case at == key:
			return true, nil
		case at < key:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return false, nil
}

// EachKey calls fn with the keys of a file that a KeyWriter has written. Damage is a *disk.CorruptError.
func EachKey(fsys disk.FS, name string, fn func(key uint64) error) error {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	corrupt := func(want, got string) error {
		return &disk.CorruptError{Path: name, Offset: size, Want: want, Got: got}
	}
	if size < 8 || size%8 != 0 {
		return corrupt("keys of 8 bytes and a checksum", fmt.Sprintf("%d bytes", size))
	}
	in, sum := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 256<<10), xxhash.New()
	var b [8]byte
	for left := size / 8; left > 0; left-- {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(b[:])
		if left == 1 {
			if want := sum.Sum64(); n != want {
				return corrupt(fmt.Sprintf("%016x", want), fmt.Sprintf("%016x", n))
			}
			return nil
		}
		_, _ = sum.Write(b[:]) // a Digest returns no error
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// KeyWriter writes a file for EachErasedKey.
type KeyWriter struct {
	to  *disk.Staged
	sum *xxhash.Digest
}

// NewKeyWriter begins the file.
func NewKeyWriter(to *disk.Staged) *KeyWriter { return &KeyWriter{to: to, sum: xxhash.New()} }

// Add appends a key.
func (w *KeyWriter) Add(key uint64) error {
	b := binary.LittleEndian.AppendUint64(nil, key)
	_, _ = w.sum.Write(b)
	_, err := w.to.Write(b)
	return err
}

// End makes the file durable under its name.
func (w *KeyWriter) End() error {
	_, err := w.to.Write(binary.LittleEndian.AppendUint64(nil, w.sum.Sum64()))
	if err == nil {
		err = w.to.End()
	}
	if err == nil {
		err = w.to.Rename()
	}
	return err
}
