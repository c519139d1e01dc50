package trapscore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"drumbeat/internal/simhash"
)

const (
	// NearBits is the number of bits in which the hashes of nearly equal pages may differ (Manku, Jain and Das
	// Sarma, WWW 2007).
	NearBits = 3

	// LeastPages is the number of pages below which a host has no score.
	LeastPages = 32

	// MaxPages is the number of pages at which the counts of a host are halved.
	MaxPages = 256

	// Parts is the denominator of Score.Part.
	Parts = 16
)

// Score is what is known of a host. Both counts are halved from time to time.
type Score struct {
	Pages    uint16 // pages with a hash
	Repeated uint16 // of these, pages that were nearly equal to an earlier one
}

// Share returns the trap score, from 0 to 1. It is 0 for a host of fewer than LeastPages pages.
func (s Score) Share() float64 {
	if s.Pages < LeastPages {
		return 0
	}
	return float64(s.Repeated) / float64(s.Pages)
}

// Part returns the part of its PLD's budget that a host may use, in sixteenths, from 1 to 8. It is 0 for a host
// that is no trap, which may use all of it.
func (s Score) Part() uint8 {
	if s.Pages < LeastPages || 2*s.Repeated < s.Pages {
		return 0
	}
	return uint8(max(1, Parts*int(s.Pages-s.Repeated)/int(s.Pages)))
}

// Table holds the scores of hosts.
type Table struct {
	traps  atomic.Int64
	shards [numShards]shard
}

const numShards = 64

// shard is the part of a table for a part of the hosts.
type shard struct {
	mu    sync.Mutex // guards the fields below; no other lock is taken under it
	hosts [][hostWays]host
	pages [][pageWays]page
}

// The entries of a set are in the order of their last use, the newest first. A set fills a cache line.
const (
	hostWays = 4
	pageWays = 4
	setBytes = 64
)

// host is an entry of a host; Pages is 0 in one that is not used.
type host struct {
	key uint64
	Score
	queue, released uint16 // for Release
}

// page is an entry of a page for one block of its hash; hash is 0 in one that is not used.
type page struct{ key, hash uint64 }

// New returns a table that uses about ram bytes, at least 8 KiB.
func New(ram int64) *Table {
	sets := max(1, ram/2/numShards/setBytes)
	t := new(Table)
	for i := range t.shards {
		t.shards[i].hosts = make([][hostWays]host, sets)
		t.shards[i].pages = make([][pageWays]page, sets)
	}
	return t
}

// shardOf returns the shard of a host. Keys are hashes; the lowest bits choose the shard, the highest the set.
func (t *Table) shardOf(key uint64) *shard { return &t.shards[key%numShards] }

// set returns the index of the set of a key among n.
func set(key uint64, n int) int {
	i, _ := bits.Mul64(key, uint64(n))
	return int(i)
}

// Note counts a page of a host by the simhash of its text, 0 for none. It reports whether the page repeats an
// earlier one.
func (t *Table) Note(key, hash uint64) (repeated bool) {
	if hash == 0 {
		return false
	}
	s := t.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	repeated = s.remember(key, hash)
	h, wasTrap := s.touch(key)
	before := h.Part() != 0
	if h.Pages == MaxPages {
		h.Pages, h.Repeated = h.Pages/2, h.Repeated/2
	}
	h.Pages++
	if repeated {
		h.Repeated++
	}
	t.traps.Add(count(h.Part() != 0) - count(before) - count(wasTrap))
	return repeated
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// remember enters a page and reports whether one within NearBits was there. Held: mu.
func (s *shard) remember(host, hash uint64) (near bool) {
	for block := range uint64(4) {
		key := mix(host ^ (hash>>(16*block)&0xffff | (block+1)<<16))
		pages := &s.pages[set(key, len(s.pages))]
		at := pageWays - 1
		for i, p := range pages {
			if p.hash != 0 && p.key == key {
				near = near || simhash.Distance(p.hash, hash) <= NearBits
				at = i
				break
			}
		}
		copy(pages[1:at+1], pages[:at])
		pages[0] = page{key, hash}
	}
	return near
}

// mix spreads a key over 64 bits. It is a bijection.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// touch returns the entry of a host, a new one if there is none, as the newest of its set. trap reports that a
// trap was forgotten for it. Held: mu.
func (s *shard) touch(key uint64) (h *host, trap bool) {
	hosts := &s.hosts[set(key, len(s.hosts))]
	at := hostWays - 1
	for i := hostWays - 1; i >= 0; i-- {
		if hosts[i].Pages > 0 && hosts[i].key == key {
			e := hosts[i]
			copy(hosts[1:i+1], hosts[:i])
			hosts[0] = e
			return &hosts[0], false
		}
		if hosts[at].Part() != 0 && hosts[i].Part() == 0 {
			at = i // the last one that is no trap
		}
	}
	trap = hosts[at].Part() != 0
	copy(hosts[1:at+1], hosts[:at])
	hosts[0] = host{key: key}
	return &hosts[0], trap
}

// Get returns the score of a host.
func (t *Table) Get(key uint64) Score {
	s := t.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range &s.hosts[set(key, len(s.hosts))] {
		if h.Pages > 0 && h.key == key {
			return h.Score
		}
	}
	return Score{}
}

// Release counts a URL of a host that leaves one of BEAST's queues, given by the lowest bits of its number. It
// returns false, without counting, if the host is a trap of which most URLs or more have left this queue.
func (t *Table) Release(key uint64, queue uint16, most uint32) bool {
	s := t.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	set := &s.hosts[set(key, len(s.hosts))]
	for i := range set {
		h := &set[i]
		if h.Pages == 0 || h.key != key || h.Part() == 0 {
			continue
		}
		if h.queue != queue {
			h.queue, h.released = queue, 0
		}
		if uint32(h.released) >= most {
			return false
		}
		h.released += uint16(count(h.released < math.MaxUint16))
	}
	return true
}

// Traps returns the number of hosts that are traps.
func (t *Table) Traps() int64 { return t.traps.Load() }

// maxSaved bounds the hosts in a checkpoint, at savedBytes each: 3 MiB. The others start over after a
// restart.
const (
	maxSaved   = 1 << 18
	savedBytes = 12
)

// AppendHosts appends the hosts of which a quarter of the pages or more is repeated to dst, for a checkpoint: key
// (8 bytes, little-endian), pages and repeated pages (2 bytes each). Hashes of pages are not saved, because a trap
// repeats itself soon.
func (t *Table) AppendHosts(dst []byte) []byte {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for j := range s.hosts {
			for _, h := range &s.hosts[j] {
				if h.Pages > 0 && 4*h.Repeated >= h.Pages && n < maxSaved {
					n++
					dst = AppendHost(dst, h.key, h.Score)
				}
			}
		}
		s.mu.Unlock()
	}
	return dst
}

// AppendHost appends one host in the form of AppendHosts.
func AppendHost(dst []byte, key uint64, s Score) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, key)
	dst = binary.LittleEndian.AppendUint16(dst, s.Pages)
	return binary.LittleEndian.AppendUint16(dst, s.Repeated)
}

// errHosts reports hosts that AppendHosts did not write.
var errHosts = errors.New("trapscore: hosts of a checkpoint are malformed")

// EachHost decodes the output of AppendHosts and calls f for each host.
func EachHost(b []byte, f func(key uint64, s Score)) error {
	for ; len(b) >= savedBytes; b = b[savedBytes:] {
		s := Score{binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])}
		if s.Pages == 0 || s.Pages > MaxPages || s.Repeated > s.Pages {
			return errHosts
		}
		f(binary.LittleEndian.Uint64(b), s)
	}
	if len(b) > 0 {
		return errHosts
	}
	return nil
}

// Restore adds the hosts that AppendHosts wrote. It is safe for concurrent use.
func (t *Table) Restore(b []byte) error {
	return EachHost(b, func(key uint64, score Score) {
		s := t.shardOf(key)
		s.mu.Lock()
		defer s.mu.Unlock()
		h, wasTrap := s.touch(key)
		before := h.Part() != 0
		h.Score = score
		t.traps.Add(count(h.Part() != 0) - count(before) - count(wasTrap))
	})
}
