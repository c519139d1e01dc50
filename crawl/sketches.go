package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"

	"drumbeat/weburl"
)

// sketches estimates the numbers of distinct hosts found and servers resolved (HyperLogLog, 2^14 registers,
// error about 0.8 %). Exact sets would each need RAM or a store. These numbers of the paper's section VIII
// cannot be computed afterwards.
type sketches struct {
	mu      sync.Mutex // guards the fields below
	hosts   *hyperloglog.Sketch
	servers *hyperloglog.Sketch
	last    string // host added last: most URLs arrive in runs of one host
}

func newSketches() *sketches {
	return &sketches{hosts: hyperloglog.New14(), servers: hyperloglog.New14()}
}

func (s *sketches) addHost(host []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == string(host) {
		return
	}
	s.last = string(host)
	s.hosts.InsertHash(xxhash.Sum64(host))
}

func (s *sketches) addServers(addrs []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range addrs {
		b := a.As16()
		s.servers.InsertHash(xxhash.Sum64(b[:]))
	}
}

func (s *sketches) estimates() (hosts, servers int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.hosts.Estimate()), int64(s.servers.Estimate())
}

// encode returns the uvarint length and the bytes of each sketch.
func (s *sketches) encode() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []byte
	for _, sk := range []*hyperloglog.Sketch{s.hosts, s.servers} {
		b, err := sk.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("crawl: encode sketch: %w", err)
		}
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	return out, nil
}

func (s *sketches) decode(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	for _, sk := range []*hyperloglog.Sketch{s.hosts, s.servers} {
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

// sketch adds the host of a unique URL.
func (s *seenStage) sketch(url []byte) { s.sketches.addHost(weburl.Split(url).Host) }
