package mercator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"sort"

	"github.com/cespare/xxhash/v2"

	"drumbeat/bench/baselines"
	"drumbeat/disk"
)

// key is the key of a URL behind that of its site.
type key struct {
	site uint32
	url  uint64
}

const (
	keyBytes   = 12
	blockKeys  = 4096 / keyBytes
	blockBytes = blockKeys * keyBytes
	firstBytes = 16 // of a key in RAM
)

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.site, o.site), cmp.Compare(k.url, o.url))
}

func (k key) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(dst, k.site), k.url)
}

func decodeKey(b []byte) key {
	return key{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])}
}

// keyOf returns the key of a link. Its site is the text between the scheme and the path.
func keyOf(l baselines.Link) key {
	site := l.Text
	if i := bytes.Index(site, []byte("://")); i >= 0 {
		site = site[i+3:]
	}
	if i := bytes.IndexAny(site, "/?#"); i >= 0 {
		site = site[:i]
	}
	return key{uint32(xxhash.Sum64(site)), l.Key}
}

// keyFile is the sorted file of known keys. Each merge writes a new version.
type keyFile struct {
	fs       disk.FS
	dir      string
	most     int // blocks
	f        disk.File
	keys     int64
	versions int
	first    []key // of each block
}

// begin creates the next version.
func (f *keyFile) begin() (*appender, error) {
	f.versions++
	file, err := f.fs.Create(path.Join(f.dir, fmt.Sprintf("keys-%d", f.versions)))
	if err != nil {
		return nil, err
	}
	return &appender{f: file, most: f.most, buf: make([]byte, 0, chunkBytes)}, nil
}

// replace makes what was written the current version.
func (f *keyFile) replace(w *appender) error {
	if err := w.flush(); err != nil {
		return err
	}
	old := f.f
	f.f, f.keys, f.first = w.f, w.keys, w.first
	if old == nil {
		return nil
	}
	name := old.Name()
	if err := old.Close(); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

// merge writes a version with sorted keys more. Keys that it has already are kept once.
func (f *keyFile) merge(ctx context.Context, keys []key) error {
	w, err := f.begin()
	if err != nil {
		return err
	}
	if err := f.mergeInto(ctx, w, keys); err != nil {
		return errJoinClose(err, w.f)
	}
	return f.replace(w)
}

func errJoinClose(err error, f io.Closer) error {
	_ = f.Close() // the first error says more; Close of the store removes the file
	return err
}

func (f *keyFile) mergeInto(ctx context.Context, w *appender, keys []key) error {
	chunk := make([]byte, chunkBytes/keyBytes*keyBytes)
	for at := int64(0); at < f.keys; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(len(chunk)), (f.keys-at)*keyBytes)
		if err := disk.ReadFull(f.f, chunk[:n], at*keyBytes); err != nil {
			return err
		}
		for b := chunk[:n]; len(b) > 0; b = b[keyBytes:] {
			old := decodeKey(b)
			for len(keys) > 0 && keys[0].compare(old) < 0 {
				if err := w.add(keys[0]); err != nil {
					return err
				}
				keys = keys[1:]
			}
			if len(keys) > 0 && keys[0] == old {
				keys = keys[1:]
			}
			if err := w.add(old); err != nil {
				return err
			}
		}
		at += n / keyBytes
	}
	for _, k := range keys {
		if err := w.add(k); err != nil {
			return err
		}
	}
	return nil
}

func (f *keyFile) close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

// appender writes a version.
type appender struct {
	f     disk.File
	at    int64
	keys  int64
	most  int
	buf   []byte
	first []key
}

// add appends a key, which must be above the last one.
func (w *appender) add(k key) error {
	if w.keys%blockKeys == 0 {
		if len(w.first) == w.most {
			return fmt.Errorf("the first keys of %d blocks fill their share of RAM", w.most)
		}
		w.first = append(w.first, k)
	}
	w.keys++
	if w.buf = k.append(w.buf); len(w.buf)+keyBytes > cap(w.buf) {
		return w.flush()
	}
	return nil
}

func (w *appender) flush() error {
	n, err := w.f.WriteAt(w.buf, w.at)
	w.at, w.buf = w.at+int64(n), w.buf[:0]
	return err
}

// blocks returns a reader of single blocks. It keeps the last one. Readers may work at the same time.
func (f *keyFile) blocks() *blockReader {
	return &blockReader{file: f, block: -1, buf: make([]byte, blockBytes)}
}

type blockReader struct {
	file  *keyFile
	block int
	buf   []byte
}

// has looks for a key, and reads its block unless that was read last.
func (r *blockReader) has(k key) (bool, error) {
	f := r.file
	block := sort.Search(len(f.first), func(i int) bool { return f.first[i].compare(k) > 0 }) - 1
	if block < 0 {
		return false, nil
	}
	n := int(min(blockKeys, f.keys-int64(block)*blockKeys))
	if block != r.block {
		if err := disk.ReadFull(f.f, r.buf[:n*keyBytes], int64(block)*blockBytes); err != nil {
			r.block = -1
			return false, err
		}
		r.block = block
	}
	at := func(i int) key { return decodeKey(r.buf[i*keyBytes:]) }
	i := sort.Search(n, func(i int) bool { return at(i).compare(k) >= 0 })
	return i < n && at(i) == k, nil
}
