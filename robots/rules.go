package robots

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits. The first is RFC 9309's (2.5); the others bound what one site can cost us.
const (
	MaxInput      = 500 << 10      // bytes of a file that are read
	MaxPattern    = 1 << 10        // bytes of one compiled pattern
	MaxRules      = 2048           // rules of our group
	MaxEncoded    = 64 << 10       // bytes of an encoded Rules
	MaxCrawlDelay = 24 * time.Hour // a longer Crawl-delay is read as this

	maxSitemaps     = 64
	maxSitemapBytes = 2083
	maxRuleHead     = 6       // bytes before a pattern in the coding: tag and weight
	maxHead         = 2 + 3*5 // bytes before the first rule
	maxWeight       = MaxInput * 3
)

// Rules are the rules of a robots.txt that apply to us. The zero value allows everything. Parse and
// DecodeRules make them; they aren't changed afterwards and may be shared.
type Rules struct {
	// Own is set if a group names our product token; otherwise the rules are those for "*", or none.
	Own bool
	// CrawlDelay is what the group asks for, in whole milliseconds; 0 if it asks for nothing.
	CrawlDelay time.Duration
	// Sitemaps are the values of the file's Sitemap lines, as they stand there. They aren't part of the
	// coding.
	Sitemaps []string
	// Cut counts what the limits removed. Only Cut.Rules and Cut.Long are part of the coding, as their sum
	// in Rules.
	Cut Cut

	list []Rule // ordered by weight, the largest first, Allow before Disallow: the first match decides
}

// Cut counts what was left out of a Rules.
type Cut struct {
	Input int // bytes beyond MaxInput
	Long  int // patterns beyond MaxPattern: Allow dropped, Disallow shortened
	Rules int // rules beyond MaxRules or MaxEncoded: Allow dropped, Disallow covered by one broader rule
	Odd   int // rules that can match no path
}

// Rule is one Allow or Disallow line.
type Rule struct {
	Allow bool
	// Weight is the number of octets of the pattern as written: the rule with the largest decides.
	Weight int

	pattern []byte // compiled, see pattern.go
}

// String returns the rule as a line of robots.txt.
func (r Rule) String() string {
	name := "Disallow: "
	if r.Allow {
		name = "Allow: "
	}
	return string(appendText([]byte(name), r.pattern))
}

// List returns the rules in the order in which they decide.
func (r *Rules) List() []Rule { return r.list }

// Text returns the rules as a robots.txt of one group: what explain prints.
func (r *Rules) Text() string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, rule := range r.list {
		b.WriteString(rule.String())
		b.WriteByte('\n')
	}
	if r.CrawlDelay > 0 {
		fmt.Fprintf(&b, "Crawl-delay: %g\n", r.CrawlDelay.Seconds())
	}
	return b.String()
}

// Match reports whether the rules allow a path with its query ("/a?b"; spelling doesn't matter, no
// fragment), and which rule says so; "" if none does. /robots.txt is always allowed. For many URLs use the
// function Match.
func (r *Rules) Match(pathQuery []byte) (allowed bool, rule string) {
	if isRobots(pathQuery) {
		return true, ""
	}
	var buf [normalBytes]byte
	path := normal(buf[:0], pathQuery)
	for _, rule := range r.list {
		if matches(rule.pattern, path, isSpecial(rule.pattern)) {
			return rule.Allow, rule.String()
		}
	}
	return true, ""
}

// normalBytes is the size of a path that is normalised without allocation.
const normalBytes = 2304

// normal returns the one spelling of a path; in buf's memory if it has to be changed.
func normal(buf, pathQuery []byte) []byte {
	if isNormal(pathQuery) {
		return pathQuery
	}
	if len(pathQuery) == 0 || pathQuery[0] != '/' {
		buf = append(buf, '/')
	}
	return appendNormal(buf, pathQuery)
}

func isRobots(pathQuery []byte) bool {
	const name = "/robots.txt"
	return len(pathQuery) >= len(name) && string(pathQuery[:len(name)]) == name &&
		(len(pathQuery) == len(name) || pathQuery[len(name)] == '?')
}

// order sorts rules as they decide and removes repeated ones.
func order(list []Rule) []Rule {
	slices.SortFunc(list, func(a, b Rule) int {
		if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
			return c
		}
		if a.Allow != b.Allow {
			if a.Allow {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.pattern, b.pattern)
	})
	return slices.CompactFunc(list, func(a, b Rule) bool {
		return a.Weight == b.Weight && a.Allow == b.Allow && bytes.Equal(a.pattern, b.pattern)
	})
}

// size returns an upper bound of the rule's bytes in the coding.
func (r Rule) size() int { return maxRuleHead + len(r.pattern) }

// limit shortens an ordered list to MaxRules and MaxEncoded. Disallow rules are kept first, the broad
// before the narrow; those left over are replaced by one whose pattern is their common beginning and whose
// weight is the largest of theirs, so that whatever they forbade stays forbidden. Then Allow rules, while
// there is room.
func (r *Rules) limit(list []Rule) []Rule {
	total := maxHead
	for _, rule := range list {
		total += rule.size()
	}
	if len(list) <= MaxRules && total <= MaxEncoded {
		return list
	}
	count, room := MaxRules-1, MaxEncoded-maxHead-maxRuleHead-MaxPattern
	var kept []Rule
	var cover *Rule
	for _, allow := range []bool{false, true} {
		full := false
		for _, rule := range slices.Backward(list) {
			if rule.Allow != allow {
				continue
			}
			if full = full || count == 0 || rule.size() > room; full {
				r.Cut.Rules++
				if !allow {
					cover = widen(cover, rule)
				}
				continue
			}
			kept = append(kept, rule)
			count--
			room -= rule.size()
		}
	}
	if cover != nil {
		kept = append(kept, *cover)
	}
	return order(kept)
}

// widen makes cover, nil at first, match all that rule matches, with at least its weight.
func widen(cover *Rule, rule Rule) *Rule {
	pat := rule.pattern
	if n := bytes.IndexAny(pat, "\x00\x01"); n >= 0 {
		pat = pat[:n]
	}
	if cover == nil {
		return &Rule{Weight: rule.Weight, pattern: pat}
	}
	n := 0
	for n < len(pat) && n < len(cover.pattern) && pat[n] == cover.pattern[n] {
		n++
	}
	return &Rule{Weight: max(cover.Weight, rule.Weight), pattern: pat[:n]}
}

// Coding, see docs/formats/robots.md. All integers but the first two bytes are unsigned varints.
//
//	version  1 byte   1
//	flags    1 byte   bit 0: Own
//	delay             Crawl-delay in milliseconds, 0 none
//	cut               rules removed or shortened by the limits
//	count             number of rules
//	rules             in the order in which they decide:
//	    tag           pattern length << 3 | 4 weight isn't the length | 2 wildcard or anchor | 1 allow
//	    weight        only with bit 4
//	    pattern       compiled: 0x00 is "*", a last 0x01 is "$"
const rulesVersion = 1

const (
	flagOwn    = 1
	tagAllow   = 1
	tagSpecial = 2
	tagWeight  = 4
	tagBits    = 3
)

// Append appends the coding of the rules to dst: at most MaxEncoded bytes.
func (r *Rules) Append(dst []byte) []byte {
	var flags byte
	if r.Own {
		flags |= flagOwn
	}
	dst = append(dst, rulesVersion, flags)
	dst = binary.AppendUvarint(dst, uint64(r.CrawlDelay/time.Millisecond))
	dst = binary.AppendUvarint(dst, uint64(r.Cut.Rules+r.Cut.Long))
	dst = binary.AppendUvarint(dst, uint64(len(r.list)))
	for _, rule := range r.list {
		tag := uint64(len(rule.pattern)) << tagBits
		if rule.Allow {
			tag |= tagAllow
		}
		if isSpecial(rule.pattern) {
			tag |= tagSpecial
		}
		if rule.Weight != len(rule.pattern) {
			tag |= tagWeight
		}
		dst = binary.AppendUvarint(dst, tag)
		if tag&tagWeight != 0 {
			dst = binary.AppendUvarint(dst, uint64(rule.Weight))
		}
		dst = append(dst, rule.pattern...)
	}
	return dst
}

// DecodeRules decodes what Append made and nothing else. The result doesn't refer to b.
func DecodeRules(b []byte) (*Rules, error) {
	if len(b) > MaxEncoded {
		return nil, fmt.Errorf("robots: decode rules: got %d bytes, want at most %d", len(b), MaxEncoded)
	}
	d := decoder{b: bytes.Clone(b)}
	if v := d.byte(); v != rulesVersion {
		return nil, fmt.Errorf("robots: decode rules: got version %d, want %d", v, rulesVersion)
	}
	flags := d.byte()
	r := &Rules{Own: flags&flagOwn != 0}
	r.CrawlDelay = time.Duration(d.uvarint(uint64(MaxCrawlDelay/time.Millisecond))) * time.Millisecond
	r.Cut.Rules = int(d.uvarint(MaxInput))
	count := int(d.uvarint(MaxRules))
	if flags&^flagOwn != 0 {
		d.bad = true
	}
	for i := 0; i < count && !d.bad; i++ {
		tag := d.uvarint(MaxPattern<<tagBits | 7)
		rule := Rule{Allow: tag&tagAllow != 0, Weight: int(tag >> tagBits)}
		if tag&tagWeight != 0 {
			rule.Weight = int(d.uvarint(maxWeight))
		}
		rule.pattern = d.bytes(int(tag >> tagBits))
		explicit := tag&tagWeight != 0
		if isSpecial(rule.pattern) != (tag&tagSpecial != 0) || explicit && rule.Weight == len(rule.pattern) {
			d.bad = true
		}
		r.list = append(r.list, rule)
	}
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("robots: decode rules: bad coding %d bytes before the end", len(d.b))
	}
	return r, nil
}

// Match reports whether encoded rules, as made by Rules.Append, allow a path with its query: see
// Rules.Match. Rules of no bytes allow everything; damaged ones, from the place of the damage on, nothing.
// It allocates nothing for paths of up to 2 KB and looks at each rule once, until one matches.
func Match(encoded, pathQuery []byte) bool {
	allowed, _ := match(encoded, pathQuery)
	return allowed
}

// Explain is Match that also returns the deciding rule as a line of robots.txt; "" if there is none.
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
	d := decoder{b: encoded}
	if d.byte() != rulesVersion {
		return false, nil
	}
	d.byte()
	d.uvarint(1 << 62)
	d.uvarint(1 << 62)
	count := d.uvarint(MaxRules)
	var buf [normalBytes]byte
	path := normal(buf[:0], pathQuery)
	for ; count > 0 && !d.bad; count-- {
		tag := d.uvarint(MaxPattern<<tagBits | 7)
		if tag&tagWeight != 0 {
			d.uvarint(maxWeight)
		}
		pat := d.bytes(int(tag >> tagBits))
		if tag&tagSpecial != 0 && len(pat) == 0 {
			d.bad = true
		}
		if !d.bad && matches(pat, path, tag&tagSpecial != 0) {
			return tag&tagAllow != 0, pat
		}
	}
	return !d.bad, nil
}

// delayOf returns the Crawl-delay of encoded rules.
func delayOf(encoded []byte) time.Duration {
	if len(encoded) < 3 || encoded[0] != rulesVersion {
		return 0
	}
	d := decoder{b: encoded[2:]}
	return time.Duration(d.uvarint(uint64(MaxCrawlDelay/time.Millisecond))) * time.Millisecond
}

// decoder takes fields off the front of b. After bad is set all results are zero.
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

// uvarint takes a varint of at most limit in its shortest form.
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
