package drum

import (
	"sync"
	"time"
)

// PackMode says which blocks of a text log are compressed with s2.
type PackMode uint8

const (
	// PackWhereDisksBind compresses blocks while that takes less time than writing and reading the bytes that it
	// saves, as measured. Fast disks wait for processors, and slow ones keep processors waiting.
	PackWhereDisksBind PackMode = iota
	PackAlways
	PackNever
)

// packMeter measures what compressing the blocks of text logs costs and saves. Its figures are decaying means over
// some 16 blocks.
type packMeter struct {
	mu       sync.Mutex
	blocks   uint64  // asked about
	writing  float64 // ns for a byte written
	packing  float64 // ns for a byte to compress
	saving   float64 // share of the bytes that compressing saves
	measured bool    // a block was compressed
}

const (
	// packProbe is the interval, in blocks, at which one is compressed to measure what it would save.
	packProbe = 64
	// packTimes is the time to compress and decompress, relative to that of compressing: s2 takes 0.35 to 0.6 of
	// that to decompress a log.
	packTimes = 1.5
	packDecay = 1.0 / 16
)

// pays reports whether to compress the next block.
func (m *packMeter) pays() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks++
	// Bytes that are written are read, too.
	return m.blocks%packProbe == 1 || m.measured && 2*m.saving*m.writing > packTimes*m.packing
}

func (m *packMeter) wrote(bytes int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing += (float64(took)/float64(bytes) - m.writing) * packDecay
}

func (m *packMeter) packed(from, to int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	decay := packDecay
	if !m.measured {
		decay, m.measured = 1, true
	}
	m.packing += (float64(took)/float64(from) - m.packing) * decay
	m.saving += (1 - float64(to)/float64(from) - m.saving) * decay
}
