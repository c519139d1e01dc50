package star

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"

	"drumbeat/drum"
)

// The reputation of hosts (paper, sections VI.B and VIII.B, future work).
//
// A store outside the Star has a HostSketch of each host: it counts the other PLDs that link to the host. A
// HostLevels in RAM has the levels of these counts, and a check of a URL brings the level of its host. The hosts
// of a PLD fall into HostClasses classes by the number of links, relative to the PLD's in-degree. Package beast
// divides the budget among the classes that have URLs. Only that of a PLD with many hosts is divided.

// HostClasses is the number of classes of hosts. Class 0 has the hosts without a link from another PLD.
const HostClasses = 4

// AllLinks is the level of a host that counts as linked by all PLDs that link to its PLD.
const AllLinks = math.MaxUint8

// HostSketch counts the distinct PLDs that link to a host: HyperLogLog with 32 registers of 4 bits (Flajolet et al.,
// 2007). A PLD counts once, also if a crash repeats an update. The standard error is 18 %; up to 3 PLDs it is
// hardly ever wrong. It counts up to 300,000, and less for no number of links more.
//
// Encoding: register r in the low (r even) or high 4 bits of byte r/2.
type HostSketch [HostSketchBytes]byte

// HostSketchBytes is the length of a HostSketch.
const HostSketchBytes = 16

const (
	sketchRegisters = 2 * HostSketchBytes
	mostSketchRank  = 15
)

// HostLink is a link from a page of one PLD to a host of another PLD, given by their keys.
type HostLink struct{ From, Host uint64 }

// Value is that of the link's tuple in the store of sketches, whose key is the host and whose operation is
// check+update: register and rank.
func (l HostLink) Value() [2]byte {
	rank := min(bits.TrailingZeros64(l.From/sketchRegisters)+1, mostSketchRank)
	return [2]byte{byte(l.From % sketchRegisters), byte(rank)}
}

// Recent is the key of the link in a cache that holds recent edges, too.
func (l HostLink) Recent() drum.Key {
	return drum.Key(bits.RotateLeft64(l.From, 32) ^ l.Host*edgeFactor)
}

// IsHostLink reports whether a value has the form of HostLink.Value.
func IsHostLink(value []byte) bool {
	return len(value) == 2 && value[0] < sketchRegisters && value[1] > 0 && value[1] <= mostSketchRank
}

// HostLinksShape returns the options that fix the format of the store of sketches.
func HostLinksShape() drum.Options {
	return drum.Options{ValueBytes: HostSketchBytes, Each: true, Codec: drum.Rice, Apply: applyLinks}
}

// add raises a register. It ignores values of other forms.
func (s *HostSketch) add(value []byte) {
	if !IsHostLink(value) {
		return
	}
	at, shift := value[0]/2, 4*(value[0]%2)
	if rank := s[at] >> shift & 15; value[1] > rank {
		s[at] = s[at]&^(15<<shift) | value[1]<<shift
	}
}

// Links estimates the number of PLDs. It grows with every register.
func (s *HostSketch) Links() float64 {
	zeros, sum := 0.5, 0. // half a register: an upper bound for the linear count
	for _, b := range s {
		for _, rank := range [...]byte{b & 15, b >> 4} {
			if rank == 0 {
				zeros++
			}
			sum += math.Ldexp(1, -int(rank))
		}
	}
	const m, alpha = sketchRegisters, 0.697
	linear := m * math.Log(m/max(0.5, zeros-0.5))
	if raw := alpha * m * m / sum; raw > 2.5*m {
		return max(linear, raw)
	}
	return linear
}

// levelSteps is the number of levels for each power of two.
const levelSteps = 8

// Level returns the level of a host with the sketch: about 8 times the logarithm, to base 2, of one more than the
// links; 0 without links.
func (s *HostSketch) Level() uint8 { return levelOf(s.Links()) }

func levelOf(links float64) uint8 { return uint8(math.Round(levelSteps * math.Log2(1+links))) }

// applyLinks is the Apply of the store of sketches. The result of the last tuple for a host is the level of the
// host, if that has risen; others are 0.
func applyLinks(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena, dst []byte) ([]byte, drum.Action) {
	var s HostSketch
	if exists {
		copy(s[:], old)
	}
	was := s
	for i := range run {
		run[i].Result = 0
		s.add(run[i].Value)
	}
	if exists && s == was {
		return dst, drum.Keep
	}
	if level := s.Level(); level > was.Level() {
		run[len(run)-1].Result = uint64(level)
	}
	return append(dst, s[:]...), drum.Set
}

// classOf returns the class of a host by its level and the in-degree of its PLD: 0 without links, and from 1 up by
// the logarithm of the links in relation to that of the in-degree.
func classOf(level uint8, indegree uint32) int {
	switch all := levelSteps * math.Log2(1+float64(indegree)); {
	case level == 0:
		return 0
	case level == AllLinks || float64(level) >= all:
		return HostClasses - 1
	default:
		return 1 + int((HostClasses-1)*float64(level)/all)
	}
}

// HostLevels has the levels of hosts in RAM of a fixed size, 4 bytes each. If it is full, it forgets hosts of low
// levels for those of higher ones. Get is safe for concurrent use with everything; Set is for one goroutine.
//
// Hosts are in sets of 8 by the upper bits of their keys, each with 24 lower bits of the key. So one host in two
// million without an entry gets the level of another one.
type HostLevels struct {
	sets      [][levelSet]atomic.Uint32 // key<<8 | level
	forgotten atomic.Int64
}

const levelSet = 8

// NewHostLevels returns an empty table of at most so many bytes.
func NewHostLevels(bytes int64) *HostLevels {
	return &HostLevels{sets: make([][levelSet]atomic.Uint32, max(1, bytes/(4*levelSet)))}
}

func (h *HostLevels) set(host uint64) *[levelSet]atomic.Uint32 {
	at, _ := bits.Mul64(host, uint64(len(h.sets)))
	return &h.sets[at]
}

// Get returns the level of a host; 0 if it has none.
func (h *HostLevels) Get(host uint64) uint8 {
	set := h.set(host)
	for i := range set {
		if e := set[i].Load(); e>>8 == uint32(host)&(1<<24-1) {
			return uint8(e)
		}
	}
	return 0
}

// Set gives a host a level above 0.
func (h *HostLevels) Set(host uint64, level uint8) {
	set, lowest := h.set(host), 0
	tag := uint32(host) & (1<<24 - 1)
	for i := range set {
		e := set[i].Load()
		if e>>8 == tag && e != 0 {
			set[i].Store(tag<<8 | uint32(level))
			return
		}
		if uint8(e) < uint8(set[lowest].Load()) {
			lowest = i
		}
	}
	switch least := uint8(set[lowest].Load()); {
	case least == 0:
	case least < level:
		h.forgotten.Add(1)
	default:
		h.forgotten.Add(1)
		return
	}
	set[lowest].Store(tag<<8 | uint32(level))
}

// Forgotten returns how many times a host had no room, or lost it to another. It is 0 for nil.
func (h *HostLevels) Forgotten() int64 {
	if h == nil {
		return 0
	}
	return h.forgotten.Load()
}

// A PLD record with classes of hosts ends with a bitmap of the hosts that had URLs checked: each has one of 64 bits.
// From hosterBits bits on, which about 18 hosts set, the PLD's budget is divided. A site has fewer hosts, and pages on
// hosts to which nobody links; a hoster has more.
const (
	hostBits     = 64
	hostBitBytes = hostBits / 8
	hosterBits   = 16
)

// bitOf returns the bit of a host.
func bitOf(host uint64) uint8 { return uint8(host >> 16 % hostBits) }

// hostBitmap returns the bitmap of the record, nil if it has none.
func (p *PLD) hostBitmap() []byte {
	if n := len(p.Further); n%LedgerBytes == hostBitBytes {
		return p.Further[n-hostBitBytes:]
	}
	return nil
}

// addHost notes that a URL of a host is checked, and reports whether the PLD's budget is divided.
func (p *PLD) addHost(bit uint8) bool {
	at := p.hostBitmap()
	hosts := binary.LittleEndian.Uint64(at) | 1<<(bit%hostBits)
	binary.LittleEndian.PutUint64(at, hosts)
	return bits.OnesCount64(hosts) >= hosterBits
}

// Hosts estimates the number of hosts that had URLs checked, up to some 200. Divided says that there are so many that
// classes of hosts share the PLD's budget. Both are zero in a crawl without classes of hosts.
func (p *PLD) Hosts() (n int, divided bool) {
	at := p.hostBitmap()
	if at == nil {
		return 0, false
	}
	set := bits.OnesCount64(binary.LittleEndian.Uint64(at))
	n = int(math.Round(hostBits * math.Log(hostBits/max(0.5, float64(hostBits-set)))))
	return n, set >= hosterBits
}

// place calls Options.Place, or PlaceHost for a URL of a PLD whose budget is divided.
func (s *Star) place(pld *PLD, c checked, budget uint32, lane uint8) int64 {
	if !s.opt.Hosts || !pld.addHost(c.bit) || c.part != 0 {
		return s.opt.Place(pld.LedgerOf(int(lane)), budget, c.part, lane)
	}
	var ledgers [HostClasses]*[LedgerBytes]byte
	for class := range ledgers {
		ledgers[class] = pld.LedgerOf(class*s.opt.Lanes + int(lane))
	}
	return s.opt.PlaceHost(&ledgers, classOf(c.level, pld.Indegree), budget, lane)
}
