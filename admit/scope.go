package admit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"drumbeat/disk"
	"drumbeat/state"
)

// maxScope limits the hosts or PLDs of a scope: each takes about 20 bytes of the Go heap. A crawl of more
// sites needs --scope all with a link filter.
const maxScope = 4 << 20

// Sites is the set of hosts or PLDs that --scope allows. Each start reads the seeds' sites from the seed
// file; the manifest holds those that redirects of seeds added. It is safe for concurrent use.
type Sites struct {
	kind state.Scope

	mu       sync.RWMutex // guards the fields below up to full; read-locked once per link
	base     map[uint64]struct{}
	extended map[uint64]struct{}
	full     bool

	hostKey func([]byte) uint64
}

// NewSites returns a scope without seeds. extended are the keys that redirects of seeds added in earlier
// runs.
func NewSites(kind state.Scope, hostKey func([]byte) uint64, extended []uint64) *Sites {
	s := &Sites{kind: kind, hostKey: hostKey, base: map[uint64]struct{}{}, extended: map[uint64]struct{}{}}
	for _, k := range extended {
		s.extended[k] = struct{}{}
	}
	return s
}

// WithoutWWW removes a "www." label, because a site is in scope with and without it.
func WithoutWWW(host []byte) []byte { return bytes.TrimPrefix(host, []byte("www.")) }

func (s *Sites) keyOf(host []byte, pld uint64) uint64 {
	if s.kind == state.ScopePLD {
		return pld
	}
	return s.hostKey(WithoutWWW(host))
}

// allows reports whether a site is in scope.
func (s *Sites) allows(host []byte, pld uint64) bool {
	if s.kind == state.ScopeAll {
		return true
	}
	k := s.keyOf(host, pld)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, ok := s.base[k]; ok {
		return true
	}
	_, ok := s.extended[k]
	return ok
}

// include adds the site of a seed. It returns an error at maxScope sites.
func (s *Sites) include(host []byte, pld uint64) error {
	if s.kind == state.ScopeAll {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.base) >= maxScope {
		return fmt.Errorf("crawl: scope %s: the seeds have more than %d sites; use --scope all", s.kind, maxScope)
	}
	s.base[s.keyOf(host, pld)] = struct{}{}
	return nil
}

// extend adds the site that a seed redirects to, and returns its key; ok is false if no seed's redirect is needed
// for the site.
func (s *Sites) extend(host []byte, pld uint64) (key uint64, ok bool) {
	if s.kind == state.ScopeAll {
		return 0, false
	}
	key = s.keyOf(host, pld)
	return key, s.Extend(key)
}

// Extend adds a site by its key. At maxScope sites it adds nothing and sets full. It returns false if the site
// is that of a seed.
func (s *Sites) Extend(key uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.base[key]; ok || s.kind == state.ScopeAll {
		return false
	}
	if _, ok := s.extended[key]; !ok {
		if len(s.base)+len(s.extended) >= maxScope {
			s.full = true
			return false
		}
		s.extended[key] = struct{}{}
	}
	return true
}

// Extensions returns the sorted keys that redirects of seeds added.
func (s *Sites) Extensions() []uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := make([]uint64, 0, len(s.extended))
	for k := range s.extended {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// DumpKeys encodes keys for a tail file: 8 bytes each, little-endian.
func DumpKeys(keys []uint64) []byte {
	b := make([]byte, 0, 8*len(keys))
	for _, k := range keys {
		b = binary.LittleEndian.AppendUint64(b, k)
	}
	return b
}

// ReadSites reads the extensions in the last checkpoint.
func ReadSites(set disk.Set, ref disk.Ref) ([]uint64, error) {
	b, err := disk.ReadTail(set, ref)
	if err != nil {
		return nil, err
	}
	if len(b)%8 != 0 || len(b)/8 > maxScope {
		return nil, fmt.Errorf("crawl: scope of the last checkpoint: %d bytes, want 8 for each of at most %d keys",
			len(b), maxScope)
	}
	keys := make([]uint64, len(b)/8)
	for i := range keys {
		keys[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return keys, nil
}
