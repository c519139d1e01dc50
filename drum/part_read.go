package drum

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"drumbeat/disk"
)

// partReader reads a part block by block, in key order.
type partReader struct {
	opt    *Options
	bucket int
	shift  uint
	part   part
	c      chunkReader

	// The current block. keys[pos:] are unread.
	keys   []uint64
	pos    int
	ends   []uint32 // of the values, if they are variable
	values []byte
	seen   int64 // keys of the blocks loaded
	last   uint64
	// late has the late keys of the bucket that are unread; keys has room for manyKeys of them.
	late []uint64
	// The header of the current block, and its bytes in the chunk.
	head   cacheHeader
	peeked []byte
	// For probe: the payload of the current block, its index, and those of the blocks before.
	block      []byte
	blocks     int // blocks read
	index      blockIndex
	indexes    *partIndex
	indexBytes *atomic.Int64
	// numbers is true for a list of numbers in a log. Such a list belongs to no bucket.
	numbers bool
}

// open starts reading p from the file in c, which is nil if p is empty. It reuses the buffers.
func (r *partReader) open(p part, bucket int, c chunkReader) {
	c.off, c.end = p.off, p.off+p.size
	r.bucket, r.part, r.c = bucket, p, c
	r.keys, r.pos, r.ends, r.values, r.seen, r.last = r.keys[:0], 0, r.ends[:0], nil, 0, 0
	r.late = nil
}

// load reads the next block. ok is false at the end of the part.
func (r *partReader) load() (ok bool, err error) {
	r.keys, r.pos = r.keys[:0], 0
	if r.part.gen == 0 {
		return false, nil
	}
	if off := r.at(); off == r.part.off+r.part.size {
		if r.seen != r.part.keys {
			want := fmt.Sprintf("%d keys in the part", r.part.keys)
			return false, corrupt(r.c.f.Name(), off, want, fmt.Sprint(r.seen))
		}
		if len(r.late) > 0 {
			r.keys, r.late = append(r.keys, r.late...), nil
			return true, nil
		}
		return false, nil
	}
	size, err := r.peekBlock()
	if err != nil {
		return false, err
	}
	if err := r.decodeBlock(); err != nil {
		return false, err
	}
	r.c.skip(size)
	r.seen += int64(r.head.keys)
	r.mergeLate()
	return true, nil
}

// peekBlock reads the header and the bytes of the next block, and verifies its checksum.
func (r *partReader) peekBlock() (size int, err error) {
	off, path := r.at(), r.c.f.Name()
	head, err := r.c.peek(cacheHeaderBytes)
	if err != nil {
		return 0, err
	}
	if err := r.head.parse(head, path, off); err != nil {
		return 0, err
	}
	if h := &r.head; h.bucket != uint32(r.bucket) || h.values != r.opt.valueCode() {
		return 0, corrupt(path, off+8, fmt.Sprintf("bucket %d, values %#x", r.bucket, r.opt.valueCode()),
			fmt.Sprintf("bucket %d, values %#x", h.bucket, h.values))
	}
	size = cacheFrameBytes + int(r.head.payload)
	if r.peeked, err = r.c.peek(size); err != nil {
		return 0, err
	}
	n := size - checksumBytes
	return size, checkSum(r.peeked[:n], r.peeked[n:], path, off)
}

// decodeBlock decodes the keys and values of the block that peekBlock has read.
func (r *partReader) decodeBlock() error {
	if err := r.decode(&r.head, r.peeked[cacheHeaderBytes:len(r.peeked)-checksumBytes]); err != nil {
		return corrupt(r.c.f.Name(), r.at()+cacheHeaderBytes, "keys in order and their values", err.Error())
	}
	return nil
}

// at returns the offset of the next block.
func (r *partReader) at() int64 { return r.c.off - int64(r.c.hi-r.c.lo) }

func (r *partReader) decode(h *cacheHeader, b []byte) (err error) {
	r.keys = r.keys[:h.keys]
	r.keys[0] = h.first
	if h.codec == Rice {
		b, err = decodeRice(r.keys, b, h.param)
	} else {
		b, err = decodeRaw(r.keys, b)
	}
	if err != nil {
		return err
	}
	last := r.keys[len(r.keys)-1]
	if r.keys[0] != h.first || h.first <= r.last && r.last > 0 {
		return errKeys
	}
	if !r.numbers && (h.first>>r.shift != uint64(r.bucket) || last>>r.shift != uint64(r.bucket)) {
		return errKeys
	}
	r.last = last
	switch v := r.opt.ValueBytes; {
	case v >= 0:
		if len(b) != v*len(r.keys) {
			return fmt.Errorf("%d bytes of values for %d keys", len(b), len(r.keys))
		}
	default:
		if len(b) < 4*len(r.keys) {
			return fmt.Errorf("%d bytes of lengths for %d keys", len(b), len(r.keys))
		}
		r.ends = r.ends[:len(r.keys)]
		sum := uint64(0)
		for i := range r.ends {
			sum += uint64(binary.LittleEndian.Uint32(b[4*i:]))
			r.ends[i] = uint32(sum)
		}
		b = b[4*len(r.keys):]
		if sum != uint64(len(b)) {
			return fmt.Errorf("%d bytes of values, lengths add up to %d", len(b), sum)
		}
	}
	r.values = b
	return nil
}

// value returns the value of keys[i], valid until the next load.
func (r *partReader) value(i int) []byte {
	if v := r.opt.ValueBytes; v >= 0 {
		return r.values[i*v : (i+1)*v]
	}
	start := uint32(0)
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.values[start:r.ends[i]]
}

// below returns the number of keys from pos on that are below key. The search starts with small steps,
// since the key is often near.
func (r *partReader) below(key uint64) int {
	ks := r.keys[r.pos:]
	if len(ks) == 0 || ks[0] >= key {
		return 0
	}
	if ks[len(ks)-1] < key {
		return len(ks)
	}
	step := 1
	for step < len(ks) && ks[step] < key {
		step *= 2
	}
	lo, hi := step/2, min(step, len(ks)-1) // ks[lo] < key <= ks[hi]
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; ks[mid] < key {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// valueCode returns the field "values" of a block header.
func (o *Options) valueCode() uint32 {
	if o.ValueBytes == variableValues {
		return variableLength
	}
	return uint32(o.ValueBytes)
}

// openPart opens the file of p for reading and verifies its header.
func (o *Options) openPart(p part, kind string) (disk.File, error) {
	name := o.partPath(kind, p.dir, p.gen)
	f, err := o.Set.FS.OpenRead(name)
	if err != nil {
		return nil, fmt.Errorf("drum: open %s: %w", name, err)
	}
	h := disk.Header{Kind: kind, Version: formatVersion, Number: p.gen, Place: uint64(p.dir)}
	if err := disk.CheckHeader(f, h); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
