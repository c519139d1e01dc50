package robots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
	"time"
)

// Coding of rules; see docs/reference/files/robots.md. The numbers of the head are unsigned varints; those of the
// tables have 2 bytes, little-endian.
//
//	version  1 byte   2
//	flags    1 byte   bit 0: Own
//	delay             Crawl-delay in milliseconds, 0 none
//	cut               rules removed or shortened by the limits
//	plain             number of plain rules: no wildcard or anchor, no delimiter in a query, weight = length
//	special           number of the others
//	plain table       4 bytes a rule: end of its pattern in the text, parent << 1 | allow
//	special table     6 bytes a rule: end of its pattern, weight, bits (1 byte), rare (1 byte)
//	text              the patterns in the order of the tables: 0x00 is "*", a last 0x01 is "$"
//
// Plain rules are sorted by pattern, without duplicates (Allow wins ties). The parent of a rule, as index
// plus one, is the plain rule with the longest pattern that is a proper prefix of its own; 0 is none. So a
// binary search for the path and a walk over parents find the longest plain rule that matches. Special rules
// are in order of precedence. Their bits are the constants below. rare is an octet without which a path
// cannot match, 0 for none.
const rulesVersion = 2

const (
	flagOwn     = 1
	allowBit    = 1
	specialBit  = 2 // the pattern has a wildcard or an anchor
	foldedBit   = 4 // compare with the folded spelling
	plainBytes  = 4
	specBytes   = 6
	maxRuleHead = specBytes
	maxHead     = 2 + 4 + 3 + 2 + 2 // size of the head in bytes
)

// isPlain reports whether a rule belongs in the plain table.
func (r Rule) isPlain() bool {
	return r.Weight == len(r.pattern) && !isSpecial(r.pattern) && !namesDelimiters(r.pattern)
}

// tables splits the list into the rules of the two tables, in their order.
func (r *Rules) tables() (plain, special []Rule) {
	for _, rule := range r.list {
		if rule.isPlain() {
			plain = append(plain, rule)
		} else {
			special = append(special, rule)
		}
	}
	// The sort is stable, and of two rules with one pattern the list has Allow first.
	sort.SliceStable(plain, func(i, j int) bool { return bytes.Compare(plain[i].pattern, plain[j].pattern) < 0 })
	n := 0
	for i := range plain {
		if n == 0 || !bytes.Equal(plain[n-1].pattern, plain[i].pattern) {
			plain[n] = plain[i]
			n++
		}
	}
	return plain[:n], special
}

// Append appends the coding of the rules to dst: at most MaxEncoded bytes.
func (r *Rules) Append(dst []byte) []byte {
	var flags byte
	if r.Own {
		flags |= flagOwn
	}
	plain, special := r.tables()
	dst = append(dst, rulesVersion, flags)
	dst = binary.AppendUvarint(dst, uint64(r.CrawlDelay/time.Millisecond))
	dst = binary.AppendUvarint(dst, uint64(r.Cut.Rules+r.Cut.Long))
	dst = binary.AppendUvarint(dst, uint64(len(plain)))
	dst = binary.AppendUvarint(dst, uint64(len(special)))
	end := 0
	var open []int // the plain rules whose patterns are prefixes of the previous one
	for i, rule := range plain {
		for len(open) > 0 && !bytes.HasPrefix(rule.pattern, plain[open[len(open)-1]].pattern) {
			open = open[:len(open)-1]
		}
		parent := 0
		if len(open) > 0 {
			parent = open[len(open)-1] + 1
		}
		open = append(open, i)
		end += len(rule.pattern)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(end))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(parent<<1|rule.allowBit()))
	}
	for _, rule := range special {
		end += len(rule.pattern)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(end))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(rule.Weight))
		bits, rare := byte(rule.allowBit()), rarest(rule.pattern)
		if isSpecial(rule.pattern) {
			bits |= specialBit
		}
		if namesDelimiters(rule.pattern) {
			bits, rare = bits|foldedBit, 0 // the octets are those of the other spelling
		}
		dst = append(dst, bits, rare)
	}
	for _, rule := range plain {
		dst = append(dst, rule.pattern...)
	}
	for _, rule := range special {
		dst = append(dst, rule.pattern...)
	}
	return dst
}

func (r Rule) allowBit() int {
	if r.Allow {
		return allowBit
	}
	return 0
}

// rarity orders octets by how many paths contain them, the rarest first. Octets not listed are rarer still.
const rarity = "~!@,;:()+[]*$'\"QZXJKVWYGUHOFLEBNIPDTRMSCA=&?%_9876543zqjx210ykvwbfgpmudhlcnostrieaz.-/"

// rareness is the rank of each octet: the larger, the rarer.
var rareness = rarenessTable()

func rarenessTable() (t [256]uint8) {
	for i := range t {
		t[i] = 255
	}
	for i := range len(rarity) {
		t[rarity[i]] = uint8(len(rarity) - i)
	}
	t[wildcard], t[anchor] = 0, 0
	return t
}

// rarest returns the octet of a pattern that the fewest paths contain.
func rarest(pat []byte) (rare byte) {
	best := uint8(0)
	for _, c := range pat {
		if rareness[c] > best {
			best, rare = rareness[c], c
		}
	}
	return rare
}

// index is a coded rule list, split into its parts.
type index struct {
	flags          byte
	delay, cut     uint64
	plain, special []byte // the tables
	nplain         int
	nspecial       int
	text           []byte
}

// open decodes the head. It fails if the tables do not fit.
func (x *index) open(encoded []byte) bool {
	d := decoder{b: encoded}
	if d.byte() != rulesVersion {
		return false
	}
	x.flags = d.byte()
	x.delay = d.uvarint(uint64(MaxCrawlDelay / time.Millisecond))
	x.cut = d.uvarint(MaxInput)
	x.nplain = int(d.uvarint(MaxRules))
	x.nspecial = int(d.uvarint(MaxRules))
	x.plain = d.bytes(x.nplain * plainBytes)
	x.special = d.bytes(x.nspecial * specBytes)
	x.text = d.b
	return !d.bad
}

// pattern returns the pattern of a rule, counted through both tables, or nil if the table is damaged.
func (x *index) pattern(i int) []byte {
	from, to := 0, 0
	if i > 0 {
		from = x.end(i - 1)
	}
	if to = x.end(i); from > to || to > len(x.text) {
		return nil
	}
	return x.text[from:to:to]
}

func (x *index) end(i int) int {
	if i < x.nplain {
		return int(binary.LittleEndian.Uint16(x.plain[i*plainBytes:]))
	}
	return int(binary.LittleEndian.Uint16(x.special[(i-x.nplain)*specBytes:]))
}

// link returns the parent of a plain rule, as index plus one, and whether the rule allows.
func (x *index) link(i int) (parent int, allow bool) {
	v := binary.LittleEndian.Uint16(x.plain[i*plainBytes+2:])
	return int(v >> 1), v&allowBit != 0
}

// found is the best match so far.
type found struct {
	weight  int // -1: none
	allow   bool
	pattern []byte
}

// better replaces the match by one that takes precedence.
func (f *found) better(weight int, allow bool, pat []byte) {
	if weight > f.weight || weight == f.weight && allow && !f.allow {
		f.weight, f.allow, f.pattern = weight, allow, pat
	}
}

// matchPlain finds the longest plain rule that is a prefix of the path. It returns false if the coding is
// damaged.
func (x *index) matchPlain(path []byte, f *found) bool {
	lo, hi := 0, x.nplain // rules before lo are <= path, rules from hi on are greater
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		pat := x.pattern(mid)
		if pat == nil {
			return false
		}
		if bytes.Compare(pat, path) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	common := -1 // number of octets that the path shares with the rule just before it
	for i := lo; i > 0; {
		pat := x.pattern(i - 1)
		if pat == nil {
			return false
		}
		if common < 0 {
			common = commonPrefix(pat, path)
		}
		parent, allow := x.link(i - 1)
		if len(pat) <= common {
			f.better(len(pat), allow, pat)
			return true
		}
		if parent >= i {
			return false
		}
		i = parent
	}
	return true
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// octets is a set of octets.
type octets [4]uint64

func (o *octets) of(path []byte) {
	for _, c := range path {
		o[c>>6] |= 1 << (c & 63)
	}
}

func (o *octets) has(c byte) bool { return o[c>>6]>>(c&63)&1 != 0 }

// matchSpecial finds the first special rule that matches and takes precedence over f. It returns false if
// the coding is damaged.
func (x *index) matchSpecial(path []byte, f *found) bool {
	if x.nspecial == 0 {
		return true
	}
	var folded []byte
	var have octets
	have.of(path)
	for i := range x.nspecial {
		e := x.special[i*specBytes : i*specBytes+specBytes]
		weight, allow := int(binary.LittleEndian.Uint16(e[2:])), e[4]&allowBit != 0
		if weight < f.weight {
			return true
		}
		if rare := e[5]; rare != 0 && !have.has(rare) || weight == f.weight && (f.allow || !allow) {
			continue
		}
		pat := x.pattern(x.nplain + i)
		if pat == nil || e[4]&specialBit != 0 && len(pat) == 0 {
			return false
		}
		against := path
		if e[4]&foldedBit != 0 {
			if folded == nil {
				folded = foldedForm(path)
			}
			against = folded
		}
		if matches(pat, against, e[4]&specialBit != 0) {
			f.better(weight, allow, pat)
			return true
		}
	}
	return true
}

// DecodeRules decodes what Append made and rejects anything else. The result does not refer to b.
func DecodeRules(b []byte) (*Rules, error) {
	if len(b) > MaxEncoded {
		return nil, fmt.Errorf("robots: decode rules: got %d bytes, want at most %d", len(b), MaxEncoded)
	}
	if len(b) > 0 && b[0] != rulesVersion {
		return nil, fmt.Errorf("robots: decode rules: got version %d, want %d", b[0], rulesVersion)
	}
	var x index
	ok := x.open(bytes.Clone(b))
	r := &Rules{Own: x.flags&flagOwn != 0, CrawlDelay: time.Duration(x.delay) * time.Millisecond}
	r.Cut.Rules = int(x.cut)
	for i := 0; ok && i < x.nplain+x.nspecial; i++ {
		pat := x.pattern(i)
		rule := Rule{Weight: len(pat), pattern: pat}
		if i < x.nplain {
			_, rule.Allow = x.link(i)
		} else {
			e := x.special[(i-x.nplain)*specBytes:]
			rule.Weight, rule.Allow = int(binary.LittleEndian.Uint16(e[2:])), e[4]&allowBit != 0
		}
		r.list = append(r.list, rule)
		ok = pat != nil
	}
	if r.list = order(r.list); !ok || !bytes.Equal(r.Append(nil), b) {
		return nil, fmt.Errorf("robots: decode rules: bad coding of %d bytes", len(b))
	}
	return r, nil
}

// Match reports whether coded rules, as made by Rules.Append, allow a path with its query; see Rules.Match.
// Empty rules allow everything, damaged ones nothing. It allocates only for long paths that must be
// normalized or folded. Plain rules cost a binary search. The others are tried one by one, after a test for
// an octet that they require.
func Match(encoded, pathQuery []byte) bool {
	allowed, _ := match(encoded, pathQuery)
	return allowed
}

// Explain is Match that also returns the deciding rule as a line of robots.txt, "" if there is none.
func Explain(encoded, pathQuery []byte) (allowed bool, rule string) {
	allowed, pat := match(encoded, pathQuery)
	if pat == nil {
		return allowed, ""
	}
	return allowed, Rule{Allow: allowed, pattern: pat}.String()
}

func match(encoded, pathQuery []byte) (allowed bool, pattern []byte) {
	if len(encoded) == 0 || isRobots(pathQuery) {
		return true, nil
	}
	var x index
	if !x.open(encoded) {
		return false, nil
	}
	if x.nplain+x.nspecial == 0 {
		return true, nil
	}
	var buf [normalBytes]byte
	path := normal(buf[:0], pathQuery)
	best := found{weight: -1, allow: true}
	if !x.matchPlain(path, &best) || !x.matchSpecial(path, &best) {
		return false, nil
	}
	return best.allow, best.pattern
}

// delayOf returns the Crawl-delay of coded rules.
func delayOf(encoded []byte) time.Duration {
	if len(encoded) < 3 || encoded[0] != rulesVersion {
		return 0
	}
	d := decoder{b: encoded[2:]}
	return time.Duration(d.uvarint(uint64(MaxCrawlDelay/time.Millisecond))) * time.Millisecond
}

// decoder decodes fields from the front of b. Once bad is set, all results are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if d.bad || len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// uvarint decodes a varint of at most limit in its shortest form.
func (d *decoder) uvarint(limit uint64) uint64 {
	if d.bad {
		return 0
	}
	if len(d.b) > 0 && d.b[0] < 0x80 && uint64(d.b[0]) <= limit {
		v := uint64(d.b[0])
		d.b = d.b[1:]
		return v
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit || n > 1 && d.b[n-1] == 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}
