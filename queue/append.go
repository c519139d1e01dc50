package queue

import (
	"errors"
	"fmt"

	"drumbeat/disk"
)

// Append puts a copy of rec, at most MaxRecord bytes, at the end. It writes a block when the tail buffer is
// full. After a failed write every Append returns its error. Safe for concurrent use.
func (q *Queue) Append(rec []byte) error {
	if len(rec) > MaxRecord {
		return fmt.Errorf("queue: append to %s: %w: %d bytes, at most %d", q.opt.Name, ErrTooLong, len(rec),
			MaxRecord)
	}
	q.wmu.Lock()
	defer q.wmu.Unlock()
	if err := q.failure.get(); err != nil {
		return err
	}
	need := recordBytes(len(rec))
	if len(q.tail) > 0 && len(q.tail)+need > q.opt.BlockBytes {
		if err := q.flush(); err != nil {
			return q.failure.set("append to", q.opt.Name, err)
		}
	}
	if free := cap(q.tail) - len(q.tail); free < need {
		q.growTail(need)
	}
	q.tail = appendRecord(q.tail, rec)
	q.tailRecords++
	q.appended = true
	q.bytes.Add(int64(len(rec)))
	q.records.Add(1)
	return nil
}

// growTail doubles the tail buffer, up to one block or what a single record needs. A Frozen may keep the old
// one.
func (q *Queue) growTail(need int) {
	size := max(firstBufferBytes, 2*cap(q.tail))
	size = max(min(size, q.opt.BlockBytes), len(q.tail)+need)
	q.tail = append(make([]byte, 0, size), q.tail...)
}

// flush writes the tail as a block and empties it. Called under wmu.
func (q *Queue) flush() error {
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
		q.nextOff = 0
	}
	scratch := q.opt.Pool.get()
	defer q.opt.Pool.put(scratch)
	out := *scratch
	if fresh {
		h := disk.Header{Kind: segmentKind, Version: segmentVersion, Number: seg.Number, Place: uint64(seg.Dir)}
		out = h.Append(out)
	}
	out = appendBlock(out, q.tail, seg.Blocks, q.tailRecords)
	*scratch = out
	if err := q.write(seg, out, fresh); err != nil {
		return err
	}
	q.nextOff += int64(len(out))
	seg.Size = q.nextOff
	seg.Blocks++
	q.install(seg, fresh)
	q.resetTail()
	return nil
}

// write puts p at the end of the segment's file. No descriptor is held between blocks: opening costs some
// microseconds, a block at least a hundred.
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
	}
	return errors.Join(err, f.Close())
}

// install shows the reader the block just written.
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

// resetTail empties the tail, with a new buffer if a Frozen still needs this one.
func (q *Queue) resetTail() {
	if q.saving.Load() {
		q.tail = make([]byte, 0, min(cap(q.tail), q.opt.BlockBytes))
	}
	q.tail = q.tail[:0]
	q.tailRecords = 0
}
