package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"drumbeat/disk"
)

// stream is a sequence of records: the blocks of a file, then those in the buffer. The mu of its bucket or
// log guards it until it is sealed. After that only its pending mark changes.
type stream struct {
	kind    blockKind
	bucket  int
	dir     int
	gen     uint64 // of the file; 0 = no file yet
	epoch   uint64 // epoch in which the file was named
	written int64  // length of the file in bytes
	reserve int64  // end of the reserved space in the file

	// buf has room for a block header before the records and a checksum after them. It is nil before the
	// first record.
	buf     []byte
	records uint32 // in buf
	base    uint64 // of buf's block
	last    uint64 // with text logs: number of the last record

	// fill is the number of the buffer's filling, 0 until a Freeze finds it. saved is the number of its
	// bytes saved in the file in.
	fill  uint64
	saved int
	in    *bufferFile
	// pending is set from Freeze until the frozen prefix of buf is saved.
	pending *frozenBuffer
}

// input holds the pending tuples of a bucket, open or sealed.
type input struct {
	keys, aux stream
	tuples    int64
	cost      int64 // RAM in a round, by Options.TupleBytes
	values    int64 // bytes of values
	bytes     int64 // payload bytes of both streams

	// keysAt and auxAt are the positions up to which a sealed input has been merged.
	keysAt, auxAt cursor
}

// cursor is a position between two records of a stream.
type cursor struct {
	off int64  // file offset of the block; stream.written means the buffer
	rec uint32 // records of the block already taken
}

func (d *Drum) newInput(bucket int) *input {
	dir := bucket % d.dirs()
	return &input{
		keys: stream{kind: keyBlocks, bucket: bucket, dir: dir},
		aux:  stream{kind: auxBlocks, bucket: bucket, dir: dir},
	}
}

// bufferPool keeps buffers of size bytes for reuse.
type bufferPool struct {
	size int
	mu   sync.Mutex
	free [][]byte
	made int
}

// get returns an empty buffer with capacity for n bytes of payload. The capacity is at least the pool's size.
func (p *bufferPool) get(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if need := pageUp(n + bucketFrameBytes); need > p.size {
		return disk.Alloc(need)[:bucketHeaderBytes]
	}
	if last := len(p.free) - 1; last >= 0 {
		b := p.free[last]
		p.free = p.free[:last]
		return b[:bucketHeaderBytes]
	}
	p.made++
	return disk.Alloc(p.size)[:bucketHeaderBytes]
}

func (p *bufferPool) put(b []byte) {
	if cap(b) != p.size {
		disk.Free(b)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, b)
}

func (p *bufferPool) freeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.free {
		disk.Free(b)
	}
	p.made, p.free = p.made-len(p.free), nil
}

// pool returns the pool of the buffers of a kind.
func (d *Drum) pool(kind blockKind) *bufferPool {
	if kind.isLog() {
		return &d.logBufs
	}
	return &d.bufs
}

// room makes room for n more bytes in the buffer, and writes it first if it is full.
func (d *Drum) room(s *stream, n int) error {
	if s.buf == nil {
		s.buf = d.pool(s.kind).get(n)
		return nil
	}
	if len(s.buf)+n+checksumBytes <= cap(s.buf) {
		return nil
	}
	return d.flush(s)
}

// flush writes the buffer as one block and empties it.
func (d *Drum) flush(s *stream) error {
	s.settle()
	d.name(s)
	block, pack := d.pack(s)
	err := d.writeBlock(s, block)
	if pack != nil {
		d.packs.put(pack)
	}
	if err != nil {
		return err
	}
	s.buf, s.records = s.buf[:bucketHeaderBytes], 0
	s.vacate()
	return nil
}

// name gives the stream's file a generation if it has none yet.
func (d *Drum) name(s *stream) {
	if s.gen == 0 {
		s.gen, s.epoch = d.gen.Add(1), d.files.epoch()
	}
}

// writeBlock appends a block to the stream's file.
func (d *Drum) writeBlock(s *stream, block []byte) error {
	f, err := d.openStream(s)
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = f.WriteAt(block, s.written)
	if s.kind.isLog() {
		d.packMeter.wrote(len(block), time.Since(began))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("drum: write %s: %w", f.Name(), err)
	}
	d.counts.wrote(s.kind, len(block))
	if s.kind.isLog() {
		d.logBytes.Add(int64(len(block)))
	}
	s.written += int64(len(block))
	return nil
}

// pack returns the buffer as a block, built in place. If the stream is compressed and the block gets
// shorter, the block is in pack, a buffer of d.packs. If pack is not nil, the caller returns it to d.packs
// once the block is written.
func (d *Drum) pack(s *stream) (block, pack []byte) {
	payload := s.buf[bucketHeaderBytes:]
	h := bucketHeader{
		kind: s.kind, bucket: uint32(s.bucket), records: s.records, gen: s.gen, base: s.base,
		stored: uint32(len(payload)), raw: uint32(len(payload)),
	}
	block = s.buf
	if d.compresses(s.kind) {
		pack = d.packs.get(s2.MaxEncodedLen(len(payload)))
		began := time.Now()
		packed := s2.Encode(pack[bucketHeaderBytes:cap(pack)], payload)
		d.packMeter.packed(len(payload), len(packed), time.Since(began))
		if pageUp(len(packed)+bucketFrameBytes) < pageUp(len(payload)+bucketFrameBytes) {
			h.codec, h.stored = codecS2, uint32(len(packed))
			block = pack[:bucketHeaderBytes+len(packed)]
		}
	}
	h.put(block)
	block = binary.LittleEndian.AppendUint64(block, xxhash.Sum64(block))
	end := pageUp(len(block))
	clear(block[len(block):end])
	return block[:end], pack
}

// compresses reports whether the next block of a kind is to be compressed.
func (d *Drum) compresses(kind blockKind) bool {
	return kind.isLog() && (d.opt.PackTexts == PackAlways ||
		d.opt.PackTexts == PackWhereDisksBind && d.packMeter.pays())
}

// extentBlocks is the number of blocks for which space is reserved at once, from the second block on. This
// keeps files that grow concurrently in large extents. A single block reserves nothing.
const extentBlocks = 8

// openStream opens the file for writing. Before the first block it creates the file.
func (d *Drum) openStream(s *stream) (disk.File, error) {
	name := d.opt.path(s.dir, bucketName(s.kind, s.bucket, s.gen))
	if s.written == 0 {
		f, err := d.fs().Create(name)
		if err != nil {
			return nil, fmt.Errorf("drum: create %s: %w", name, err)
		}
		return f, nil
	}
	f, err := d.fs().Open(name)
	if err != nil {
		return nil, fmt.Errorf("drum: open %s: %w", name, err)
	}
	block := int64(d.pool(s.kind).size)
	if s.written+block > s.reserve {
		extent := extentBlocks * block
		if err := f.Preallocate(s.written, extent); err != nil {
			f.Close()
			return nil, fmt.Errorf("drum: reserve space for %s: %w", name, err)
		}
		s.reserve = s.written + extent
	}
	return f, nil
}

// release returns the buffer to its pool.
func (d *Drum) release(s *stream) {
	s.settle()
	s.vacate()
	if s.buf != nil {
		d.pool(s.kind).put(s.buf)
	}
	s.buf, s.records = nil, 0
}

// blockReader reads the payloads of a stream in order, from a cursor on.
type blockReader struct {
	d *Drum
	s *stream
	c chunkReader

	// The current block: its offset, its payload without frame, its records.
	off     int64
	payload []byte
	records uint32
	base    uint64
	next    int64 // offset of the next block
	done    bool
	raw     []byte // memory for the decoded payload of a compressed block
}

// open starts at the block of at. The caller skips its first at.rec records.
func (r *blockReader) open(d *Drum, s *stream, at cursor, chunk *[]byte) error {
	*r = blockReader{d: d, s: s, next: at.off}
	if at.off >= s.written {
		return nil
	}
	name := d.opt.path(s.dir, bucketName(s.kind, s.bucket, s.gen))
	f, err := d.fs().OpenRead(name)
	if err != nil {
		return fmt.Errorf("drum: open %s: %w", name, err)
	}
	r.c = chunkReader{f: f, off: at.off, end: s.written, buf: chunk, count: d.counts.reader(s.kind)}
	return nil
}

func (r *blockReader) close() {
	r.c.close()
	disk.Free(r.raw)
	r.raw, r.payload = nil, nil
}

// load reads the next block. ok is false at the end. The previous payload becomes invalid.
func (r *blockReader) load() (ok bool, err error) {
	raw, ok, err := r.fetch()
	if raw > 0 {
		if r.raw, r.payload, err = unpack(r.raw, r.payload, raw); err != nil {
			return false, r.corruptPack(err)
		}
	}
	return ok, err
}

func (r *blockReader) corruptPack(err error) error {
	return corrupt(r.path(), r.off+bucketHeaderBytes, "s2 block", err.Error())
}

// fetch is load without decompression. For a compressed payload raw is its decoded length, otherwise 0.
func (r *blockReader) fetch() (raw int, ok bool, err error) {
	if r.done {
		return 0, false, nil
	}
	r.off = r.next
	if r.off >= r.s.written {
		r.done = true
		if r.s.records == 0 {
			return 0, false, nil
		}
		r.payload, r.records, r.base = r.s.buf[bucketHeaderBytes:], r.s.records, r.s.base
		return 0, true, nil
	}
	head, err := r.c.peek(bucketHeaderBytes)
	if err != nil {
		return 0, false, err
	}
	var h bucketHeader
	path := r.c.f.Name()
	if err := h.parse(head, path, r.off); err != nil {
		return 0, false, err
	}
	if h.kind != r.s.kind || h.bucket != uint32(r.s.bucket) || h.gen != r.s.gen {
		const format = "%s of bucket %d, generation %d"
		return 0, false, corrupt(path, r.off, fmt.Sprintf(format, r.s.kind, r.s.bucket, r.s.gen),
			fmt.Sprintf(format, h.kind, h.bucket, h.gen))
	}
	size := pageUp(bucketFrameBytes + int64(h.stored))
	block, err := r.c.peek(int(size))
	if err != nil {
		return 0, false, err
	}
	n := bucketHeaderBytes + int(h.stored)
	if err := checkSum(block[:n], block[n:], path, r.off); err != nil {
		return 0, false, err
	}
	r.payload, r.records, r.base = block[bucketHeaderBytes:n], h.records, h.base
	r.c.skip(int(size))
	r.next += size
	if h.codec == codecS2 {
		if raw = int(h.raw); raw == 0 {
			return 0, false, r.corruptPack(errors.New("empty"))
		}
	}
	return raw, true, nil
}

// unpack decodes a payload of raw decoded bytes into buf, memory of disk.Alloc. It replaces buf if that is
// too small.
func unpack(buf, payload []byte, raw int) (grown, decoded []byte, err error) {
	if n, err := s2.DecodedLen(payload); err != nil || n != raw {
		return buf, nil, errors.Join(fmt.Errorf("%d bytes decoded, the header has %d", n, raw), err)
	}
	if len(buf) < raw {
		disk.Free(buf)
		buf = disk.Alloc(pageUp(raw))
	}
	decoded, err = s2.Decode(buf, payload)
	return buf, decoded, err
}

// at returns the cursor after rec records of the current block.
func (r *blockReader) at(rec uint32) cursor {
	if rec == r.records && !r.done {
		return cursor{off: r.next}
	}
	return cursor{off: r.off, rec: rec}
}

// partFile is a file that is read: a disk.File or a ramFile.
type partFile interface {
	io.ReaderAt
	io.Closer
	Name() string
}

// chunkReader reads a range of a file in chunks of len(*buf) bytes. It enlarges *buf for a longer piece.
type chunkReader struct {
	f        partFile // nil: empty
	off, end int64    // range not read yet
	buf      *[]byte
	lo, hi   int // bytes of buf that have been read but not skipped
	count    *counter
}

// peek returns the next n bytes, valid until the next peek.
func (c *chunkReader) peek(n int) ([]byte, error) {
	if c.hi-c.lo >= n {
		return (*c.buf)[c.lo : c.lo+n], nil
	}
	if int64(n-(c.hi-c.lo)) > c.end-c.off {
		return nil, corrupt(c.f.Name(), c.off-int64(c.hi-c.lo), fmt.Sprintf("%d bytes", n),
			fmt.Sprintf("%d bytes before the end", int64(c.hi-c.lo)+c.end-c.off))
	}
	// Reads start at whole pages, both of the file and of memory, so that a file system can avoid copies.
	// The bytes at hand move in front of the page. The known bytes of the page are read again.
	have, skew := c.hi-c.lo, int(c.off%pageBytes)
	page := pageUp(max(0, have-skew))
	lo := page + skew - have
	if n > len(*c.buf)-lo {
		larger := disk.Alloc(pageUp(lo + n))
		copy(larger[lo:], (*c.buf)[c.lo:c.hi])
		disk.Free(*c.buf)
		*c.buf = larger
	} else {
		copy((*c.buf)[lo:], (*c.buf)[c.lo:c.hi])
	}
	c.lo, c.hi = lo, lo+have
	c.off -= int64(skew)
	m := int(min(int64(len(*c.buf)-page), c.end-c.off))
	if err := disk.ReadFull(c.f, (*c.buf)[page:page+m], c.off); err != nil {
		c.off += int64(skew)
		return nil, fmt.Errorf("drum: read %s: %w", c.f.Name(), err)
	}
	c.count.add(m)
	c.off += int64(m)
	c.hi = page + m
	return (*c.buf)[c.lo : c.lo+n], nil
}

// skip passes n bytes returned by peek.
func (c *chunkReader) skip(n int) { c.lo += n }

func (c *chunkReader) close() {
	if c.f != nil {
		c.f.Close() // read only
	}
	c.f = nil
}
