package drum

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"
)

// A round whose new keys become late keys changes no part. It only asks which of its few keys the part has.
// Decoding all keys of a part of 10^6 takes 4 ms; so a drum remembers some keys of each Golomb-Rice coded
// block that it has decoded, with their positions, and decodes the keys between two of them.

const (
	// indexEvery is the number of keys of a block for each that its index has, in 16 bytes.
	indexEvery = 128
	// maxIndexBytes bounds the indexes of a drum, which are in the Go heap: 8·10^6 keys. indexShare is
	// their largest share of BucketBytes.
	maxIndexBytes = 1 << 20
	indexShare    = 64

	indexEntryBytes = 16
	indexBlockBytes = 64 // of the blockIndex itself
)

// partIndex has the indexes of the blocks of a part. Only the worker that merges the bucket uses it.
type partIndex struct {
	gen    uint64 // of the part
	off    int64
	bytes  int64
	blocks []blockIndex
}

// blockIndex has each indexEvery-th key of a block.
type blockIndex struct {
	last uint64
	keys []indexedKey
}

// indexedKey is a key, and the position in bits of the quotient after it.
type indexedKey struct {
	key uint64
	at  uint32
}

// indexRAM returns the RAM for indexes, in bytes.
func (o *Options) indexRAM() int64 { return min(maxIndexBytes, o.BucketBytes/indexShare) }

// newBlockIndex returns the index of a block with these keys and w remainder bits.
func newBlockIndex(keys []uint64, w uint8) blockIndex {
	b := blockIndex{last: keys[len(keys)-1], keys: make([]indexedKey, 0, (len(keys)+indexEvery-1)/indexEvery)}
	at := uint32(0)
	for i, key := range keys {
		if i > 0 {
			at += uint32((key-keys[i-1]-1)>>w) + 1
		}
		if i%indexEvery == 0 {
			b.keys = append(b.keys, indexedKey{key, at})
		}
	}
	return b
}

// has reports whether a coded block has a key that is not beyond its last. coded has 8 bytes beyond its
// length, and has been decoded before.
func (b *blockIndex) has(key uint64, n int, coded []byte, w uint8) bool {
	i, found := slices.BinarySearchFunc(b.keys, key, func(k indexedKey, key uint64) int {
		if k.key < key {
			return -1
		}
		return int(min(1, k.key-key))
	})
	if found || i == 0 {
		return found
	}
	from, number := b.keys[i-1], (i-1)*indexEvery
	plane := ((n-1)*int(w) + 7) / 8
	low, high := coded[:len(coded)+8], coded[plane:len(coded)+8]
	mask, lowAt, at, k := uint64(1)<<w-1, number*int(w), int(from.at), from.key
	for k < key {
		q := uint64(0)
		for {
			zeros := bits.TrailingZeros64(binary.LittleEndian.Uint64(high[at>>3:]) >> (at & 7))
			if zeros < 57 {
				at += zeros + 1
				q += uint64(zeros)
				break
			}
			at += 57
			q += 57
		}
		k += q<<w | binary.LittleEndian.Uint64(low[lowAt>>3:])>>(lowAt&7)&mask
		k++
		lowAt += int(w)
	}
	return k == key
}

// probe marks the tuples of a round in which no part changes: new keys are held.
func (m *merge) probe(es []entry) error {
	m.writing, m.passed, m.result = false, 0, outcome{}
	for len(es) > 0 {
		key, n := es[0].key, 1
		for n < len(es) && es[n].key == key {
			n++
		}
		_, found := slices.BinarySearch(m.old.late, key)
		if !found {
			var err error
			if found, err = m.old.has(key); err != nil {
				return err
			}
		}
		if err := m.mark(key, es[:n], found); err != nil {
			return err
		}
		es = es[n:]
	}
	return nil
}

// has reports whether the part has a key. Keys must ascend from call to call.
func (r *partReader) has(key uint64) (bool, error) {
	for r.block == nil || key > r.index.last {
		if ok, err := r.loadIndexed(); !ok || err != nil {
			return false, err
		}
	}
	if len(r.index.keys) == 0 {
		_, found := slices.BinarySearch(r.keys, key)
		return found, nil
	}
	return r.index.has(key, int(r.head.keys), r.block, r.head.param), nil
}

// loadIndexed reads the next block. It decodes the block if there is no index of it. ok is false at the end
// of the part.
func (r *partReader) loadIndexed() (ok bool, err error) {
	r.keys = r.keys[:0]
	if r.part.gen == 0 || r.at() == r.part.off+r.part.size {
		return false, nil
	}
	size, err := r.peekBlock()
	if err != nil {
		return false, err
	}
	defer r.c.skip(size)
	r.block = r.peeked[cacheHeaderBytes : size-checksumBytes]
	if r.blocks < len(r.indexes.blocks) {
		r.index = r.indexes.blocks[r.blocks]
		r.blocks++
		if r.head.first <= r.last && r.last > 0 {
			return false, corrupt(r.c.f.Name(), r.at(), "keys in order", errKeys.Error())
		}
		r.last = r.index.last
		return true, nil
	}
	if err := r.decodeBlock(); err != nil {
		return false, err
	}
	r.index = blockIndex{last: r.last}
	if r.head.codec == Rice && r.head.param <= 57 && r.blocks == len(r.indexes.blocks) {
		r.remember()
	}
	r.blocks++
	return true, nil
}

// remember makes an index of the current block, while the drum has room for it.
func (r *partReader) remember() {
	bytes := int64(indexBlockBytes + indexEntryBytes*((len(r.keys)+indexEvery-1)/indexEvery))
	if r.indexBytes.Add(bytes) > r.opt.indexRAM() {
		r.indexBytes.Add(-bytes)
		return
	}
	r.index = newBlockIndex(r.keys, r.head.param)
	r.indexes.blocks = append(r.indexes.blocks, r.index)
	r.indexes.bytes += bytes
}

// useIndexes begins to read a part with the indexes of its bucket. It drops them if they are of another part.
func (r *partReader) useIndexes(of *partIndex, bytes *atomic.Int64) {
	if of.gen != r.part.gen || of.off != r.part.off {
		bytes.Add(-of.bytes)
		*of = partIndex{gen: r.part.gen, off: r.part.off}
	}
	r.indexes, r.indexBytes, r.block, r.blocks = of, bytes, nil, 0
}
