package drum

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Add takes a batch of tuples and copies their bytes. It writes buffers that become full. Tuples of a
// bucket keep their order of arrival. Add is safe for concurrent use, also during passes. After an error
// other than ErrTuple every later call fails.
func (d *Drum) Add(ts []Tuple) error {
	if err := d.failed(); err != nil {
		return err
	}
	var bytes int64
	for i := range ts {
		if err := d.checkTuple(&ts[i]); err != nil {
			return fmt.Errorf("drum: add to %s: %w", d.opt.Name, err)
		}
	}
	var err error
	if d.opt.logged() {
		bytes, err = d.addLogged(ts)
	} else {
		bytes, err = d.addBucketed(ts)
	}
	if err != nil {
		d.fail(err)
		return err
	}
	d.tuples.Add(int64(len(ts)))
	d.bytes.Add(bytes)
	return nil
}

func (d *Drum) addBucketed(ts []Tuple) (bytes int64, err error) {
	for i := range ts {
		t := &ts[i]
		b := &d.buckets[uint64(t.Key)>>d.shift]
		b.mu.Lock()
		n, err := d.append(b, t)
		b.mu.Unlock()
		if err != nil {
			return bytes, err
		}
		bytes += int64(n)
	}
	return bytes, nil
}

func (d *Drum) checkTuple(t *Tuple) error {
	switch {
	case t.Op == 0 || t.Op > CheckUpdate || d.opt.Op != 0 && t.Op != d.opt.Op:
		return fmt.Errorf("%w: operation %d", ErrTuple, t.Op)
	case len(t.Value) > d.opt.MaxValueBytes:
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrTuple, len(t.Value), d.opt.MaxValueBytes)
	case len(t.Aux) > d.opt.maxAux():
		return fmt.Errorf("%w: aux of %d bytes, at most %d", ErrTuple, len(t.Aux), d.opt.maxAux())
	}
	return nil
}

// maxAux returns the length of the longest aux that fits into a buffer.
func (o *Options) maxAux() int { return o.BufferBytes - bucketFrameBytes - binary.MaxVarintLen32 }

// append adds one tuple to the bucket's open input and returns its payload bytes. The caller holds b.mu.
func (d *Drum) append(b *bucket, t *Tuple) (int, error) {
	in := b.open
	if err := d.room(&in.keys, keyRecordOverhead+len(t.Value)); err != nil {
		return 0, err
	}
	if err := d.room(&in.aux, binary.MaxVarintLen32+len(t.Aux)); err != nil {
		return 0, err
	}
	before := len(in.keys.buf) + len(in.aux.buf)
	buf := binary.LittleEndian.AppendUint64(in.keys.buf, uint64(t.Key))
	if !d.opt.impliedOp() {
		buf = append(buf, byte(t.Op))
	}
	if d.opt.ValueBytes != 0 {
		buf = append(binary.AppendUvarint(buf, uint64(len(t.Value))), t.Value...)
	}
	in.keys.buf = buf
	in.keys.records++
	in.aux.buf = append(binary.AppendUvarint(in.aux.buf, uint64(len(t.Aux))), t.Aux...)
	in.aux.records++

	n := len(in.keys.buf) + len(in.aux.buf) - before
	in.tuples++
	in.values += int64(len(t.Value))
	in.bytes += int64(n)
	d.charge(b, in, d.opt.TupleBytes(len(t.Value)))
	return n, nil
}

// charge adds the RAM that a new tuple will take in a round.
func (d *Drum) charge(b *bucket, in *input, cost int64) {
	in.cost += cost
	if in.cost >= d.opt.fullBytes() && !b.full {
		b.full = true
		d.full.Add(1)
	}
}

// keyBytes returns the number of bytes of a key in its record. With text logs a record omits the leading
// bytes given by the bucket's number.
func (o *Options) keyBytes() int {
	if !o.logged() {
		return 8
	}
	return 8 - (bits.Len(uint(o.Buckets))-1)/8
}

// prefix returns the key bits that records of a bucket omit.
func (o *Options) prefix(bucket int) uint64 {
	n := 8 * o.keyBytes()
	return uint64(bucket) << shiftOf(o.Buckets) >> n << n // 0 if n is 64
}

// keyRecord is a decoded record of a block of keys.
type keyRecord struct {
	prefix uint64 // of the bucket; set by the caller

	key   uint64
	op    Op
	value []byte
	delta uint64 // with text logs: number of the text minus that of the previous record
}

// parse decodes the record at the start of b and returns its length, or 0 if there is none.
func (r *keyRecord) parse(o *Options, b []byte) int {
	r.op, r.value = o.Op, nil
	if o.logged() {
		n := o.keyBytes()
		if len(b) <= n {
			return 0
		}
		r.key = r.prefix
		if len(b) >= 8 {
			r.key |= binary.LittleEndian.Uint64(b) << (64 - 8*n) >> (64 - 8*n)
		} else {
			for i, c := range b[:n] {
				r.key |= uint64(c) << (8 * i)
			}
		}
		delta, m := binary.Varint(b[n:])
		if m <= 0 {
			return 0
		}
		r.delta = uint64(delta)
		return n + m
	}
	if len(b) < 8 {
		return 0
	}
	r.key = binary.LittleEndian.Uint64(b)
	n := 8
	if !o.impliedOp() {
		if len(b) == n || b[n] == 0 || b[n] > byte(CheckUpdate) {
			return 0
		}
		r.op = Op(b[n])
		n++
	}
	if o.ValueBytes != 0 {
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return 0
		}
		n += m
		r.value = b[n : n+int(size) : n+int(size)]
		n += int(size)
	}
	return n
}

// parseAux returns the bytes of the aux record at the start of b and its length, or 0 if there is none.
func parseAux(b []byte) (aux []byte, n int) {
	size, m := binary.Uvarint(b)
	if m <= 0 || size > uint64(len(b)-m) {
		return nil, 0
	}
	n = m + int(size)
	return b[m:n:n], n
}

// seal makes the open input of b the input of a merge. Later tuples go to new buffers and files.
func (d *Drum) seal(b *bucket, i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed, b.open = b.open, d.newInput(i)
	d.sealed.Add(1)
	if b.full {
		b.full = false
		d.full.Add(-1)
	}
}
