package robots

import (
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// A Summary has room for a statement of leastStatement bytes in any case, and for one of MaxStatement usually.
const (
	leastStatement = 1 + sha1.Size + 5 + 2*(1+len(preferenceNames)) + 5
	MaxStatement   = MaxSummary
)

// Statement is what a robots.txt said about one URL when it was admitted to fetching. A Summary carries it. The zero
// value says nothing: the site had no file, or a version that kept no statement read it.
type Statement struct {
	Digest  [sha1.Size]byte // of the file, as in its WARC-Payload-Digest
	Fetched time.Time       // when the file was fetched, in seconds
	Group   Group           // that decided; GroupUnknown: there is no statement
	// Rule is the line that decided, as in robots.txt; "": none matched. One that did not fit ends in "…".
	Rule string

	ContentSignal, ContentUsage Preferences
	Licenses                    string // URLs, separated by blanks
	Disallowed                  Bots   // that may not fetch the URL by their own groups
	Cut                         bool   // limits have removed something, see Signals.Cut; or licences did not fit
}

// DigestText returns the digest as in a WARC-Payload-Digest.
func (l *Statement) DigestText() string {
	return "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:])
}

// Statement returns what the file says about a path with its query. The error says that the signals are damaged; the
// statement then lacks them.
func (h *HostData) Statement(pathQuery []byte) (l Statement, err error) {
	if h.Group == GroupUnknown {
		return l, nil
	}
	l = Statement{Digest: h.Digest, Fetched: h.Fetched, Group: h.Group}
	_, l.Rule = Explain(h.Rules, pathQuery)
	if len(h.Signals) == 0 {
		return l, nil
	}
	s, err := DecodeSignals(h.Signals)
	if err != nil {
		return l, err
	}
	l.ContentSignal, l.ContentUsage, l.Cut = s.ContentSignal, s.UsageAt(pathQuery), s.Cut
	l.Licenses, l.Disallowed = strings.Join(s.Licenses, " "), s.DisallowedAt(pathQuery)
	return l, nil
}

// Bits of the first byte of a statement's coding, above the group.
const (
	statementGroup = 3
	statementCut   = 1 << iota << 1
	statementRule
	statementSignal
	statementUsage
	statementLicenses
	statementBots
)

// Append appends the coding of l to dst; nothing for the zero value. It has at most limit bytes, which are
// leastStatement or more: if necessary it lacks licences, or the end of the rule.
func (l *Statement) Append(dst []byte, limit int) []byte {
	if l.Group == GroupUnknown {
		return dst
	}
	flags, at := byte(l.Group), len(dst)
	dst = append(append(dst, 0), l.Digest[:]...)
	dst = binary.AppendUvarint(dst, toSeconds(l.Fetched))
	for _, p := range [...]struct {
		flag byte
		p    Preferences
	}{{statementSignal, l.ContentSignal}, {statementUsage, l.ContentUsage}} {
		if p.p != "" {
			flags |= p.flag
			dst = appendPreferences(dst, p.p)
		}
	}
	if l.Disallowed != 0 {
		flags |= statementBots
		dst = binary.AppendUvarint(dst, uint64(l.Disallowed))
	}
	cut, room := l.Cut, limit-(len(dst)-at)
	if rule := shortened(l.Rule, room-1); rule != "" {
		flags |= statementRule
		dst = appendField(dst, rule)
		room -= 1 + len(rule)
	}
	if n := len(l.Licenses); n > 0 && n+2 <= room {
		flags |= statementLicenses
		dst = appendField(dst, l.Licenses)
	} else if n > 0 {
		cut = true
	}
	if cut {
		flags |= statementCut
	}
	dst[at] = flags
	return dst
}

// shortened returns a rule of at most room bytes, and at most maxRuleText; "" if there is no room for it.
func shortened(rule string, room int) string {
	const end = "…"
	if room = min(room, maxRuleText); len(rule) <= room {
		return rule
	}
	if room <= len("Disallow: /"+end) {
		return ""
	}
	return rule[:room-len(end)] + end
}

// maxRuleText bounds a rule in a statement, in bytes. Most rules have fewer than 40.
const maxRuleText = 100

// Decode sets l to what b encodes, and rejects anything else. An empty b is the zero value.
func (l *Statement) Decode(b []byte) error {
	*l = Statement{}
	if len(b) == 0 {
		return nil
	}
	d := decoder{b: b}
	flags := d.byte()
	l.Group, l.Cut = Group(flags&statementGroup), flags&statementCut != 0
	copy(l.Digest[:], d.bytes(sha1.Size))
	l.Fetched = seconds(d.uvarint(maxSeconds))
	has := func(flag byte) bool { return flags&flag != 0 }
	if has(statementSignal) {
		l.ContentSignal = d.preferences()
	}
	if has(statementUsage) {
		l.ContentUsage = d.preferences()
	}
	if has(statementBots) {
		l.Disallowed = Bots(d.uvarint(uint64(allBots)))
	}
	if has(statementRule) {
		l.Rule = string(d.text(maxRuleText))
	}
	if has(statementLicenses) {
		l.Licenses = string(d.text(MaxStatement))
	}
	if d.bad || len(d.b) > 0 || l.Group == GroupUnknown || has(statementSignal) != (l.ContentSignal != "") ||
		has(statementUsage) != (l.ContentUsage != "") || has(statementBots) != (l.Disallowed != 0) ||
		has(statementRule) != (l.Rule != "") || has(statementLicenses) != (l.Licenses != "") {
		*l = Statement{}
		return errors.New("robots: decode statement: bad coding")
	}
	return nil
}
