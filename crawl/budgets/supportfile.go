package budgets

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// A supportFile has what a node passes on for one computation of supporters: edges (star.WalkSupport) or values. It is
// read in blocks, which requests carry as they are. It lasts as long as the process: no checkpoint depends on it.
//
// A block, little-endian:
//
//	offset size field    meaning
//	0      4    magic    "dbu1"
//	4      8    round    of the computation
//	12     4    number   of the block
//	16     4    n        bytes of data
//	20     n    data     of block 0 a supportHeader, as JSON; of the others whole records, edges or values
//	20+n   8    checksum xxhash64 of bytes [0, 20+n)
//
// An edge is the keys of the two PLDs, 8 bytes each; both are those of a PLD that is known. A value is the key of a PLD
// and its Support, 8 and 2 bytes, by ascending key. The file has the blocks from 1 on, all but the last of
// supportBlock bytes of data.
type supportFile struct {
	fs     disk.FS
	file   disk.File
	round  int64
	header []byte // block 0
	blocks int
	buf    []byte
	frame  []byte
}

const (
	supportMagic   = "dbu1"
	supportHead    = 20
	supportSum     = 8
	edgeRecord     = 16
	valueRecord    = 10
	supportBlock   = 2048 * edgeRecord * valueRecord / 2 // 160 KiB: whole records of both kinds
	supportFrame   = supportHead + supportBlock + supportSum
	mostHeaderData = 1 << 20 // a header has at most star.MostSeeds seeds
)

// supportHeader describes a supportFile.
type supportHeader struct {
	Blocks int   `json:"blocks"` // without block 0
	PLDs   int64 `json:"plds"`
	Edges  int64 `json:"edges"`
	// Of a file of edges: the number of the table of slots, and the keys of the PLDs of seeds, 8 bytes each.
	Moves int    `json:"moves,omitempty"`
	Seeds []byte `json:"seeds,omitempty"`
	// Of a file of values: the end of the computation, Unix seconds, and its duration.
	Time   int64 `json:"time,omitempty"`
	Millis int64 `json:"millis,omitempty"`
}

// createSupportFile replaces a file.
func createSupportFile(fsys disk.FS, dir, name string, round int64) (*supportFile, error) {
	name = dir + "/" + name
	if err := errors.Join(fsys.MkdirAll(dir), removeIfThere(fsys, name)); err != nil {
		return nil, err
	}
	file, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	return &supportFile{fs: fsys, file: file, round: round}, nil
}

func removeIfThere(fsys disk.FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// add adds a record.
func (f *supportFile) add(rec []byte) error {
	if f.buf = append(f.buf, rec...); len(f.buf) < supportBlock {
		return nil
	}
	return f.write()
}

func (f *supportFile) write() error {
	f.frame = appendBlock(f.frame[:0], f.round, f.blocks+1, f.buf)
	_, err := f.file.WriteAt(f.frame, int64(f.blocks)*supportFrame)
	f.blocks++
	f.buf = f.buf[:0]
	return err
}

// end ends the file.
func (f *supportFile) end(h *supportHeader) error {
	if len(f.buf) > 0 {
		if err := f.write(); err != nil {
			return err
		}
	}
	h.Blocks, f.buf, f.frame = f.blocks, nil, nil
	data, err := json.Marshal(h)
	f.header = appendBlock(nil, f.round, 0, data)
	return err
}

// block returns a block.
func (f *supportFile) block(n int) ([]byte, error) {
	if n == 0 {
		return f.header, nil
	}
	off := int64(n-1) * supportFrame
	size, err := f.file.Size()
	if err == nil && (n < 0 || n > f.blocks || off >= size) {
		err = fmt.Errorf("crawl: supporters: block %d of %d", n, f.blocks)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(supportFrame, size-off))
	_, err = f.file.ReadAt(b, off)
	return b, err
}

// records returns the values of a block.
func (f *supportFile) records(n int) ([]byte, error) {
	b, err := f.block(n)
	if err != nil {
		return nil, err
	}
	return openRecords(b, f.round, n, valueRecord)
}

// remove closes and removes the file; nil is none.
func (f *supportFile) remove() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.file.Close(), f.fs.Remove(f.file.Name()))
}

func appendBlock(dst []byte, round int64, number int, data []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(append(dst, supportMagic...), uint64(round))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(number))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(data)))
	dst = append(dst, data...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// errBlock means that bytes are not the block that was asked for.
var errBlock = errors.New("crawl: supporters: not a valid block")

// openBlock returns the round and the data of a block.
func openBlock(b []byte, number int) (round int64, data []byte, err error) {
	n := len(b) - supportHead - supportSum
	switch {
	case n < 0 || n > max(supportBlock, mostHeaderData) || string(b[:4]) != supportMagic:
		return 0, nil, fmt.Errorf("%w: %d bytes", errBlock, len(b))
	case xxhash.Sum64(b[:supportHead+n]) != binary.LittleEndian.Uint64(b[supportHead+n:]):
		return 0, nil, fmt.Errorf("%w: the checksum is wrong", errBlock)
	case int64(binary.LittleEndian.Uint32(b[12:])) != int64(number) || int(binary.LittleEndian.Uint32(b[16:])) != n:
		return 0, nil, fmt.Errorf("%w: number %d, %d bytes", errBlock, binary.LittleEndian.Uint32(b[12:]), n)
	}
	return int64(binary.LittleEndian.Uint64(b[4:])), b[supportHead : supportHead+n], nil
}

// openRecords returns the data of a block that has records of a length.
func openRecords(b []byte, round int64, number, record int) ([]byte, error) {
	of, data, err := openBlock(b, number)
	if err == nil && (of != round || len(data)%record != 0) {
		err = fmt.Errorf("%w: of round %d, with %d bytes of records", errBlock, of, len(data))
	}
	return data, err
}

// openHeader returns the round and the header in block 0.
func openHeader(b []byte) (round int64, h supportHeader, err error) {
	round, data, err := openBlock(b, 0)
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err == nil && (h.Blocks < 0 || h.PLDs < 0 || h.Edges < 0 || len(h.Seeds)%8 != 0) {
		err = fmt.Errorf("%w: %d blocks, %d PLDs, %d edges", errBlock, h.Blocks, h.PLDs, h.Edges)
	}
	return round, h, err
}

func (h *supportHeader) seeds() (seeds []uint64) {
	for b := h.Seeds; len(b) > 0; b = b[8:] {
		seeds = append(seeds, binary.LittleEndian.Uint64(b))
	}
	return seeds
}
