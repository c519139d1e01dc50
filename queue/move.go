package queue

import "drumbeat/disk"

// MoveTo moves records of q to dst, the oldest first, as long as keep reports true. It ends at the first
// record that stays, which Peek then returns, at the end of q, or once it has moved at least most records
// and is at the end of a block. It returns the number of records moved, also with an error.
//
// A block whose records all move is written to dst as it is stored, without another compression, and in the
// size that it had in q. It comes before the records in dst's tail, so dst is not strictly in order. keep
// must not change or retain the record. For the reader goroutine of q. dst must be another queue, and may take
// other records meanwhile.
func (q *Queue) MoveTo(dst *Queue, most int, keep func(rec []byte) bool) (moved int, err error) {
	q.keepPacked = true
	for moved < most {
		if _, ok, err := q.Peek(); !ok || err != nil {
			return moved, err
		}
		r, err := q.runAt(keep)
		if err != nil || r.records == 0 {
			return moved, err
		}
		if q.headRead == 0 && r.end == len(q.head) && len(q.packed) > 0 {
			err = dst.appendBlock(q.packed, encodedBlock{raw: uint32(r.end), records: r.records, codec: q.packedCodec},
				r.bytes)
		} else {
			err = dst.appendRun(q.head[q.headAt:r.end])
		}
		if err != nil {
			return moved, err
		}
		whole := r.end == len(q.head)
		q.advanceTo(r)
		if moved += int(r.records); !whole {
			break
		}
	}
	return moved, nil
}

// run is a number of records of the head from headAt on.
type run struct {
	end     int // offset after them
	records uint32
	bytes   int64 // of the records, without their lengths
}

// runAt returns the longest run of records that keep reports true for.
func (q *Queue) runAt(keep func(rec []byte) bool) (r run, err error) {
	for r.end = q.headAt; r.end < len(q.head); {
		rec, size := nextRecord(q.head[r.end:])
		if size == 0 {
			return r, q.badRecord()
		}
		if !keep(rec) {
			break
		}
		r.end += size
		r.records++
		r.bytes += int64(len(rec))
	}
	return r, nil
}

// advanceTo moves past a run.
func (q *Queue) advanceTo(r run) {
	q.mu.Lock()
	q.headAt = r.end
	q.headRead += r.records
	q.out.records += int64(r.records)
	q.out.bytes += r.bytes
	q.mu.Unlock()
	q.peek, q.peekSize = nil, 0
}

// appendRun appends records that are coded as in a block.
func (q *Queue) appendRun(raw []byte) error {
	for len(raw) > 0 {
		q.wmu.Lock()
		if err := q.failure.get(); err != nil {
			q.wmu.Unlock()
			return err
		}
		room := min(cap(q.tail), q.opt.BlockBytes) - len(q.tail)
		end := 0
		for end < len(raw) {
			rec, size := nextRecord(raw[end:])
			if end+size > room {
				break
			}
			end += size
			q.tailRecords++
			q.in.records++
			q.in.bytes += int64(len(rec))
		}
		if end > 0 {
			q.tail = append(q.tail, raw[:end]...)
			q.appended = true
		}
		q.wmu.Unlock()
		if raw = raw[end:]; len(raw) == 0 {
			break
		}
		rec, size := nextRecord(raw) // the tail grows or is replaced
		if err := q.Append(rec); err != nil {
			return err
		}
		raw = raw[size:]
	}
	return nil
}

// appendBlock appends an encoded block, with room for its header, whose records have the given bytes in sum.
// It writes the block once those of the tails sealed before it are written.
func (q *Queue) appendBlock(packed []byte, b encodedBlock, bytes int64) error {
	q.wmu.Lock()
	for q.freezing > 0 {
		q.moved.Wait()
	}
	if err := q.failure.get(); err != nil {
		q.wmu.Unlock()
		return err
	}
	ticket := q.sealed
	q.sealed++
	q.in.records += int64(b.records)
	q.in.bytes += bytes
	q.appended = true
	q.wmu.Unlock()

	scratch := q.opt.Pool.get()
	defer q.opt.Pool.put(scratch)
	*scratch = append(grow((*scratch)[:0], disk.HeaderBytes), packed...)
	return q.writeInTurn(*scratch, b, ticket, nil)
}
