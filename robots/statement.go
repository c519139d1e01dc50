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
	leastStatement = 1 + sha1.Size + 5 + 2*(1+len(preferenceNames)) + 5 + 1
	MaxStatement   = MaxSummary
)

// Statement is what a robots.txt and a tdmrep.json said about one URL when it was admitted to fetching. A Summary
// carries it. The zero value says nothing: the site had no file, or a version that kept no statement read it.
type Statement struct {
	Digest  [sha1.Size]byte // of robots.txt, as in its WARC-Payload-Digest
	Fetched time.Time       // when robots.txt was fetched, in seconds
	Group   Group           // that decided; GroupUnknown: there is no statement of robots.txt
	// Rule is the line that decided, as in robots.txt; "": none matched. One that did not fit ends in "…".
	Rule string

	ContentSignal, ContentUsage Preferences
	Licenses                    string // URLs, separated by blanks
	Disallowed                  Bots   // that may not fetch the URL by their own groups
	// TDMReservation is what tdmrep.json says about the URL: 0 or 1; "": nothing. TDMPolicy is the URL of the terms.
	TDMReservation, TDMPolicy string
	// Cut says that limits have removed something (Signals.Cut, Reservations.Cut), or that URLs did not fit.
	Cut bool
}

// DigestText returns the digest as in a WARC-Payload-Digest.
func (l *Statement) DigestText() string {
	return "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:])
}

// Statement returns what the files say about a path with its query. The error says that the signals or the reservations
// are damaged; the statement then lacks them.
func (h *HostData) Statement(pathQuery []byte) (l Statement, err error) {
	if len(h.Reservations) > 2 { // otherwise there are no rules
		r, err := DecodeReservations(h.Reservations)
		if err != nil {
			return l, err
		}
		if rule := r.At(pathQuery); rule != nil {
			l.TDMReservation, l.TDMPolicy, l.Cut = rule.Value(), rule.Policy, r.Cut
		}
	}
	if h.Group == GroupUnknown {
		return l, nil
	}
	l.Digest, l.Fetched, l.Group = h.Digest, h.Fetched, h.Group
	_, l.Rule = Explain(h.Rules, pathQuery)
	if len(h.Signals) == 0 {
		return l, nil
	}
	s, err := DecodeSignals(h.Signals)
	if err != nil {
		return l, err
	}
	l.ContentSignal, l.ContentUsage, l.Cut = s.ContentSignal, s.UsageAt(pathQuery), l.Cut || s.Cut
	l.Licenses, l.Disallowed = strings.Join(s.Licenses, " "), s.DisallowedAt(pathQuery)
	return l, nil
}

// Bits of the first byte of a statement's coding, above the group. The reservation and the policy of tdmrep.json
// reach to the end; without a group there are no other fields.
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
// leastStatement or more: if necessary it lacks URLs, or the end of the rule.
func (l *Statement) Append(dst []byte, limit int) []byte {
	if l.Group == GroupUnknown && l.TDMReservation == "" {
		return dst
	}
	flags, at := byte(l.Group), len(dst)
	dst = append(dst, 0)
	if l.Group != GroupUnknown {
		dst = binary.AppendUvarint(append(dst, l.Digest[:]...), toSeconds(l.Fetched))
	}
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
	cut, room := l.Cut, limit-(len(dst)-at)-len(l.TDMReservation)
	if rule := shortened(l.Rule, room-1); rule != "" {
		flags |= statementRule
		dst = appendField(dst, rule)
		room -= 1 + len(rule)
	}
	if n := len(l.Licenses); n > 0 && n+2 <= room {
		flags |= statementLicenses
		dst = appendField(dst, l.Licenses)
		room -= n + 2
	} else if n > 0 {
		cut = true
	}
	dst = append(dst, l.TDMReservation...)
	if len(l.TDMPolicy) <= room {
		dst = append(dst, l.TDMPolicy...)
	} else {
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
	if l.Group != GroupUnknown {
		copy(l.Digest[:], d.bytes(sha1.Size))
		l.Fetched = seconds(d.uvarint(maxSeconds))
	}
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
	if len(d.b) > 0 {
		l.TDMReservation, l.TDMPolicy = string(d.b[:1]), string(d.b[1:])
	}
	tdm := l.TDMReservation
	if d.bad || tdm != "" && tdm != "1" && (tdm != "0" || l.TDMPolicy != "") ||
		l.Group == GroupUnknown && (flags&^statementCut != 0 || tdm == "") ||
		has(statementSignal) != (l.ContentSignal != "") ||
		has(statementUsage) != (l.ContentUsage != "") || has(statementBots) != (l.Disallowed != 0) ||
		has(statementRule) != (l.Rule != "") || has(statementLicenses) != (l.Licenses != "") {
		*l = Statement{}
		return errors.New("robots: decode statement: bad coding")
	}
	return nil
}
