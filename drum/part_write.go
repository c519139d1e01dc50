package drum

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// passFile is the cache file of one directory to which a pass appends its parts.
type passFile struct {
	cache *cacheFile
	f     disk.File // nil if the file began in RAM
	end   int64     // end of the last finished part, in whole pages
}

// write writes b, whole pages of which the first used bytes matter, at off.
func (pf *passFile) write(d *Drum, b []byte, used int, off int64) error {
	if pf.f == nil {
		return pf.cache.ram.write(b, used, off)
	}
	if _, err := pf.f.WriteAt(b, off); err != nil {
		return fmt.Errorf("drum: write %s: %w", pf.f.Name(), err)
	}
	d.counts.cacheWritten.add(len(b))
	return nil
}

func (pf *passFile) close() error {
	if pf.f == nil {
		return pf.cache.ram.end()
	}
	return pf.f.Close()
}

// partWriter writes the new part of a bucket. A pass reuses it for all its parts.
type partWriter struct {
	d      *Drum
	pf     *passFile
	bucket int
	codec  Codec
	start  int64 // file offset of the part
	off    int64 // file offset of buf
	count  int64 // number of entries in finished blocks

	buf     []byte // finished blocks not yet written; capacity for BufferBytes, a page and a block
	keys    []uint64
	lengths []uint32
	values  []byte
}

func (w *partWriter) open(pf *passFile, bucket int, codec Codec) {
	w.codec = codec
	w.pf, w.bucket, w.start, w.off, w.count = pf, bucket, pf.end, pf.end, 0
	w.buf, w.keys, w.lengths, w.values = w.buf[:0], w.keys[:0], w.lengths[:0], w.values[:0]
}

// add appends an entry. Keys must ascend.
func (w *partWriter) add(key uint64, value []byte) error {
	o := &w.d.opt
	if o.ValueBytes != 0 {
		if len(value) > o.MaxValueBytes || o.ValueBytes > 0 && len(value) != o.ValueBytes {
			panic(fmt.Sprintf("BUG: drum: %s: Apply gave key %x a value of %d bytes", o.Name, key, len(value)))
		}
		w.lengths = append(w.lengths, uint32(len(value)))
		w.values = append(w.values, value...)
	}
	w.keys = append(w.keys, key)
	if len(w.keys) == blockKeys || len(w.values) >= blockValueBytes {
		return w.endBlock()
	}
	return nil
}

// addFrom appends n entries of the reader's block from pos on, except those that Options.Expunge drops.
func (w *partWriter) addFrom(r *partReader, n int) error {
	if w.d.opt.ValueBytes != 0 {
		expunge := w.d.opt.Expunge
		for i := r.pos; i < r.pos+n; i++ {
			if expunge != nil && expunge(Key(r.keys[i]), r.value(i)) {
				w.d.counts.expunged.add(1)
				continue
			}
			if err := w.add(r.keys[i], r.value(i)); err != nil {
				return err
			}
		}
		return nil
	}
	keys := r.keys[r.pos : r.pos+n]
	for len(keys) > 0 {
		m := min(len(keys), blockKeys-len(w.keys))
		w.keys = append(w.keys, keys[:m]...)
		keys = keys[m:]
		if len(w.keys) == blockKeys {
			if err := w.endBlock(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endBlock encodes the current block.
func (w *partWriter) endBlock() error {
	if len(w.keys) == 0 {
		return nil
	}
	o := &w.d.opt
	h := cacheHeader{
		codec: w.codec, bucket: uint32(w.bucket), keys: uint32(len(w.keys)), first: w.keys[0],
		values: o.valueCode(),
	}
	start := len(w.buf)
	b := w.buf[:start+cacheHeaderBytes]
	if w.codec == Rice {
		h.param = riceParameter(w.keys)
		b = appendRice(b, w.keys, h.param)
	} else {
		b = appendRaw(b, w.keys)
	}
	if o.ValueBytes == variableValues {
		for _, n := range w.lengths {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	b = append(b, w.values...)
	h.payload = uint32(len(b) - start - cacheHeaderBytes)
	h.put(b[start:])
	w.buf = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
	w.count += int64(len(w.keys))
	w.keys, w.lengths, w.values = w.keys[:0], w.lengths[:0], w.values[:0]
	if len(w.buf) >= o.BufferBytes {
		return w.write(len(w.buf))
	}
	return nil
}

// write writes the whole pages of buf. Their first used bytes matter.
func (w *partWriter) write(used int) error {
	n := len(w.buf) / pageBytes * pageBytes
	if err := w.pf.write(w.d, w.buf[:n], min(used, n), w.off); err != nil {
		return err
	}
	w.off += int64(n)
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	return nil
}

// finish writes the rest and returns the part. The part is then complete in its file, but not synced.
func (w *partWriter) finish() (part, error) {
	if err := w.endBlock(); err != nil {
		return part{}, err
	}
	if w.count == 0 {
		return part{}, nil
	}
	used := len(w.buf)
	size := w.off + int64(used) - w.start
	end := pageUp(used)
	clear(w.buf[used:end])
	w.buf = w.buf[:end]
	if err := w.write(used); err != nil {
		return part{}, err
	}
	w.pf.end = w.off
	return part{
		gen: w.pf.cache.gen, dir: w.pf.cache.dir, off: w.start, size: size, keys: w.count,
	}, nil
}
