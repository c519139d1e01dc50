package drum

import (
	"fmt"

	"drumbeat/disk"
)

// kind returns the kind of the log's blocks.
func (ls *LogState) kind() blockKind {
	if ls.Coded {
		return logBlocks
	}
	return plainBlocks
}

// stream returns the log's stream, except its buffer.
func (ls *LogState) stream() *stream {
	return &stream{
		kind: ls.kind(), bucket: ls.Dir, dir: ls.Dir, gen: ls.Text.Gen, written: ls.Text.Bytes, fill: ls.Text.Fill,
	}
}

// eachNumber calls fn with the keys that wait in an input and the numbers of their texts.
func (w *walker) eachNumber(is *InputState, saved savedBuffers, fn func(key, number uint64)) error {
	in := is.input(&w.d.opt)
	if err := w.fill(&in.keys, saved); err != nil {
		return err
	}
	chunk := disk.Alloc(walkChunkBytes)
	defer func() { disk.Free(chunk) }()
	var r blockReader
	if err := r.open(w.d, &in.keys, in.keysAt, &chunk); err != nil {
		return err
	}
	defer r.close()
	left, skip := in.tuples, in.keysAt.rec
	for left > 0 {
		ok, err := r.load()
		if err != nil {
			return err
		}
		if !ok {
			return corrupt(r.path(), r.next, fmt.Sprintf("%d more tuples", left), "end")
		}
		rec := keyRecord{prefix: w.d.opt.prefix(is.Bucket)}
		number := r.base
		for b, i := r.payload, uint32(0); i < r.records; i++ {
			n := rec.parse(&w.d.opt, b)
			if n == 0 || rec.key>>w.d.shift != uint64(is.Bucket) {
				return corrupt(r.path(), r.off, fmt.Sprintf("record of bucket %d", is.Bucket),
					fmt.Sprintf("% x", b[:min(len(b), 16)]))
			}
			b = b[n:]
			number += rec.delta
			if i >= skip {
				fn(rec.key, number)
				left--
			}
		}
		skip = 0
	}
	return nil
}
