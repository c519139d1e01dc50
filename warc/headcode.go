package warc

import (
	"encoding/binary"
	"math/bits"
)

// Heads are packed with a fixed Huffman code and without matches, as deflate blocks with the dynamic code
// whose table is below. A compressor spends its time on tables (22 µs for a head of 600 bytes). Here a byte
// of text takes a lookup and a shift (0.8 ns), and the bits of texts common to all records are precomputed.
// Heads take about 15 % more bytes than at level 3, which is 2 % of a page.
//
// The code lengths minimize the bytes, table included, over the heads of a crawl of 4,500 pages mixed with
// heads of common servers. They were found by annealing; a shorter table justifies longer codes.
//
// Heads of well-behaved servers have no bytes without a code. The compressor handles heads with such bytes.
const (
	// headLengths are the code lengths of ' ' to '~' in bits, in hexadecimal.
	headLengths = "5bbbbbbaaaaaa5666667777777588888" + "86867777778888888a676888888bbbbb" +
		"b565646666a86655695646777799999"
	tabLength  = 10
	lineLength = 5 // of CR and LF
	endLength  = 10
	mostLength = 11

	endOfBlock = 256
)

// tableLengths are the lengths of the codes that encode the table itself: of 0 to 15 and the three repeats.
var tableLengths = [19]byte{4, 0, 0, 0, 6, 3, 2, 4, 4, 5, 4, 5, 0, 0, 0, 0, 2, 6, 5}

// noCode marks bytes without a code.
const noCode = 1 << 31

// headCodes are the codes of bytes. The low 8 bits are the length; the bits above are the code in output
// order.
var headCodes, headEnd = newHeadCodes()

// allLengths returns the code lengths of all symbols up to the end of a block.
func allLengths() (l [endOfBlock + 1]byte) {
	l['\t'], l['\r'], l['\n'], l[endOfBlock] = tabLength, lineLength, lineLength, endLength
	for i, c := range []byte(headLengths) {
		if c >= 'a' {
			c -= 'a' - '9' - 1
		}
		l[' '+i] = c - '0'
	}
	return l
}

// canonical returns the codes that RFC 1951, 3.2.2, assigns to code lengths, in the form of headCodes.
func canonical(lengths []byte) []uint32 {
	var count, next [16]uint32
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	for n := 1; n < len(next); n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
	}
	codes := make([]uint32, len(lengths))
	for i, n := range lengths {
		codes[i] = noCode
		if n > 0 {
			codes[i] = uint32(bits.Reverse16(uint16(next[n]))>>(16-n))<<8 | uint32(n)
			next[n]++
		}
	}
	return codes
}

func newHeadCodes() (*[256]uint32, uint32) {
	lengths := allLengths()
	codes := canonical(lengths[:])
	return (*[256]uint32)(codes[:256]), codes[endOfBlock]
}

// packer writes bits, lowest first, into buf, which must have room for them and 8 bytes more.
type packer struct {
	buf  []byte
	at   int    // number of bytes written
	acc  uint64 // bits of an incomplete byte
	n    uint   // number of these bits, below 8
	seen uint32 // all codes of text ORed; has noCode if one was missing
}

// bits writes the n lowest bits of v, at most 56; the higher bits must be 0.
func (w *packer) bits(v uint64, n uint) {
	w.acc |= v << (w.n & 63)
	w.n += n
	binary.LittleEndian.PutUint64(w.buf[w.at:], w.acc)
	w.at += int(w.n >> 3)
	w.acc >>= w.n &^ 7 & 63
	w.n &= 7
}

// align fills an incomplete byte with zero bits.
func (w *packer) align() {
	if w.n > 0 {
		w.at++ // bits has already written it
	}
	w.acc, w.n = 0, 0
}

// text writes the codes of s.
func (w *packer) text(s []byte) {
	codes, seen := headCodes, w.seen
	acc, n, at, buf := w.acc, w.n, w.at, w.buf
	i := 0
	for ; i+5 <= len(s); i += 5 { // 7 bits and 5 codes fit into 64
		t := s[i : i+5 : i+5]
		c0, c1, c2, c3, c4 := codes[t[0]], codes[t[1]], codes[t[2]], codes[t[3]], codes[t[4]]
		seen |= c0 | c1 | c2 | c3 | c4
		// Pairs shorten the dependency chain of the shifts.
		n0, n2, n4 := c0&0xff, c2&0xff, c4&0xff
		v01 := uint64(c0>>8) | uint64(c1>>8)<<(n0&63)
		v23 := uint64(c2>>8) | uint64(c3>>8)<<(n2&63)
		n01, n23 := n0+c1&0xff, n2+c3&0xff
		v := v01 | v23<<(n01&63) | uint64(c4>>8)<<((n01+n23)&63)
		acc |= v << (n & 63)
		n += uint(n01 + n23 + n4)
		binary.LittleEndian.PutUint64(buf[at:], acc)
		at += int(n >> 3)
		acc >>= n &^ 7 & 63
		n &= 7
	}
	for _, b := range s[i:] { // at most four
		c := codes[b]
		seen |= c
		acc |= uint64(c>>8) << (n & 63)
		n += uint(c & 0xff)
	}
	binary.LittleEndian.PutUint64(buf[at:], acc)
	at += int(n >> 3)
	w.acc, w.n, w.at, w.seen = acc>>(n&^7&63), n&7, at, seen
}

// end writes the end of a block.
func (w *packer) end() { w.bits(uint64(headEnd>>8), uint(headEnd&0xff)) }

// Header bits of a block with a table: not the last, the last.
const (
	blockOpen  = 0b100
	blockFinal = 0b101
)

// table writes the beginning of a block: its header and the code lengths (RFC 1951, 3.2.7). There is one
// distance code of no bits, since none is used.
func (w *packer) table(head uint64) {
	order := [19]byte{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	used := len(order)
	for tableLengths[order[used-1]] == 0 {
		used--
	}
	w.bits(head, 3)
	w.bits(0, 5) // 257 symbols
	w.bits(0, 5) // 1 distance
	w.bits(uint64(used-4), 4)
	for _, symbol := range order[:used] {
		w.bits(uint64(tableLengths[symbol]), 3)
	}
	codes := canonical(tableLengths[:])
	put := func(symbol byte, extra uint64, n uint) {
		w.bits(uint64(codes[symbol]>>8), uint(codes[symbol]&0xff))
		w.bits(extra, n)
	}
	symbols := allLengths()
	for rest := append(symbols[:], 0); len(rest) > 0; {
		first, run := rest[0], 1
		for run < len(rest) && rest[run] == first {
			run++
		}
		switch {
		case first == 0 && run >= 11:
			run = min(run, 138)
			put(18, uint64(run-11), 7)
		case first == 0 && run >= 3:
			put(17, uint64(run-3), 3)
		case first != 0 && run >= 4:
			run = min(run, 7)
			put(first, 0, 0)
			put(16, uint64(run-4), 2)
		default:
			run = 1
			put(first, 0, 0)
		}
		rest = rest[run:]
	}
}

// fragment is text common to many records, with its packed bits.
type fragment struct {
	text  string
	words []uint64 // 56 bits each
	last  uint     // number of bits in the last word
}

// newFragment packs a text, after the beginning of a block if block is not 0.
func newFragment(text string, block uint64) *fragment {
	f := &fragment{text: text}
	w := packer{buf: make([]byte, 256+2*len(text))}
	if block != 0 {
		w.table(block)
	}
	w.text([]byte(text))
	if w.seen&noCode != 0 {
		panic("BUG: warc: no code for a byte of " + text)
	}
	total := uint(w.at)*8 + w.n
	for at := 0; total > 0; at += 7 {
		f.last = min(total, 56)
		f.words = append(f.words, binary.LittleEndian.Uint64(w.buf[at:])&(1<<f.last-1))
		total -= f.last
	}
	return f
}

// fragment writes a fragment.
func (w *packer) fragment(f *fragment) {
	last := len(f.words) - 1
	for _, v := range f.words[:last] {
		w.bits(v, 56)
	}
	w.bits(f.words[last], f.last)
}

// Texts common to all or many records. Those that begin a record also begin a block.
var (
	beginRequest  = newFragment("WARC/1.1\r\nWARC-Type: request\r\nWARC-Target-URI: ", blockFinal)
	beginResponse = newFragment("WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: ", blockOpen)
	beginWhole    = newFragment("WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: ", blockFinal)
	beginMetadata = newFragment("WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Target-URI: ", blockFinal)
	beginResource = newFragment("WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: ", blockOpen)
	beginSmall    = newFragment(beginResource.text, blockFinal) // a resource of one block
	beginInfo     = newFragment("WARC/1.1\r\nWARC-Type: warcinfo", blockFinal)

	fieldDate       = newFragment("\r\nWARC-Date: ", 0)
	fieldID         = newFragment("\r\nWARC-Record-ID: <urn:uuid:", 0)
	fieldIP         = newFragment("\r\nWARC-IP-Address: ", 0)
	fieldProtocol   = newFragment("\r\nWARC-Protocol: ", 0)
	fieldCipher     = newFragment("\r\nWARC-Cipher-Suite: ", 0)
	fieldConcurrent = newFragment("\r\nWARC-Concurrent-To: <urn:uuid:", 0)
	fieldPayload    = newFragment("\r\nWARC-Payload-Digest: sha1:", 0)
	fieldTruncated  = newFragment("\r\nWARC-Truncated: ", 0)
	fieldBlock      = newFragment("\r\nWARC-Block-Digest: sha1:", 0)
	fieldFilename   = newFragment("\r\nWARC-Filename: ", 0)
	fieldResource   = newFragment("\r\nWARC-Resource-Type: ", 0)

	typeRequest  = newFragment("\r\nContent-Type: application/http; msgtype=request\r\nContent-Length: ", 0)
	typeResponse = newFragment("\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: ", 0)
	typeRevisit  = newFragment(typeResponse.text, 0) // such records have a block digest
	typeFields   = newFragment("\r\nContent-Type: application/warc-fields\r\nContent-Length: ", 0)
	typeDNS      = newFragment("\r\nContent-Type: text/dns\r\nContent-Length: ", 0)
	typeHTML     = newFragment("\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: ", 0)
	emptyLine    = newFragment("\r\n\r\n", 0)
)
