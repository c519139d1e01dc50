package linktrace

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/drum"
)

// A trace is a header of package disk (kind "ltrc", version 2, number and place 0), followed by blocks.
// Integers are little-endian.
//
//	offset size field       meaning
//	0      4    keys        n, 1 to 8192
//	4      4    generation  from 1; rises at a gap of the order
//	8      8    first       number of keys in all blocks before
//	16     8    time        of the last key, in ms since 1970
//	24     8    pages       that the crawl had when the last key came
//	32     8    delay       between requests to a host, in ms (tau_h)
//	40     8n   keys        in order
//	40+8n  8    checksum    xxhash64 of bytes [0, 40+8n)
//
// Version 1, which can be read, lacks time, pages and delay.
const (
	traceKind    = "ltrc"
	traceVersion = 2

	blockHead = 40
	oldHead   = 16 // of version 1
	blockSum  = 8
	blockKeys = 8192
	// maxGeneration is an upper bound that losses do not reach.
	maxGeneration = 1 << 30
	maxBlock      = blockHead + 8*blockKeys + blockSum
)

func traceHeader() disk.Header { return disk.Header{Kind: traceKind, Version: traceVersion} }

// headBytes returns the size of the heads of blocks in a file, by its version.
func headBytes(f disk.File) (int64, error) {
	if err := disk.CheckHeader(f, disk.Header{Kind: traceKind, Version: 1}); err == nil {
		return oldHead, nil
	}
	return blockHead, disk.CheckHeader(f, traceHeader())
}

// head is the head of a block.
type head struct {
	keys, generation uint32
	first            uint64
	at               moment
}

// moment is the state of the crawl at the last key of a block; zero in a trace of version 1.
type moment struct{ time, pages, delay int64 }

// bytes returns the size of the block; size is that of its head.
func (h head) bytes(size int64) int64 { return size + 8*int64(h.keys) + blockSum }

func decodeHead(b []byte) head {
	h := head{keys: binary.LittleEndian.Uint32(b), generation: binary.LittleEndian.Uint32(b[4:]),
		first: binary.LittleEndian.Uint64(b[8:])}
	if len(b) == blockHead {
		field := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
		h.at = moment{field(16), field(24), field(32)}
	}
	return h
}

// appendBlock appends a block of at most blockKeys keys.
func appendBlock(dst []byte, h head, keys []drum.Key) []byte {
	start := len(dst)
	dst = slices.Grow(dst, int(h.bytes(blockHead)))
	dst = binary.LittleEndian.AppendUint32(dst, h.keys)
	dst = binary.LittleEndian.AppendUint32(dst, h.generation)
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	for _, v := range [...]int64{h.at.time, h.at.pages, h.at.delay} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(k))
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// checkHead checks the head of a block at off; last is the head of the block before.
func checkHead(name string, off int64, h, last head) error {
	corrupt := func(at int64, want string, got any) error {
		return &disk.CorruptError{Path: name, Offset: off + at, Want: want, Got: fmt.Sprint(got)}
	}
	switch {
	case h.keys < 1 || h.keys > blockKeys:
		return corrupt(0, fmt.Sprintf("1 to %d keys in a block of a trace", blockKeys), h.keys)
	case h.generation < max(1, last.generation) || h.generation > maxGeneration:
		return corrupt(4, fmt.Sprintf("generation %d to %d", max(1, last.generation), maxGeneration), h.generation)
	case h.first != last.first+uint64(last.keys):
		return corrupt(8, fmt.Sprintf("%d keys before", last.first+uint64(last.keys)), h.first)
	}
	return nil
}

// Summary is the result of reading all heads of a trace.
type Summary struct {
	// Links is the number of keys. Generations is the last generation, the number of gaps plus one.
	Links       int64
	Generations int
	// EndBytes is the end of the last whole block. CutBytes is the size of a truncated block after it.
	EndBytes, CutBytes int64

	// Pages, PageLinks and Time are the pages, the links and the time of the crawl from the first to the last block
	// of each generation, summed up. HostDelay is the delay between requests to a host, as of the last block. All are
	// 0 if no generation has two blocks, and in a trace of version 1.
	Pages, PageLinks int64
	Time, HostDelay  time.Duration

	headBytes int64
}

// Rates returns the crawl's pages per second (S) and links per page (l); 0 if the trace does not tell.
func (s *Summary) Rates() (pages, links float64) {
	if s.Pages <= 0 || s.Time <= 0 {
		return 0, 0
	}
	return float64(s.Pages) / s.Time.Seconds(), float64(s.PageLinks) / float64(s.Pages)
}

// add adds a block that follows the block last.
func (s *Summary) add(h, last head) {
	s.EndBytes += h.bytes(s.headBytes)
	s.Links, s.Generations = s.Links+int64(h.keys), int(h.generation)
	s.HostDelay = time.Duration(h.at.delay) * time.Millisecond
	// A clock that was set back tells nothing about that block.
	if h.generation == last.generation && last.keys > 0 && h.at.time > last.at.time && h.at.pages >= last.at.pages {
		s.Time += time.Duration(h.at.time-last.at.time) * time.Millisecond
		s.Pages, s.PageLinks = s.Pages+h.at.pages-last.at.pages, s.PageLinks+int64(h.keys)
	}
}

// scan reads the heads and checks the last whole block.
func scan(f disk.File) (Summary, error) {
	heads, err := headBytes(f)
	if err != nil {
		return Summary{}, err
	}
	size, err := f.Size()
	if err != nil {
		return Summary{}, err
	}
	s := Summary{EndBytes: disk.HeaderBytes, headBytes: heads}
	var last head
	lastAt := int64(-1)
	for {
		left := size - s.EndBytes
		if left < heads {
			break
		}
		h, err := readHead(f, s.EndBytes, heads)
		if err != nil {
			return Summary{}, err
		}
		if err := checkHead(f.Name(), s.EndBytes, h, last); err != nil {
			return Summary{}, err
		}
		if left < h.bytes(heads) {
			break
		}
		lastAt = s.EndBytes
		s.add(h, last)
		last = h
	}
	s.CutBytes = size - s.EndBytes
	if lastAt >= 0 {
		if _, err := readBlock(f, lastAt, last.bytes(heads), nil); err != nil {
			return Summary{}, err
		}
	}
	return s, nil
}

// readHead reads the head at off, of the given size.
func readHead(f disk.File, off, size int64) (head, error) {
	var b [blockHead]byte
	if err := disk.ReadFull(f, b[:size], off); err != nil {
		return head{}, err
	}
	return decodeHead(b[:size]), nil
}

// readBlock reads the block at off of the given size into b, and checks it.
func readBlock(f disk.File, off, size int64, b []byte) ([]byte, error) {
	b = slices.Grow(b[:0], int(size))[:size]
	if err := disk.ReadFull(f, b, off); err != nil {
		return b, err
	}
	sumAt := len(b) - blockSum
	if want, got := xxhash.Sum64(b[:sumAt]), binary.LittleEndian.Uint64(b[sumAt:]); want != got {
		return b, &disk.CorruptError{Path: f.Name(), Offset: off + int64(sumAt),
			Want: fmt.Sprintf("checksum %016x", want), Got: fmt.Sprintf("%016x", got)}
	}
	return b, nil
}
