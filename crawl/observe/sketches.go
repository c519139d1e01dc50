package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"

	"drumbeat/state/snapshot"
)

// Sketches estimates the numbers of distinct hosts found and servers resolved (HyperLogLog, 2^14 registers,
// error about 0.8 %). Exact sets would each need RAM or a store. These numbers of the paper's section VIII
// cannot be computed afterwards. It also estimates the numbers of PLDs with many responses, and finds those with
// the most (heavy.go). A sketch counts an item once, however often a crash makes STAR add it again. All sketches
// together take 29 × 16 KiB at most.
type Sketches struct {
	mu      sync.Mutex // guards the fields below
	hosts   *hyperloglog.Sketch
	servers *hyperloglog.Sketch
	// answered are the hosts, PLDs and servers with a response. STAR adds PLDs to pages with its next pass only.
	answered [3]*hyperloglog.Sketch
	pages    [pageSketches]*hyperloglog.Sketch // pages[i] has the PLDs with 2^i responses or more
	heavy    heavyPLDs                         // not kept between runs
	last     string                            // host added last: most URLs arrive in runs of one host
}

// pageSketches is the number of powers of two for which PLDs are counted. A sketch that is not nearly empty
// takes 16 KiB.
const pageSketches = 24

// NewSketches returns empty sketches.
func NewSketches() *Sketches {
	s := &Sketches{hosts: hyperloglog.New14(), servers: hyperloglog.New14()}
	for i := range s.pages {
		s.pages[i] = hyperloglog.New14()
	}
	for i := range s.answered {
		s.answered[i] = hyperloglog.New14()
	}
	return s
}

// all returns the sketches in the order of their coding.
func (s *Sketches) all() []*hyperloglog.Sketch {
	return append(append([]*hyperloglog.Sketch{s.hosts, s.servers}, s.pages[:]...), s.answered[:]...)
}

// AddPages adds a PLD whose number of responses has grown.
func (s *Sketches) AddPages(pld uint64, before, now uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := bits.Len32(before); i < min(bits.Len32(now), pageSketches); i++ {
		s.pages[i].InsertHash(pld)
	}
}

// pagesBelow returns, for each of snapshot.PLDShares, the least power of two that this share of the visited
// PLDs has fewer responses than.
func (s *Sketches) pagesBelow() (below [len(snapshot.PLDShares)]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	visited := float64(s.pages[0].Estimate())
	if visited == 0 {
		return below
	}
	for n, share := range snapshot.PLDShares {
		i := 1
		for i < pageSketches-1 && float64(s.pages[i].Estimate()) > (1-share)*visited {
			i++
		}
		below[n] = 1 << i
	}
	return below
}

// AddHost adds the host of a unique URL.
func (s *Sketches) AddHost(host []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == string(host) {
		return
	}
	s.last = string(host)
	s.hosts.InsertHash(xxhash.Sum64(host))
}

// AddServers adds the addresses of a resolved host.
func (s *Sketches) AddServers(addrs []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range addrs {
		b := a.As16()
		s.servers.InsertHash(xxhash.Sum64(b[:]))
	}
}

// AddAnswer adds the host, the PLD and the address of a response.
func (s *Sketches) AddAnswer(host []byte, pld uint64, addr netip.Addr) {
	b := addr.As16()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heavy.add(pld, host)
	s.answered[0].InsertHash(xxhash.Sum64(host))
	s.answered[1].InsertHash(pld)
	s.answered[2].InsertHash(xxhash.Sum64(b[:]))
	s.servers.InsertHash(xxhash.Sum64(b[:])) // a URL may name the address, and then none is looked up
}

// Show adds the estimates to a snapshot.
func (s *Sketches) Show(snap *snapshot.Snapshot) {
	snap.PLDPages = s.pagesBelow()
	s.mu.Lock()
	defer s.mu.Unlock()
	estimate := func(sk *hyperloglog.Sketch) int64 { return int64(sk.Estimate()) }
	snap.Hosts, snap.Servers = estimate(s.hosts), estimate(s.servers)
	snap.HostsAnswered, snap.PLDsAnswered, snap.ServersAnswered = estimate(s.answered[0]), estimate(s.answered[1]),
		estimate(s.answered[2])
}

// Encode returns the uvarint length and the bytes of each sketch.
func (s *Sketches) Encode() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []byte
	for _, sk := range s.all() {
		b, err := sk.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("crawl: encode sketch: %w", err)
		}
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	return out, nil
}

// Decode decodes sketches. Those of earlier versions end after the first two, or before answered.
func (s *Sketches) Decode(b []byte) error {
	for _, sk := range s.all() {
		if len(b) == 0 {
			return nil
		}
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return errors.New("crawl: bad coding of sketches")
		}
		if err := sk.UnmarshalBinary(b[w : w+int(n)]); err != nil {
			return fmt.Errorf("crawl: decode sketch: %w", err)
		}
		b = b[w+int(n):]
	}
	return nil
}
