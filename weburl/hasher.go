package weburl

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/dchest/siphash"
)

// Secret is the 128-bit secret of a crawl from which all its keys derive. It is drawn once, stored with the
// state and never exported, because whoever knows it can construct colliding URLs.
type Secret [16]byte

// NewSecret draws a secret from the system's random source.
func NewSecret() (Secret, error) {
	var s Secret
	if _, err := rand.Read(s[:]); err != nil {
		return Secret{}, fmt.Errorf("weburl: draw secret: %w", err)
	}
	return s, nil
}

// ParseSecret parses the 32 hexadecimal digits of Hex.
func ParseSecret(text string) (Secret, error) {
	var s Secret
	if len(text) != 2*len(s) {
		return Secret{}, fmt.Errorf("weburl: parse secret: got %d digits, want %d", len(text), 2*len(s))
	}
	if _, err := hex.Decode(s[:], []byte(text)); err != nil {
		return Secret{}, fmt.Errorf("weburl: parse secret: %w", err)
	}
	return s, nil
}

// Hex returns the secret as 32 hexadecimal digits. It is not called String, so logs cannot print it by
// accident.
func (s Secret) Hex() string { return hex.EncodeToString(s[:]) }

// String hides the secret from %v and %s.
func (s Secret) String() string { return "[secret]" }

// sipKey is one 128-bit key of SipHash.
type sipKey struct{ k0, k1 uint64 }

func (k sipKey) sum(b []byte) uint64 { return siphash.Hash(k.k0, k.k1, b) }

// Hasher makes the 64-bit keys of a crawl. Each kind has its own key derived from the secret, so equal bytes
// of two kinds have unrelated keys. It is immutable and may be shared. No method allocates.
type Hasher struct {
	url, host, origin, pld, server, content sipKey
	body, plainBody                         uint64
	suffixes                                *Suffixes // of keys with slots; nil for keys without
}

// NewHasher derives the keys of all kinds from secret.
func NewHasher(secret Secret) *Hasher {
	root := sipKey{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
	derive := func(kind string) sipKey {
		k0, k1 := siphash.Hash128(root.k0, root.k1, []byte("drumbeat key 1: "+kind))
		return sipKey{k0, k1}
	}
	return &Hasher{
		url: derive("url"), host: derive("host"), origin: derive("origin"), pld: derive("pld"),
		server: derive("server"), content: derive("content"), body: derive("body").k0,
		plainBody: derive("plain body").k0,
	}
}

// URLKey returns the key of a canonical URL in URLseen.
func (h *Hasher) URLKey(canonical []byte) uint64 {
	key := h.url.sum(canonical)
	if h.suffixes == nil {
		return key
	}
	return h.slotted(key, Split(canonical).Host)
}

// URLKeyOf is URLKey if the key of the URL's PLD is known, which saves most of the work for keys with slots.
func (h *Hasher) URLKeyOf(canonical []byte, pld uint64) uint64 {
	key := h.url.sum(canonical)
	if h.suffixes == nil {
		return key
	}
	return withSlot(key, pld)
}

// HostKey returns the key of a host name as in a canonical URL.
func (h *Hasher) HostKey(host []byte) uint64 { return h.slotted(h.host.sum(host), host) }

// DirectoryKey returns the key of a directory at the root of a host, given by the host's key and the directory's name.
func (h *Hasher) DirectoryKey(host uint64, name []byte) uint64 {
	return sipKey{h.host.k0 ^ host, h.host.k1}.sum(name)
}

// OriginKey returns the key of an origin as written by Origin, the unit of robots.txt.
func (h *Hasher) OriginKey(origin []byte) uint64 {
	return h.slotted(h.origin.sum(origin), Split(origin).Host)
}

// PLDKey returns the key of a pay-level domain as returned by Suffixes.
func (h *Hasher) PLDKey(pld []byte) uint64 { return h.pld.sum(pld) }

// ServerKey returns the key of a server's address (4 or 16 bytes).
func (h *Hasher) ServerKey(addr []byte) uint64 { return h.server.sum(addr) }

// ContentKey returns the key of a short text that identifies the secret.
func (h *Hasher) ContentKey(text []byte) uint64 { return h.content.sum(text) }

// BodyKey returns the key of a body, to recognize bodies seen before. A body that came plain, without content
// coding, has another key than the same body in a coding: a reader of one cannot use the other. Bodies are long,
// so it is xxHash with a secret seed, at 12 GB/s instead of SipHash's 1. Whoever constructs two bodies with one
// key harms only their own.
func (h *Hasher) BodyKey(body []byte, plain bool) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(h.body)
	if plain {
		d.ResetWithSeed(h.plainBody)
	}
	_, _ = d.Write(body) // a Digest returns no error
	return d.Sum64()
}

// ParentKey returns the key of the page on which a record's URL was found; 0 for a seed.
func (h *Hasher) ParentKey(r *Record) uint64 {
	if r.Parent != 0 || len(r.Via) == 0 {
		return r.Parent
	}
	var space [MaxViaBytes + MaxHostBytes + 16]byte
	return h.URLKey(r.AppendVia(space[:0]))
}
