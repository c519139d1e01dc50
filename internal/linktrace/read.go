package linktrace

import (
	"encoding/binary"
	"fmt"

	"drumbeat/disk"
)

// Reader replays a trace. It belongs to one goroutine.
type Reader struct {
	f     disk.File
	sum   Summary
	at    int64
	last  head
	block []byte
	keys  []byte // keys of block not yet read
}

// Open opens a trace and reads the heads of its blocks.
func Open(fs disk.FS, path string) (*Reader, error) {
	f, err := fs.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("linktrace: open %s: %w", path, err)
	}
	sum, err := scan(f)
	if err != nil {
		_ = f.Close() // the first error says more
		return nil, fmt.Errorf("linktrace: %s is not a readable trace: %w", path, err)
	}
	return &Reader{f: f, sum: sum, at: disk.HeaderBytes}, nil
}

// Summary returns the state at Open; Read ignores links that are added later.
func (r *Reader) Summary() Summary { return r.sum }

// Read fills keys and returns their number. It returns fewer than len(keys) at the end of the trace.
func (r *Reader) Read(keys []uint64) (int, error) {
	n := 0
	for n < len(keys) {
		if len(r.keys) == 0 {
			if r.at >= r.sum.EndBytes {
				break
			}
			if err := r.next(); err != nil {
				return n, fmt.Errorf("linktrace: read: %w", err)
			}
		}
		for len(r.keys) > 0 && n < len(keys) {
			keys[n] = binary.LittleEndian.Uint64(r.keys)
			r.keys = r.keys[8:]
			n++
		}
	}
	return n, nil
}

func (r *Reader) next() error {
	heads := r.sum.headBytes
	h, err := readHead(r.f, r.at, heads)
	if err != nil {
		return err
	}
	if err := checkHead(r.f.Name(), r.at, h, r.last); err != nil {
		return err
	}
	block, err := readBlock(r.f, r.at, h.bytes(heads), r.block)
	if err != nil {
		return err
	}
	r.block, r.keys = block, block[heads:len(block)-blockSum]
	r.at, r.last = r.at+h.bytes(heads), h
	return nil
}

func (r *Reader) Close() error {
	if err := r.f.Close(); err != nil {
		return fmt.Errorf("linktrace: close: %w", err)
	}
	return nil
}
