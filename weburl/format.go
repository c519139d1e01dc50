package weburl

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Record is a URL in the queues, with what is known about it. The zero value of a field means "none"; for
// most fields it takes no space. Decode sets the slices to parts of its input.
type Record struct {
	URL      []byte // canonical, never empty
	Depth    uint16 // links from the nearest seed; 0 for a seed
	Found    int64  // time of discovery in Unix seconds
	Via      []byte // page on which it was found, see SetVia; none for a seed
	Parent   uint64 // URL key of that page if Via is cut
	Budget   uint32 // budget of its PLD at the last STAR check
	Attempts uint8  // fetches attempted
	Waits    uint8  // deferrals without a fetch
	Reason   uint8  // reason of the last deferral, a number defined by package crawl
	Flags    uint8  // Flag... bits

	Redirects uint8  // redirects and style sheets since the last page that linked to it
	Faults    uint8  // failed exchanges for which this machine may be at fault
	Extra     []byte // opaque: host data attached on the way
	Visits    []byte // opaque: what earlier visits found; none for a URL that was not fetched yet
	Score     uint8  // how good the URL is said to be, from 1 to 255, for its lane in BEAST; 0 if nothing is known
}

// maxWaits is where Record.Waits saturates.
const maxWaits = 250

// Deferred counts a deferral without a fetch.
func (r *Record) Deferred() { r.Waits = min(r.Waits+1, maxWaits) }

// Renew puts the results of visits into the record of a URL that is visited again, and renews the fields
// that are about one visit.
func (r *Record) Renew(visits []byte) {
	r.Visits = visits
	r.Attempts, r.Waits, r.Faults = 0, 0, 0
	r.Flags &^= FlagUnconfirmed | FlagSeed | FlagSeedFallback
}

// Bits of Record.Flags.
const (
	FlagSeed         uint8 = 1 << iota // from the seed list
	FlagSeedFallback                   // HTTP fallback of a seed without a scheme
	FlagRedirect                       // target of a redirect
	FlagRefresh                        // target of a meta refresh
	// named as a sitemap by a robots.txt or an index; its parent is that robots.txt, if known
	FlagSitemap
	FlagUnconfirmed // its last exchange failed, perhaps by our fault, and is not counted yet
	FlagCounted     // counted among its host's pages, if these are limited
)

// FlagSitemapPart accompanies FlagSitemap: a sitemap index named the URL, so it cannot be an index itself.
const FlagSitemapPart uint8 = 1 << 7

// Layout of a record, version 3, or 4 if it has visits, or 5 if it has a score. Varints are those of
// encoding/binary in their shortest form.
//
//	offset  size    field     meaning
//	0       1..     url       its bytes, all above 0x20: the version ends it
//	.       1       version   3, 4 or 5
//	.       1       score     in version 5; not 0
//	.       1..     visits    uvarint length, up to MaxVisitsBytes, and bytes, in versions 4 (not 0) and 5
//	.       1       mask      which of the optional fields follow, bits below
//	.       2..     via       uvarint length, 1 to MaxViaBytes, and bytes, if mask has maskVia
//	.       8       parent    little-endian, if mask has maskParent; not 0
//	.       1..5    budget    uvarint, if mask has maskBudget; not 0
//	.       1       attempts  if mask has maskAttempts; not 0
//	.       2       waits, reason  if mask has maskWaits; not both 0
//	.       1       flags     if mask has maskFlags; not 0
//	.       2       redirects, faults  if mask has maskRedirects; not both 0
//	.       1..3    depth     uvarint
//	.       1..10   found     varint, Unix seconds
//	.       1..     extra     uvarint length (not 0) and bytes, if mask has maskExtra; the record ends here
//
// Each record has exactly one encoding, and Decode accepts no other. Records have no checksum; the blocks
// that contain them do. Records of links of one page begin alike and are equal after the URL; records of
// other pages of the same time and host end alike. Queues store only the differences.
const (
	recordVersion  = 3
	visitedVersion = 4
	scoredVersion  = 5
)

// MaxVisitsBytes bounds Record.Visits.
const MaxVisitsBytes = 1 << 10

const (
	maskParent = 1 << iota
	maskBudget
	maskAttempts
	maskWaits
	maskFlags
	maskExtra
	maskRedirects
	maskVia
)

// MaxViaBytes is how much of a referrer's URL a record holds. Of a longer URL it holds the first bytes and
// the key.
const MaxViaBytes = 512

// SetVia records the URL of the page on which the record's URL was found, and its key. If the page has the
// same origin, Via omits the origin and begins with '/'.
func (r *Record) SetVia(url []byte, key uint64) {
	r.Via, r.Parent = url, 0
	if len(url) > MaxViaBytes {
		r.Via, r.Parent = url[:MaxViaBytes], key
	}
	if n := originBytes(r.URL); r.viaRepeats(n) {
		r.Via = r.Via[n:]
	}
}

// viaRepeats reports whether Via begins with the first n bytes of the record's URL, its origin, and a '/'.
func (r *Record) viaRepeats(n int) bool {
	return n > 0 && len(r.Via) > n && r.Via[n] == '/' && bytes.Equal(r.Via[:n], r.URL[:n])
}

// AppendVia appends the URL of the page on which the URL was found, cut to MaxViaBytes.
func (r *Record) AppendVia(dst []byte) []byte {
	if len(r.Via) > 0 && r.Via[0] == '/' {
		dst = append(dst, r.URL[:originBytes(r.URL)]...)
	}
	return append(dst, r.Via...)
}

// originBytes returns the length of a URL up to the '/' of its path.
func originBytes(url []byte) int {
	_, rest, _ := bytes.Cut(url, []byte("://"))
	if i := bytes.IndexByte(rest, '/'); i >= 0 {
		return len(url) - len(rest) + i
	}
	return 0
}

// Append appends the record's coding to dst. The bytes of the URL must be above 0x20, as in a canonical URL.
func (r *Record) Append(dst []byte) []byte { return r.AppendTail(append(dst, r.URL...)) }

// AppendTail appends the part of the coding after the URL, which is the same for all links of a page.
func (r *Record) AppendTail(dst []byte) []byte {
	switch {
	case r.Score != 0:
		dst = append(binary.AppendUvarint(append(dst, scoredVersion, r.Score), uint64(len(r.Visits))), r.Visits...)
	case len(r.Visits) == 0:
		dst = append(dst, recordVersion)
	default:
		dst = append(binary.AppendUvarint(append(dst, visitedVersion), uint64(len(r.Visits))), r.Visits...)
	}
	dst = append(dst, r.mask())
	if len(r.Via) != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Via)))
		dst = append(dst, r.Via...)
	}
	if r.Parent != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, r.Parent)
	}
	if r.Budget != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Budget))
	}
	if r.Attempts != 0 {
		dst = append(dst, r.Attempts)
	}
	if r.Waits != 0 || r.Reason != 0 {
		dst = append(dst, r.Waits, r.Reason)
	}
	if r.Flags != 0 {
		dst = append(dst, r.Flags)
	}
	if r.Redirects != 0 || r.Faults != 0 {
		dst = append(dst, r.Redirects, r.Faults)
	}
	dst = binary.AppendUvarint(dst, uint64(r.Depth))
	dst = binary.AppendVarint(dst, r.Found)
	if len(r.Extra) != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Extra)))
		dst = append(dst, r.Extra...)
	}
	return dst
}

func (r *Record) mask() byte {
	var mask byte
	set := func(has bool, bit byte) {
		if has {
			mask |= bit
		}
	}
	set(r.Parent != 0, maskParent)
	set(r.Budget != 0, maskBudget)
	set(r.Attempts != 0, maskAttempts)
	set(r.Waits != 0 || r.Reason != 0, maskWaits)
	set(r.Flags != 0, maskFlags)
	set(len(r.Extra) != 0, maskExtra)
	set(r.Redirects != 0 || r.Faults != 0, maskRedirects)
	set(len(r.Via) != 0, maskVia)
	return mask
}

// Decode sets r to the record that b encodes. URL, Via, Extra and Visits are slices of b. The error is ErrRecord
// with the name of the bad field; r is then undefined.
func (r *Record) Decode(b []byte) error {
	end, version := endOfURL(b)
	if end <= 0 || len(b) < end+2 || b[0] <= ' ' {
		return fmt.Errorf("%w: no URL before version %d to %d in %d bytes % x", ErrRecord, recordVersion, scoredVersion,
			len(b), b[:min(8, len(b))])
	}
	d := decoder{rest: b[end+1:], ok: true}
	*r = Record{URL: b[:end:end]}
	switch version {
	case visitedVersion:
		r.Visits = d.bytes("visits")
	case scoredVersion:
		r.Score = d.byte("score")
		d.want("score", r.Score != 0)
		if len(d.rest) > 0 && d.rest[0] == 0 {
			d.rest = d.rest[1:]
		} else {
			r.Visits = d.bytes("visits")
		}
	}
	d.want("visits", len(r.Visits) <= MaxVisitsBytes)
	mask := d.byte("mask")
	if mask&maskVia != 0 {
		r.Via = d.bytes("via")
		d.want("via", len(r.Via) <= MaxViaBytes && !r.viaRepeats(originBytes(r.URL)))
	}
	if mask&maskParent != 0 {
		r.Parent = d.fixed64("parent")
	}
	if mask&maskBudget != 0 {
		r.Budget = uint32(d.uvarint("budget", 1<<32-1))
		d.want("budget", r.Budget != 0)
	}
	if mask&maskAttempts != 0 {
		r.Attempts = d.byte("attempts")
		d.want("attempts", r.Attempts != 0)
	}
	if mask&maskWaits != 0 {
		r.Waits, r.Reason = d.byte("waits"), d.byte("reason")
		d.want("waits", r.Waits != 0 || r.Reason != 0)
	}
	if mask&maskFlags != 0 {
		r.Flags = d.byte("flags")
		d.want("flags", r.Flags != 0)
	}
	if mask&maskRedirects != 0 {
		r.Redirects, r.Faults = d.byte("redirects"), d.byte("faults")
		d.want("redirects", r.Redirects != 0 || r.Faults != 0)
	}
	r.Depth = uint16(d.uvarint("depth", 1<<16-1))
	r.Found = d.varint("found")
	if mask&maskExtra != 0 {
		r.Extra = d.bytes("extra")
	}
	d.want("end", len(d.rest) == 0)
	if !d.ok {
		return fmt.Errorf("%w: %s of %d bytes", ErrRecord, d.field, len(b))
	}
	return nil
}

// endOfURL returns the offset and the value of a record's version, which is the first byte that is one. end is
// negative without any. Most records have version 3; bytes after another version may be equal to it.
func endOfURL(b []byte) (end int, version byte) {
	end, version = bytes.IndexByte(b, recordVersion), recordVersion
	url := b[:max(end, 0)]
	if end < 0 {
		url = b
	}
	for v := byte(visitedVersion); v <= scoredVersion; v++ {
		if n := bytes.IndexByte(url, v); n >= 0 {
			end, version, url = n, v, url[:n]
		}
	}
	return end, version
}

// decoder decodes fields from rest. After the first fault it returns zeros and keeps the name of the bad
// field.
type decoder struct {
	rest  []byte
	field string
	ok    bool
}

func (d *decoder) want(field string, good bool) {
	if d.ok && !good {
		d.ok, d.field = false, field
	}
}

func (d *decoder) uvarint(field string, limit uint64) uint64 {
	if !d.ok {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	// The last byte of a shortest varint is not 0, unless it is the only byte.
	if n <= 0 || v > limit || n > 1 && d.rest[n-1] == 0 {
		d.want(field, false)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint(field string) int64 {
	u := d.uvarint(field, 1<<64-1)
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) byte(field string) byte {
	if d.want(field, len(d.rest) >= 1); !d.ok {
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) fixed64(field string) uint64 {
	if d.want(field, len(d.rest) >= 8); !d.ok {
		return 0
	}
	v := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	d.want(field, v != 0)
	return v
}

func (d *decoder) bytes(field string) []byte {
	n := d.uvarint(field, 1<<32)
	if d.want(field, n > 0 && n <= uint64(len(d.rest))); !d.ok {
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}
