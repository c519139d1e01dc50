package warc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
)

// The form of .warc.zst files is the proposal "Zstandard Compression for WARC Files 1.0" of the IIPC: each
// record is a frame (RFC 8878, 3.1.1) with content size and checksum. A dictionary, if there is one, precedes
// the first record in a skippable frame, and every frame has its number.

const (
	frameMagic = "\x28\xb5\x2f\xfd"
	// dictFrameMagic begins the skippable frame of a dictionary, dictMagic a dictionary.
	dictFrameMagic = "\x5d\x2a\x4d\x18"
	dictMagic      = "\x37\xa4\x30\xec"
	// MaxDict bounds a dictionary in bytes, as does the proposal.
	MaxDict = 8 << 20

	// zstWindow is the window of long records in bytes. It bounds the memory of compressors. The proposal has
	// readers accept 8 MiB.
	zstWindow = 1 << 20
	// wholeBytes is the length in bytes up to which the record of a large body is read into RAM. The window in
	// the header of a longer frame depends on its length alone.
	wholeBytes = 128 << 10
	// maxBlock is the greatest length of a block of a frame (RFC 8878, 3.1.1.2.4).
	maxBlock = 128 << 10
)

// zstFormat is what Encoders of zst files share.
type zstFormat struct {
	level  zstd.EncoderLevel
	dict   []byte
	dictID uint32
	// whole compresses records in RAM, at most GOMAXPROCS at a time.
	whole *zstd.Encoder
	// head begins a file: the frame with the dictionary; empty without one.
	head []byte
}

func newZstFormat(level int, dict []byte) (*zstFormat, error) {
	z := &zstFormat{level: zstLevel(level), dict: dict}
	var err error
	if z.dictID, err = checkDict(dict); err != nil {
		return nil, err
	}
	if z.whole, err = zstd.NewWriter(nil, z.options(runtime.GOMAXPROCS(0), false)...); err != nil {
		return nil, err
	}
	if len(dict) == 0 {
		return z, nil
	}
	// Compressed, the dictionary has a checksum, and takes less than half the space.
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(MaxDict),
		zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	packed := w.EncodeAll(dict, nil)
	z.head = binary.LittleEndian.AppendUint32([]byte(dictFrameMagic), uint32(len(packed)))
	z.head = append(z.head, packed...)
	return z, w.Close()
}

// CompressorBytes returns about the memory in bytes that a Writer's compressors take, beside those of its
// Encoders, for each of GOMAXPROCS. It was measured with a dictionary of 110 KiB.
func CompressorBytes(format Format, level int) int64 {
	switch {
	case format == Gzip:
		return 0
	case zstLevel(level) == zstd.SpeedFastest:
		return 3 << 20
	case zstLevel(level) == zstd.SpeedDefault:
		return 5 << 20
	}
	return 11 << 20
}

// zstLevel returns the compressor's level.
func zstLevel(level int) zstd.EncoderLevel {
	if level == LevelFast {
		return zstd.SpeedFastest
	}
	return zstd.EncoderLevelFromZstd(level)
}

func (z *zstFormat) options(concurrency int, checksum bool) []zstd.EOption {
	opt := []zstd.EOption{zstd.WithEncoderLevel(z.level), zstd.WithEncoderConcurrency(concurrency),
		zstd.WithWindowSize(zstWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(checksum)}
	if len(z.dict) > 0 {
		opt = append(opt, zstd.WithEncoderDict(z.dict))
	}
	return opt
}

// ReadDict reads a dictionary in the format of zstd --train.
func ReadDict(fsys disk.FS, name string) ([]byte, error) {
	size, err := fsys.Size(name)
	if err == nil && size > MaxDict {
		err = fmt.Errorf("%d bytes, want at most %d", size, MaxDict)
	}
	var dict []byte
	if err == nil {
		dict, err = disk.ReadFile(fsys, name)
	}
	if err == nil && len(dict) == 0 {
		err = errors.New("empty file")
	}
	if err == nil {
		_, err = checkDict(dict)
	}
	if err != nil {
		return nil, fmt.Errorf("warc: read dictionary %s: %w", name, err)
	}
	return dict, nil
}

// checkDict returns the number of a dictionary; 0 for none.
func checkDict(dict []byte) (uint32, error) {
	if len(dict) == 0 {
		return 0, nil
	}
	if len(dict) > MaxDict {
		return 0, fmt.Errorf("dictionary of %d bytes, want at most %d", len(dict), MaxDict)
	}
	if string(dict[:min(len(dict), len(dictMagic))]) != dictMagic {
		return 0, errors.New("not a dictionary in the format of zstd --train")
	}
	d, err := zstd.InspectDictionary(dict)
	if err != nil {
		return 0, fmt.Errorf("dictionary: %w", err)
	}
	if d.ID() == 0 {
		return 0, errors.New("dictionary without a number")
	}
	return d.ID(), nil
}

// appendFrameHead appends the header of the frame of a record of size bytes: in a single segment, or with a
// window (RFC 8878, 3.1.1.1).
func appendFrameHead(dst []byte, size uint64, dictID uint32, single bool) []byte {
	dst = append(dst, frameMagic...)
	flags := byte(1 << 2) // checksum
	switch {
	case size >= 1<<32-1:
		flags |= 3 << 6
	case size >= 1<<16+256:
		flags |= 2 << 6
	case size >= 256:
		flags |= 1 << 6
	}
	switch {
	case dictID >= 1<<16:
		flags |= 3
	case dictID >= 1<<8:
		flags |= 2
	case dictID > 0:
		flags |= 1
	}
	if single {
		dst = append(dst, flags|1<<5)
	} else {
		window := zstWindow
		if size < zstWindow {
			window = max(1<<bits.Len64(size), 1<<10)
		}
		dst = append(dst, flags, byte(bits.Len(uint(window-1))-10)<<3)
	}
	switch flags & 3 {
	case 1:
		dst = append(dst, byte(dictID))
	case 2:
		dst = binary.LittleEndian.AppendUint16(dst, uint16(dictID))
	case 3:
		dst = binary.LittleEndian.AppendUint32(dst, dictID)
	}
	switch flags >> 6 {
	case 0:
		return append(dst, byte(size)) // of a single segment
	case 1:
		return binary.LittleEndian.AppendUint16(dst, uint16(size-256))
	case 2:
		return binary.LittleEndian.AppendUint32(dst, uint32(size))
	}
	return binary.LittleEndian.AppendUint64(dst, size)
}

// blockHead is the size of a block's header in bytes (RFC 8878, 3.1.1.2). lastBlock is its bit of the last
// block, the others are types of blocks.
const (
	blockHead     = 3
	lastBlock     = 1
	rleBlock      = 1
	reservedBlock = 3
)

// appendBlockHead appends the header of a raw block, or of the last one.
func appendBlockHead(dst []byte, size int, last uint32) []byte {
	h := uint32(size)<<3 | last
	return append(dst, byte(h), byte(h>>8), byte(h>>16))
}

// parseBlockHead returns the lowest byte of a header, and the number of bytes that follow it.
func parseBlockHead(b []byte) (flags byte, size int) {
	size = int(b[0])>>3 | int(b[1])<<5 | int(b[2])<<13
	if b[0]>>1&3 == rleBlock {
		size = 1
	}
	return b[0], size
}

// frameHeadRest returns the length of a frame's header after the byte that describes it.
func frameHeadRest(flags byte) (n int) {
	single := flags>>5&1 == 1
	n = [...]int{0, 2, 4, 8}[flags>>6] + [...]int{0, 1, 2, 4}[flags&3]
	if !single || flags>>6 == 0 {
		n++ // the window, or else the size
	}
	return n
}

// appendRaw appends b in raw blocks, and the end of the record in a last one.
func appendRaw(dst, b []byte) []byte {
	for len(b) > 0 {
		n := min(len(b), maxBlock)
		dst = append(appendBlockHead(dst, n, 0), b[:n]...)
		b = b[n:]
	}
	return append(appendBlockHead(dst, len(recordEnd), lastBlock), recordEnd...)
}

// frame appends the text and b, and the end of the record, to p as one frame. With stored, b is in raw
// blocks.
func (e *Encoder) frame(p *Prepared, b []byte, stored bool) {
	size := len(e.text) + len(b) + len(recordEnd)
	if !stored {
		e.text = append(append(e.text, b...), recordEnd...)
	}
	p.buf = appendFrameHead(p.buf, uint64(size), e.zst.dictID, size <= zstWindow)
	at := len(p.buf)
	p.buf = e.zst.whole.EncodeAll(e.text, p.buf)
	// Its header does not count b.
	first, last := findBlocks(p.buf[at:])
	if stored {
		p.buf[at+last] &^= lastBlock
	}
	p.buf = append(p.buf[:at], p.buf[at+first:]...)
	e.xx.Reset()
	e.xx.Write(e.text)
	if stored {
		p.buf = appendRaw(p.buf, b)
		e.xx.Write(b)
		e.xx.Write(recordEndBytes)
	}
	p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(e.xx.Sum64()))
	if cap(e.text) > keepPrepared {
		e.text = nil
	}
}

// findBlocks returns the offsets of the first and of the last block of a frame without checksum.
func findBlocks(frame []byte) (first, last int) {
	first = len(frameMagic) + 1 + frameHeadRest(frame[len(frameMagic)])
	for at := first; at < len(frame); {
		last = at
		_, size := parseBlockHead(frame[at:])
		at += blockHead + size
	}
	return first, last
}

// frameWriter returns a compressor that writes the frame of a record of size bytes to w.
func (e *Encoder) frameWriter(w io.Writer, size int64) *zstd.Encoder {
	if e.pieces == nil {
		var err error
		if e.pieces, err = zstd.NewWriter(nil, e.zst.options(1, true)...); err != nil {
			panic("BUG: warc: " + err.Error())
		}
	}
	e.pieces.ResetContentSize(w, size)
	return e.pieces
}

// frameLarge writes the text, the large body and the end of the record as one frame.
func (e *Encoder) frameLarge(out *bufio.Writer, size int64, stored bool, body io.Reader) error {
	size += int64(len(e.text)) + int64(len(recordEnd))
	if size <= wholeBytes { // one that is not large after all
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		var p Prepared
		e.frame(&p, b, stored && len(b) > 0)
		_, err = out.Write(p.buf)
		return err
	}
	if !stored {
		w := e.frameWriter(out, size)
		defer w.Reset(nil) // an idle Encoder must not retain out
		w.Write(e.text)    // out keeps the first error
		if _, err := io.Copy(w, body); err != nil {
			return err
		}
		w.Write(recordEndBytes)
		return w.Close()
	}
	out.Write(appendFrameHead(nil, uint64(size), e.zst.dictID, false))
	e.xx.Reset()
	block := make([]byte, maxBlock)
	rest := io.TeeReader(io.MultiReader(bytes.NewReader(e.text), body), &e.xx)
	for {
		n, err := io.ReadFull(rest, block)
		if n > 0 {
			out.Write(appendBlockHead(nil, n, 0))
			out.Write(block[:n])
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	e.xx.Write(recordEndBytes)
	_, err := out.Write(binary.LittleEndian.AppendUint32(appendRaw(nil, nil), uint32(e.xx.Sum64())))
	return err
}
