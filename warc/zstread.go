package warc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decoder opens records, gzip members and Zstandard frames alike. It recognizes them by their first bytes.
type decoder struct {
	gz  *gzip.Reader
	zst *zstd.Decoder // nil until first used
	// dict is the dictionary of the file, dictID its number; none and 0 without one.
	dict   []byte
	dictID uint32
}

// maxHeadBytes bounds what precedes the first record: a dictionary in its frame.
const maxHeadBytes = 8 + MaxDict

// fileDecoder returns a decoder for a file of which it has read the dictionary, if there is one. A file with
// a damaged one gets a decoder without; Read says what is wrong.
func fileDecoder(file io.ReaderAt) *decoder {
	d := new(decoder)
	in := bufio.NewReader(io.NewSectionReader(file, 0, maxHeadBytes))
	if magic, _ := in.Peek(len(dictFrameMagic)); string(magic) == dictFrameMagic {
		d.skip(in, true)
	}
	return d
}

// open returns a reader of the text of the next record, which ends with the record.
func (d *decoder) open(in *bufio.Reader) (io.Reader, error) {
	if magic, _ := in.Peek(len(frameMagic)); string(magic) == frameMagic {
		return d.openFrame(in)
	}
	var err error
	if d.gz == nil {
		d.gz, err = gzip.NewReader(in)
	} else {
		err = d.gz.Reset(in)
	}
	if err != nil {
		return nil, err
	}
	d.gz.Multistream(false)
	return d.gz, nil
}

// openFrame is open for a frame.
func (d *decoder) openFrame(in *bufio.Reader) (io.Reader, error) {
	f := &frameReader{in: in}
	h, err := f.header()
	if err != nil {
		return nil, err
	}
	if h.dictID != d.dictID {
		return nil, fmt.Errorf("frame for dictionary %d, the file has %d", h.dictID, d.dictID)
	}
	if d.zst == nil {
		opt := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(MaxDict)}
		if len(d.dict) > 0 {
			opt = append(opt, zstd.WithDecoderDicts(d.dict))
		}
		if d.zst, err = zstd.NewReader(nil, opt...); err != nil {
			return nil, err
		}
	}
	if err := d.zst.Reset(f); err != nil {
		return nil, err
	}
	return d.zst, nil
}

// skippable reports whether magic begins a skippable frame (RFC 8878, 3.1.2).
func skippable(magic []byte) bool {
	return len(magic) == 4 && magic[0]&0xf0 == 0x50 && string(magic[1:]) == dictFrameMagic[1:]
}

// skip reads a skippable frame. At the head of a file (first) it may have a dictionary, which it takes.
func (d *decoder) skip(in *bufio.Reader, first bool) error {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	if string(head[:4]) != dictFrameMagic {
		_, err := io.CopyN(io.Discard, in, size)
		return err
	}
	if !first {
		return errors.New("a dictionary that is not at the head of the file")
	}
	if size > MaxDict {
		return fmt.Errorf("frame of a dictionary of %d bytes, want at most %d", size, MaxDict)
	}
	dict, err := io.ReadAll(io.LimitReader(in, size))
	if err == nil && int64(len(dict)) < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if dict, err = unpackDict(dict); err != nil {
		return err
	}
	id, err := checkDict(dict)
	if err != nil {
		return err
	}
	d.dict, d.dictID, d.zst = dict, id, nil
	return nil
}

// unpackDict returns the dictionary of a frame, in which it may be compressed.
func unpackDict(b []byte) ([]byte, error) {
	if len(b) < len(frameMagic) || string(b[:len(frameMagic)]) != frameMagic {
		if len(b) == 0 {
			return nil, errors.New("frame without a dictionary")
		}
		return b, nil
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxDict),
		zstd.WithDecoderMaxMemory(MaxDict))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	dict, err := z.DecodeAll(b, nil)
	if err == nil && len(dict) == 0 {
		err = errors.New("frame with an empty dictionary")
	}
	return dict, err
}

// frameReader reads the bytes of a single frame. The decompressor would read beyond its end.
type frameReader struct {
	in      *bufio.Reader
	head    [18]byte // storage of pending
	pending []byte   // of a header or of the checksum, read but not delivered
	left    int      // bytes left of the current block
	last    bool     // it is the last block
	ended   bool
}

// frameHead is the header of a frame.
type frameHead struct {
	size   uint64 // of the content
	dictID uint32
	single bool // in a single segment
	window uint64
}

// asAWhole ends errors about frames that other programs make of whole files.
const asAWhole = "; a WARC file has a frame for each record: compress each on its own, not the whole file"

// header reads the header of the frame, which is also the first that Read returns.
func (f *frameReader) header() (h frameHead, err error) {
	b := f.head[:len(frameMagic)+1]
	if _, err := io.ReadFull(f.in, b); err != nil {
		return h, err
	}
	flags := b[len(frameMagic)]
	b = f.head[:len(b)+frameHeadRest(flags)]
	if _, err := io.ReadFull(f.in, b[len(frameMagic)+1:]); err != nil {
		return h, err
	}
	h.single = flags>>5&1 == 1
	rest := b[len(frameMagic)+1:]
	if !h.single {
		base := uint64(1) << (10 + rest[0]>>3) // RFC 8878, 3.1.1.1.2
		h.window = base + base/8*uint64(rest[0]&7)
		rest = rest[1:]
	}
	var wide [8]byte
	n := [...]int{0, 1, 2, 4}[flags&3]
	copy(wide[:], rest[:n])
	h.dictID, rest, wide = binary.LittleEndian.Uint32(wide[:]), rest[n:], [8]byte{}
	copy(wide[:], rest)
	if h.size = binary.LittleEndian.Uint64(wide[:]); len(rest) == 2 {
		h.size += 256
	}
	if flags>>2&1 == 0 || len(rest) == 0 {
		return h, errors.New("a Zstandard frame without checksum or content size" + asAWhole)
	}
	if h.single {
		h.window = h.size
	}
	if h.window > MaxDict {
		return h, fmt.Errorf("a Zstandard frame with a window of %d bytes, want at most %d%s",
			h.window, MaxDict, asAWhole)
	}
	f.pending = b
	return h, nil
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	for {
		switch {
		case len(f.pending) > 0:
			n := copy(p, f.pending)
			f.pending = f.pending[n:]
			return n, nil
		case f.left > 0:
			n, err := f.in.Read(p[:min(len(p), f.left)])
			f.left -= n
			return n, whole(err)
		case f.ended:
			return 0, io.EOF
		}
		f.pending = f.head[:blockHead]
		if f.last {
			f.pending, f.ended = f.head[:4], true // the checksum
		}
		if _, err := io.ReadFull(f.in, f.pending); err != nil {
			return 0, whole(err)
		}
		if f.ended {
			continue
		}
		var flags byte
		if flags, f.left = parseBlockHead(f.pending); flags>>1&3 == reservedBlock || f.left > maxBlock {
			return 0, fmt.Errorf("block of type %d with %d bytes", flags>>1&3, f.left)
		}
		f.last = flags&lastBlock != 0
	}
}
