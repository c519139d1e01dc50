package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

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
func (s *Saved) EachErasedKey(fn func(key uint64) error) error { return s.eachKeyOf(fn, ErasedKeys) }

// EachBarredKey is EachErasedKey, also for URLs that the erasures have named.
func (s *Saved) EachBarredKey(fn func(key uint64) error) error {
	return s.eachKeyOf(fn, ErasedKeys, AskedKeys)
}

func (s *Saved) eachKeyOf(fn func(key uint64) error, suffixes ...string) error {
	return s.eachErasedFile(func(name string) error { return EachKey(s.Set.FS, name, fn) }, suffixes...)
}

// eachErasedFile calls fn with the files of keys that have one of some suffixes.
func (s *Saved) eachErasedFile(fn func(name string) error, suffixes ...string) error {
	dir := s.Set.Path(0, ErasedDir)
	names, err := s.Set.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if err == nil && slices.Contains(suffixes, path.Ext(name)) && name[0] != '.' {
			err = fn(dir + "/" + name)
		}
	}
	if err != nil {
		return fmt.Errorf("crawl: keys of erased URLs: %w", err)
	}
	return nil
}

// Barred returns which keys are of URLs that an erasure of the crawl has ended, or named. It reads a small file whole,
// and of others some 25 keys for each of keys.
func (s *Saved) Barred(keys ...uint64) (barred map[uint64]bool, _ error) {
	barred = map[uint64]bool{}
	return barred, s.eachErasedFile(func(name string) error {
		f, err := s.Set.FS.OpenRead(name)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := f.Size()
		if err != nil {
			return err
		}
		at := func(n int64) (uint64, error) {
			var b [8]byte
			err := disk.ReadFull(f, b[:], 8*n)
			return binary.LittleEndian.Uint64(b[:]), err
		}
		if size <= smallKeys {
			all := make([]byte, size)
			if err := disk.ReadFull(f, all, 0); err != nil {
				return err
			}
			at = func(n int64) (uint64, error) { return binary.LittleEndian.Uint64(all[8*n:]), nil }
		}
		for _, key := range keys {
			if barred[key] {
				continue
			}
			// The last 8 bytes are a checksum.
			if has, err := hasKey(at, size/8-1, key); err != nil {
				return err
			} else if has {
				barred[key] = true
			}
		}
		return nil
	}, ErasedKeys, AskedKeys)
}

// smallKeys is the size of a file of keys that Barred reads at once, in bytes.
const smallKeys = 64 << 10

// hasKey searches n sorted keys.
func hasKey(at func(n int64) (uint64, error), n int64, key uint64) (bool, error) {
	lo, hi := int64(0), n
	for lo < hi {
		mid := (lo + hi) / 2
		switch x, err := at(mid); {
		case err != nil:
			return false, err
		case x == key:
			return true, nil
		case x < key:
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
