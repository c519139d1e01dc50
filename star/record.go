package star

import (
	"encoding/binary"
	"math"
)

// LedgerBytes is the length of an opaque ledger in a PLD record.
const LedgerBytes = 16

// RecordBytes is the length of an encoded PLD record with one ledger.
const RecordBytes = 40

// MaxLanes is the largest number of lanes, each of which has a ledger in the PLD records.
const MaxLanes = 8

// RecordBytesOf returns the length of an encoded PLD record in a crawl with the given number of lanes, 0 being 1,
// and with classes of hosts or without.
func RecordBytesOf(lanes int, hosts bool) int { return RecordBytes + furtherBytes(lanes, hosts) }

func furtherBytes(lanes int, hosts bool) int {
	lanes = max(lanes, 1)
	if hosts {
		return LedgerBytes*(lanes*HostClasses-1) + hostBitBytes
	}
	return LedgerBytes * (lanes - 1)
}

// PLD is the record of a pay-level domain, the value of the indegree drum.
//
// Encoding, little-endian:
//
//	offset  bytes  field
//	     0      4  Indegree
//	     4      4  FirstSeen
//	     8     16  Ledger
//	    24      4  Placed
//	    28      4  Fetched
//	    32      6  Bytes
//	    38      2  Support; releases before it was defined wrote zeros, as the upper bytes of Bytes
//	    40     16  Further, of each lane after the first
//
// With classes of hosts, Further has the ledgers of all lanes for each class after the first, too, and then the bitmap
// of hosts (8 bytes): see addHost.
type PLD struct {
	Indegree  uint32            // number of other PLDs that link to it
	FirstSeen uint32            // Unix seconds
	Ledger    [LedgerBytes]byte // of lane 0, defined by package beast
	Placed    uint32            // URLs placed into a numbered queue; saturates
	Fetched   uint32            // responses; saturates
	Bytes     uint64            // bytes of responses; saturates at 2^48-1
	Support   Support           // by the last computation that knew the PLD
	Further   []byte            // ledgers of the other lanes and classes, LedgerBytes each, and the bitmap of hosts
}

// LedgerOf returns the ledger of a lane, in class 0 of hosts. That of class c has index c·lanes + lane.
func (p *PLD) LedgerOf(lane int) *[LedgerBytes]byte {
	if lane == 0 {
		return &p.Ledger
	}
	return (*[LedgerBytes]byte)(p.Further[(lane-1)*LedgerBytes:])
}

// Lanes returns the number of ledgers.
func (p *PLD) Lanes() int { return 1 + len(p.Further)/LedgerBytes }

// Append appends the encoded record to dst.
func (p *PLD) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, p.Indegree)
	dst = binary.LittleEndian.AppendUint32(dst, p.FirstSeen)
	dst = append(dst, p.Ledger[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, p.Placed)
	dst = binary.LittleEndian.AppendUint32(dst, p.Fetched)
	dst = binary.LittleEndian.AppendUint64(dst, p.Bytes|uint64(p.Support)<<48)
	return append(dst, p.Further...)
}

// Decode decodes a record. b must have at least RecordBytes. Further is a slice of b.
func (p *PLD) Decode(b []byte) {
	_ = b[:RecordBytes]
	p.Indegree = binary.LittleEndian.Uint32(b[0:])
	p.FirstSeen = binary.LittleEndian.Uint32(b[4:])
	p.Ledger = [LedgerBytes]byte(b[8:24])
	p.Placed = binary.LittleEndian.Uint32(b[24:])
	p.Fetched = binary.LittleEndian.Uint32(b[28:])
	if p.Further = nil; len(b) > RecordBytes {
		p.Further = b[RecordBytes:len(b):len(b)]
	}
	last := binary.LittleEndian.Uint64(b[32:])
	p.Bytes, p.Support = last&mostBytes, Support(last>>48)
}

const mostBytes = 1<<48 - 1

func addSaturated(a *uint32, n uint32) {
	if *a > math.MaxUint32-n {
		*a = math.MaxUint32
		return
	}
	*a += n
}

// values returns the values by which a PLD is ranked.
func (p *PLD) values() [numOrders]uint64 {
	return [...]uint64{ByIndegree: uint64(p.Indegree), ByPages: uint64(p.Fetched), ByBytes: p.Bytes}
}

// EdgeBytes is the length of a value of the edges drum: the key of the target PLD.
const EdgeBytes = 8

// edgeFactor is odd, so that multiplication by it is a bijection of keys.
const edgeFactor = 0x9e3779b97f4a7c15

// key returns an edge's key in the drum. From can be computed from the key and To. Keys of PLDs are hashes
// with the crawl's secret, so keys of edges are spread evenly too, and two edges collide no more often than
// two hashes.
func (e Edge) key() uint64 { return e.From ^ e.To*edgeFactor }

// decodeEdge returns the edge of an entry.
func decodeEdge(key uint64, value []byte) Edge {
	to := binary.LittleEndian.Uint64(value)
	return Edge{From: key ^ to*edgeFactor, To: to}
}

// Values of update tuples in the indegree drum: a kind byte, then little-endian numbers.
const (
	updateEdges   = 1 // 4 bytes: number of new edges to the PLD
	updateFetched = 2 // 4 bytes: number of pages; 8 bytes: their bytes
	updateSupport = 3 // 2 bytes: Support
	// updateArrived has the counts of a PLD that comes from another node, 4 bytes each: Placed, Fetched, FirstSeen; 8
	// bytes: Bytes. Its in-degree comes with its edges.
	updateArrived = 4

	maxUpdateBytes = 21
)

// checkValues are the values of check tuples of lane 0: one byte, the part of the budget, plus checkedBefore. Those
// with neither have no value.
var checkValues = func() (values [256]byte) {
	for i := range values {
		values[i] = byte(i)
	}
	return values
}()

const checkedBefore = 0x80 // CheckTuple.Again

// mostCheckBytes is the largest length of a check tuple's value: part, lane, level and bit of the host.
const mostCheckBytes = 4

// checkValue returns the value of a check tuple. A lane other than 0 is a second byte, in buf. With classes of hosts
// the level and the bit of the host follow.
func checkValue(c *CheckTuple, hosts bool, buf *[mostCheckBytes]byte) []byte {
	part := c.Part
	if c.Again {
		part |= checkedBefore
	}
	switch {
	case hosts:
		buf[0], buf[1], buf[2], buf[3] = part, c.Lane, c.Level, bitOf(c.Host)
		return buf[:]
	case c.Lane != 0:
		buf[0], buf[1] = part, c.Lane
		return buf[:2]
	case part == 0:
		return nil
	}
	return checkValues[part : int(part)+1]
}

// checked is the decoded value of a check tuple.
type checked struct {
	part, lane uint8
	again      bool
	level, bit uint8 // of the host
}

// checkOf returns what the value of a check tuple says.
func checkOf(value []byte) (c checked) {
	switch len(value) {
	case 0:
		return c
	case mostCheckBytes:
		c.level, c.bit = value[2], value[3]
		fallthrough
	case 2:
		c.lane = value[1]
		fallthrough
	case 1:
		c.part, c.again = value[0]&^checkedBefore, value[0]&checkedBefore != 0
		return c
	}
	panic("BUG: star: check tuple of unknown form")
}

func appendEdges(dst []byte, n uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, updateEdges), n)
}

func appendFetched(dst []byte, pages uint32, bytes uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, updateFetched), pages)
	return binary.LittleEndian.AppendUint64(dst, bytes)
}

// apply adds an update tuple's value to the record. The drum verifies checksums, so any other form is a bug.
func (p *PLD) apply(value []byte) {
	switch {
	case len(value) == 5 && value[0] == updateEdges:
		addSaturated(&p.Indegree, binary.LittleEndian.Uint32(value[1:]))
	case len(value) == 13 && value[0] == updateFetched:
		addSaturated(&p.Fetched, binary.LittleEndian.Uint32(value[1:]))
		p.Bytes = min(p.Bytes+min(binary.LittleEndian.Uint64(value[5:]), mostBytes), mostBytes)
	case len(value) == 3 && value[0] == updateSupport:
		p.Support = Support(binary.LittleEndian.Uint16(value[1:]))
	case len(value) == 21 && value[0] == updateArrived:
		addSaturated(&p.Placed, binary.LittleEndian.Uint32(value[1:]))
		addSaturated(&p.Fetched, binary.LittleEndian.Uint32(value[5:]))
		p.FirstSeen = min(p.FirstSeen, binary.LittleEndian.Uint32(value[9:]))
		p.Bytes = min(p.Bytes+min(binary.LittleEndian.Uint64(value[13:]), mostBytes), mostBytes)
	default:
		panic("BUG: star: update tuple of unknown form")
	}
}
