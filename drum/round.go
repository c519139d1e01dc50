package drum

import (
	"encoding/binary"
	"fmt"

	"drumbeat/disk"
)

const (
	valueOffsetBytes = 4
	resultBytes      = 8
	outLenBytes      = 2
	// runItems is the maximum length of a run passed to Apply, itemBytes the size of an Item.
	runItems  = 1024
	itemBytes = 80
)

// round holds the tuples of one round in RAM, TupleBytes each. Its memory is outside the heap. It is
// kept for the next round, and for the next pass if little of it was touched (keptBytes).
type round struct {
	opt *Options

	entries []entry
	offsets []uint32 // of values, by number of arrival; one more than entries
	values  []byte
	results []uint64 // results of Apply, by number of arrival
	outLens []uint16
	outs    []byte // OutBytes each
	most    int    // tuples of the current round

	// peak is the largest sum of touched bytes since the memory was allocated.
	touched [6]int64
	peak    int64
}

// load reads a prefix of the sealed input for a bucket with keys, at most BucketBytes but at least one tuple,
// and returns the cursor after it.
func (r *round) load(d *Drum, in *input, keys int64, chunk *[]byte) (cursor, error) {
	r.prepare(in, keys)
	var br blockReader
	if err := br.open(d, &in.keys, in.keysAt, chunk); err != nil {
		return cursor{}, err
	}
	defer br.close()
	end, skip, cost := in.keysAt, in.keysAt.rec, int64(valueOffsetBytes)
	for int64(len(r.entries)) < in.tuples {
		ok, err := br.load()
		if err != nil {
			return cursor{}, err
		}
		if !ok {
			missing := in.tuples - int64(len(r.entries))
			return cursor{}, corrupt(br.path(), br.next, fmt.Sprintf("%d more tuples", missing), "end")
		}
		take := r.take
		if d.opt.logged() {
			take = r.takeNumbered
		}
		taken, full, err := take(&br, d.shift, skip, in.tuples, &cost)
		if err != nil {
			return cursor{}, err
		}
		end, skip = br.at(taken), 0
		if full {
			break
		}
	}
	if int64(len(r.entries)) == in.tuples {
		ok, err := br.load()
		if err == nil && ok { // it would be deleted unread
			err = corrupt(br.path(), br.off, fmt.Sprintf("the end after %d tuples", in.tuples), "more")
		}
		if err != nil {
			return cursor{}, err
		}
	}
	r.note()
	return end, nil
}

// take adds the records of the current block after the first skip. full means that the next record does not
// fit. taken counts from the start of the block. limit is the number of tuples in the input.
func (r *round) take(
	br *blockReader, shift uint, skip uint32, limit int64, cost *int64,
) (taken uint32, full bool, err error) {
	o := r.opt
	b, pos := br.payload, 0
	rec := keyRecord{prefix: o.prefix(br.s.bucket)}
	for taken < br.records {
		n := rec.parse(o, b[pos:])
		if n == 0 || rec.key>>shift != uint64(br.s.bucket) {
			return 0, false, corrupt(br.path(), br.off+int64(bucketHeaderBytes+pos),
				fmt.Sprintf("record of bucket %d", br.s.bucket), fmt.Sprintf("% x", b[pos:min(len(b), pos+16)]))
		}
		pos += n
		if taken++; taken <= skip {
			continue
		}
		if int64(len(r.entries)) == limit {
			return 0, false, corrupt(br.path(), br.off, fmt.Sprintf("the end after %d tuples", limit), "more")
		}
		*cost += o.TupleBytes(len(rec.value))
		if *cost > o.BucketBytes && len(r.entries) > 0 || len(r.entries) == r.most {
			return taken - 1, true, nil
		}
		r.entries = append(r.entries, newEntry(rec.key, uint64(len(r.entries)), rec.op))
		if o.ValueBytes != 0 {
			if len(r.values)+len(rec.value) > cap(r.values) {
				return 0, false, corrupt(br.path(), br.off,
					fmt.Sprintf("at most %d bytes of values, as in the state", cap(r.values)), "more")
			}
			r.values = append(r.values, rec.value...)
			r.offsets = append(r.offsets, uint32(len(r.values)))
		}
	}
	return taken, false, nil
}

// takeNumbered is take for a store with text logs. Most of its time goes to records, so it decodes the usual ones
// itself.
func (r *round) takeNumbered(
	br *blockReader, shift uint, skip uint32, limit int64, cost *int64,
) (taken uint32, full bool, err error) {
	o := r.opt
	b, rec, number := br.payload, keyRecord{prefix: o.prefix(br.s.bucket)}, br.base
	keyBytes, bucket, tupleBytes := o.keyBytes(), uint64(br.s.bucket), o.TupleBytes(0)
	drop := uint(64 - 8*keyBytes)
	entries := r.entries
	defer func() { r.entries = entries }()
	for taken < br.records {
		var key, delta uint64
		n := keyBytes + 1
		if len(b) > 9 && b[keyBytes]&b[keyBytes+1] < 1<<7 { // a difference of one or two bytes
			key, delta = rec.prefix|binary.LittleEndian.Uint64(b)<<drop>>drop, uint64(b[keyBytes])
			if delta >= 1<<7 {
				delta, n = delta&(1<<7-1)|uint64(b[keyBytes+1])<<7, n+1
			}
			delta = delta>>1 ^ -(delta & 1)
		} else if n = rec.parse(o, b); n > 0 {
			key, delta = rec.key, rec.delta
		}
		if n == 0 || key>>shift != bucket {
			return 0, false, corrupt(br.path(), br.off+int64(bucketHeaderBytes+len(br.payload)-len(b)),
				fmt.Sprintf("record of bucket %d", bucket), fmt.Sprintf("% x", b[:min(len(b), 16)]))
		}
		b = b[n:]
		number += delta
		if taken++; taken <= skip {
			continue
		}
		if int64(len(entries)) == limit {
			return 0, false, corrupt(br.path(), br.off, fmt.Sprintf("the end after %d tuples", limit), "more")
		}
		*cost += tupleBytes
		if *cost > o.BucketBytes && len(entries) > 0 || len(entries) == r.most {
			return taken - 1, true, nil
		}
		entries = append(entries, newEntry(key, number, CheckUpdate))
	}
	return taken, false, nil
}

// path returns the name of the stream's file, for errors.
func (r *blockReader) path() string {
	if r.c.f != nil {
		return r.c.f.Name()
	}
	return fmt.Sprintf("buffer of bucket %d", r.s.bucket)
}

// prepare allocates memory for the next round of in.
func (r *round) prepare(in *input, keys int64) {
	o := r.opt
	n := int(min(in.tuples, o.roundTuples(keys)))
	values, outs := 0, 0
	if o.ValueBytes != 0 {
		values = int(min(in.values, max(o.BucketBytes, int64(o.MaxValueBytes))))
	}
	if o.Apply != nil {
		outs = n * o.OutBytes
	}
	// Touched pages stay in RAM. If this round has another mix of lengths than earlier ones, start with new
	// memory.
	sum := int64(0)
	for i, need := range [...]int64{
		int64(n) * entryBytes, int64(n) * valueOffsetBytes, int64(values),
		int64(n) * resultBytes, int64(n) * outLenBytes, int64(outs),
	} {
		sum += max(r.touched[i], min(need, o.BucketBytes))
	}
	if sum > o.BucketBytes {
		r.free()
	}
	r.most = n
	r.entries = grow(r.entries, n)
	if o.ValueBytes != 0 {
		r.offsets = append(grow(r.offsets, n+1), 0)
		r.values = growBytes(r.values, values)
	}
	if o.Apply != nil {
		r.results = grow(r.results, n)[:n]
		if o.OutBytes > 0 {
			r.outLens = grow(r.outLens, n)[:n]
			r.outs = growBytes(r.outs, outs)[:outs]
		}
	}
}

// roundTuples returns the limit of a round in a bucket with keys.
func (o *Options) roundTuples(keys int64) int64 {
	n := min(max(1, (o.BucketBytes-valueOffsetBytes)/o.TupleBytes(0)), maxRoundTuples)
	if o.RoundTuples > 0 {
		n = min(n, max(o.RoundTuples, keys))
	}
	return n
}

// note records the memory touched by the current round.
func (r *round) note() {
	n := int64(len(r.entries))
	now := [6]int64{n * entryBytes, int64(len(r.offsets)) * valueOffsetBytes, int64(len(r.values))}
	if r.opt.Apply != nil {
		now[3] = n * resultBytes
		if r.opt.OutBytes > 0 {
			now[4], now[5] = n*outLenBytes, n*int64(r.opt.OutBytes)
		}
	}
	for i := range now {
		r.touched[i] = max(r.touched[i], now[i])
	}
	r.peak = max(r.peak, r.touchedBytes())
}

// touchedBytes returns the memory that takes RAM.
func (r *round) touchedBytes() int64 {
	sum := int64(0)
	for _, n := range r.touched {
		sum += n
	}
	return sum
}

// grow returns s, empty, with capacity for n elements. It allocates new memory if needed.
func grow[T plain](s []T, n int) []T {
	if cap(s) >= n {
		return s[:0]
	}
	free(s)
	return allocate[T](n)[:0]
}

func growBytes(s []byte, n int) []byte {
	if cap(s) >= n {
		return s[:0]
	}
	disk.Free(s)
	return disk.Alloc(n)[:0]
}

// free releases all memory.
func (r *round) free() {
	free(r.entries)
	free(r.offsets)
	free(r.results)
	free(r.outLens)
	disk.Free(r.values)
	disk.Free(r.outs)
	*r = round{opt: r.opt, peak: r.peak}
}

// value returns the value of the tuple with arrival number i.
func (r *round) value(i uint64) []byte {
	if r.opt.ValueBytes == 0 {
		return nil
	}
	return r.values[r.offsets[i]:r.offsets[i+1]:r.offsets[i+1]]
}

// setOut stores a copy of the Out of tuple i.
func (r *round) setOut(i uint64, out []byte) {
	if r.opt.OutBytes == 0 && len(out) == 0 {
		return
	}
	if len(out) > r.opt.OutBytes {
		panic(fmt.Sprintf("BUG: drum: %s: Out of %d bytes, OutBytes is %d", r.opt.Name, len(out), r.opt.OutBytes))
	}
	r.outLens[i] = uint16(len(out))
	copy(r.outs[int(i)*r.opt.OutBytes:], out)
}

func (r *round) out(i uint64) []byte {
	if r.opt.Apply == nil || r.opt.OutBytes == 0 {
		return nil
	}
	start := int(i) * r.opt.OutBytes
	return r.outs[start : start+int(r.outLens[i])]
}
