package queue

import (
	"errors"
	"fmt"

	"drumbeat/disk"
)

// writeBehindBytes is the number of bytes of a segment to write before asking the disk to start write-back.
// Without write-behind the disk idles while 1 GB is compressed and checksummed, then works alone when a
// checkpoint syncs. Measured on a disk of 1,000 MB/s: 640 MB/s without, 950 MB/s with.
const writeBehindBytes = 4 << 20

// sealed is a full tail buffer that waits to be written.
type sealed struct {
	raw     []byte
	records uint32
	ticket  uint64
}

// Append puts a copy of rec, at most MaxRecord bytes, at the end. It writes a block when the tail buffer is
// full. After a failed write every Append fails with the same error. It is safe for concurrent use.
func (q *Queue) Append(rec []byte) error {
	if len(rec) > MaxRecord {
		return fmt.Errorf("queue: append to %s: %w: %d bytes, at most %d", q.opt.Name, ErrTooLong, len(rec), MaxRecord)
	}
	need := recordBytes(len(rec))
	q.wmu.Lock()
	if err := q.failure.get(); err != nil {
		q.wmu.Unlock()
		return err
	}
	if len(q.tail)+need <= cap(q.tail) && len(q.tail)+need <= q.opt.BlockBytes {
		q.put(rec)
		q.wmu.Unlock()
		return nil
	}
	return q.appendSlowly(rec, need)
}

// put copies a record to the tail, which must have room. The caller holds wmu.
func (q *Queue) put(rec []byte) {
	q.tail = appendRecord(q.tail, rec)
	q.tailRecords++
	q.appended = true
	q.in.records++
	q.in.bytes += int64(len(rec))
}

// appendSlowly finishes an Append for which the tail buffer has no room. A buffer below the block size
// grows. A full one is replaced, and this goroutine writes it without holding the lock. The caller holds
// wmu; appendSlowly releases it.
func (q *Queue) appendSlowly(rec []byte, need int) error {
	for len(q.tail) > 0 && len(q.tail)+need > q.opt.BlockBytes {
		if q.freezing == 0 {
			full := q.seal(need)
			q.put(rec)
			q.wmu.Unlock()
			return q.flush(full)
		}
		q.moved.Wait()
		if err := q.failure.get(); err != nil {
			q.wmu.Unlock()
			return err
		}
	}
	if cap(q.tail)-len(q.tail) < need {
		q.growTail(need)
	}
	q.put(rec)
	q.wmu.Unlock()
	return nil
}

// growTail doubles the tail buffer, up to one block or the size of a single larger record. It leaves the
// old buffer intact, because a Frozen may refer to it.
func (q *Queue) growTail(need int) {
	size := max(firstBufferBytes, 2*cap(q.tail))
	size = max(min(size, q.opt.BlockBytes), len(q.tail)+need)
	q.tail = append(make([]byte, 0, size), q.tail...)
}

// seal takes the full tail and leaves an empty one with room for a record of need bytes. The caller holds
// wmu.
func (q *Queue) seal(need int) sealed {
	full := sealed{raw: q.tail, records: q.tailRecords, ticket: q.sealed}
	q.sealed++
	q.tail, q.tailRecords = q.opt.Pool.getTail(), 0
	if cap(q.tail) < need {
		q.tail = make([]byte, 0, max(min(cap(full.raw), q.opt.BlockBytes), need))
	}
	return full
}

// flush compresses a sealed tail, waits until all tails sealed before it are written, and writes it.
// Several goroutines may compress at a time.
func (q *Queue) flush(full sealed) error {
	scratch := q.opt.Pool.get()
	defer q.opt.Pool.put(scratch)
	c := q.opt.Pool.getCoder()
	var b encodedBlock
	*scratch, b = encodeBlock(grow((*scratch)[:0], disk.HeaderBytes), full.raw, full.records, c)
	q.opt.Pool.putCoder(c)
	return q.writeInTurn(*scratch, b, full.ticket, full.raw)
}

// writeInTurn writes an encoded block, with room for a segment header before it, once the blocks of earlier
// tickets are written. tail is the buffer that had its records, if any.
func (q *Queue) writeInTurn(buf []byte, b encodedBlock, ticket uint64, tail []byte) error {
	q.wmu.Lock()
	for q.written != ticket {
		q.moved.Wait()
	}
	q.wmu.Unlock()
	err := q.failure.get()
	if err == nil {
		if err = q.writeBlock(buf, b); err != nil {
			err = q.failure.set("append to", q.opt.Name, err)
		}
	}
	q.wmu.Lock()
	defer q.wmu.Unlock()
	// Not if a Frozen may refer to the buffer, or if its size is unusual.
	if tail != nil && !q.saving.Load() && cap(tail) <= q.opt.BlockBytes {
		q.opt.Pool.putTail(tail)
	}
	q.written++
	q.moved.Broadcast()
	return err
}

// settle waits until all sealed tails are written. The caller holds wmu.
func (q *Queue) settle() {
	for q.written != q.sealed {
		q.moved.Wait()
	}
}

// writeBlock appends an encoded block to the last segment or to a new one. buf is the block with room for a
// segment header before it. Only the goroutine whose ticket is next may call it.
func (q *Queue) writeBlock(buf []byte, b encodedBlock) error {
	q.mu.Lock()
	var seg Segment
	if n := len(q.segments); n > 0 {
		seg = q.segments[n-1]
	}
	q.mu.Unlock()
	fresh := seg.Size == 0 || q.nextOff >= q.opt.SegmentBytes
	if fresh {
		seg = Segment{Number: q.nextSegment, Dir: q.nextDir}
		q.nextSegment++
		q.nextDir = (q.nextDir + 1) % q.opt.Set.Len()
		q.nextOff, q.behind = 0, 0
	}
	block := buf[disk.HeaderBytes:]
	b.finish(block, seg.Blocks)
	if fresh {
		h := disk.Header{Kind: segmentKind, Version: segmentVersion, Number: seg.Number, Place: uint64(seg.Dir)}
		h.Append(buf[:0])
		block = buf
	}
	if err := q.write(seg, block, fresh); err != nil {
		return err
	}
	q.nextOff += int64(len(block))
	seg.Size = q.nextOff
	seg.Blocks++
	q.install(seg, fresh)
	return nil
}

// write appends p to the segment's file. It opens the file for each block: that takes a few microseconds, a
// block at least a hundred.
func (q *Queue) write(seg Segment, p []byte, fresh bool) error {
	fsys, name := q.opt.Set.FS, segmentPath(q.opt.Set, q.opt.Name, seg)
	open := fsys.Open
	if fresh {
		if err := fsys.MkdirAll(queueDir(q.opt.Set, seg.Dir, q.opt.Name)); err != nil {
			return err
		}
		open = fsys.Create
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(p, q.nextOff); err != nil {
		err = fmt.Errorf("write %s at %d: %w", name, q.nextOff, err)
	} else if end := q.nextOff + int64(len(p)); end-q.behind >= writeBehindBytes {
		end &^= alignBytes - 1 // the last page will change
		disk.WriteBehind(f, q.behind, end-q.behind)
		q.behind = end
	}
	return errors.Join(err, f.Close())
}

// install makes the written block visible to the reader.
func (q *Queue) install(seg Segment, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !fresh {
		q.segments[len(q.segments)-1] = seg
		return
	}
	if len(q.segments) == 0 {
		q.readOff, q.readSeq = disk.HeaderBytes, 0
	}
	q.segments = append(q.segments, seg)
}
