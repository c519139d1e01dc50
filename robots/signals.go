package robots

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// Limits of signals. A file has a line or two of them; the limits bound what a hostile one costs.
const (
	MaxSignals = 3 << 10 // bytes of coded signals
	// maxSummedSignals is the size of signals whose paths were given up, for a file whose rules fill MaxEncoded.
	maxSummedSignals = 300

	maxUsages       = 64      // Content-Usage lines that are kept with their paths
	maxUsagePattern = 256     // bytes of such a path
	maxLicenses     = 4       // License lines
	maxLicenseBytes = 200     // of a URL in one
	maxBotRules     = 8 << 10 // Allow and Disallow lines for AI bots
	maxBotBytes     = 512     // coded rules of AI bots with equal rules
	maxBotGroups    = 16      // sets of AI bots with different rules
)

// Signals are the statements of a robots.txt about the use of pages: those of the group that applies to us, and the
// AI bots that have groups of their own. The zero value says nothing.
type Signals struct {
	// ContentSignal has the preferences of Content-Signal lines (contentsignals.org), as in "ai-train=no, search=yes".
	ContentSignal Preferences
	// Usages has the Content-Usage lines (draft-ietf-aipref-attach), the most specific path first.
	Usages []Usage
	// Licenses has the URLs of License lines (RSL 1.0).
	Licenses []string
	// Bots has the AI bots whose own groups disallow something.
	Bots []BotGroup
	// Cut says that limits have removed something. Then the signals are more restrictive than those of the file, or
	// lack licences; they never allow more.
	Cut bool
}

// Usage is the preference of one Content-Usage line.
type Usage struct {
	Preferences Preferences
	rule        Rule // its path; an empty pattern without one
}

// Path returns the path as in a robots.txt; "" for all.
func (u *Usage) Path() string { return string(appendText(nil, u.rule.pattern)) }

// BotGroup has bots with equal rules.
type BotGroup struct {
	Bots  Bots
	Rules []byte // Rules.Append
}

// Preferences are pairs of a name and a value, sorted by name: "ai-train=no, search=yes". Of contradicting values of
// a name the most restrictive counts. They have the names of the vocabularies only.
type Preferences string

// preferenceNames are the names of contentsignals.org (with its draft "use"), of draft-ietf-aipref-vocab, and those of
// the draft's earlier versions that sites use; sorted. Stored numbers depend on the order.
var preferenceNames = [...]string{"ai", "ai-input", "ai-train", "bots", "search", "train-ai", "train-genai", "use"}

// preferenceValues are their values by how much they permit, the least first. Stored numbers depend on the order.
var preferenceValues = [...]string{"n", "no", "immediate", "reference", "full", "y", "yes"}

func nameIndex(name string) int   { return slices.Index(preferenceNames[:], name) }
func valueIndex(value string) int { return slices.Index(preferenceValues[:], value) }

// codes returns the preferences as bytes: the number of the name times 8, plus that of the value.
func (p Preferences) codes(dst []byte) []byte {
	if p == "" {
		return dst
	}
	for pair := range strings.SplitSeq(string(p), ", ") {
		name, value, _ := strings.Cut(pair, "=")
		dst = append(dst, byte(nameIndex(name)<<3|valueIndex(value)))
	}
	return dst
}

// preferencesOf is the inverse of codes. ok is false for bytes that it does not make.
func preferencesOf(codes []byte) (p Preferences, ok bool) {
	pairs, last := make([]string, 0, len(preferenceNames)), -1
	for _, c := range codes {
		name, value := int(c>>3), int(c&7)
		if name <= last || name >= len(preferenceNames) || value >= len(preferenceValues) {
			return "", false
		}
		pairs, last = append(pairs, preferenceNames[name]+"="+preferenceValues[value]), name
	}
	return Preferences(strings.Join(pairs, ", ")), true
}

// preference returns a pair; "" if a vocabulary does not have it.
func preference(name, value string) Preferences {
	if nameIndex(name) < 0 || valueIndex(value) < 0 {
		return ""
	}
	return Preferences(name + "=" + value)
}

// Get returns the value of a name; "": none.
func (p Preferences) Get(name string) string {
	for pair := range strings.SplitSeq(string(p), ", ") {
		if n, value, _ := strings.Cut(pair, "="); n == name {
			return value
		}
	}
	return ""
}

// With returns p and o together.
func (p Preferences) With(o Preferences) Preferences {
	switch {
	case o == "" || p == o:
		return p
	case p == "":
		return o
	}
	var buf [2 * len(preferenceNames)]byte
	codes := o.codes(p.codes(buf[:0]))
	slices.Sort(codes) // of one name the least comes first
	codes = slices.CompactFunc(codes, func(a, b byte) bool { return a>>3 == b>>3 })
	both, _ := preferencesOf(codes)
	return both
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ParseContentSignal reads the value of a Content-Signal line or header: "search=yes, ai-train=no, use=reference".
// There is no grammar of it, so names and values may have any case, and unknown pairs are ignored.
func ParseContentSignal(value []byte) (p Preferences) {
	for part := range bytes.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ';' }) {
		name, v, _ := strings.Cut(strings.ToLower(string(part[:min(len(part), maxPair)])), "=")
		name, v = strings.Trim(name, blanks), strings.Trim(v, blanks)
		use := v == "immediate" || v == "reference" || v == "full"
		if use == (name == "use") && (use || v == "yes" || v == "no") {
			p = p.With(preference(name, v))
		}
	}
	return p
}

// maxPair bounds the bytes of a pair: it has more than any known name and value.
const maxPair = 64

// ParseContentUsage reads the value of a Content-Usage header, or that of a robots.txt line without its path: a
// dictionary of RFC 9651 whose values y and n are preferences (draft-ietf-aipref-vocab). Other values mean nothing,
// and so does the whole text if its syntax is wrong. Of a name that occurs twice the last value counts.
func ParseContentUsage(value []byte) (p Preferences) {
	var last [len(preferenceNames)]string
	for rest := bytes.Trim(value, " \t"); len(rest) > 0; {
		n := 0
		for n < len(rest) && isKeyByte(rest[n], n == 0) {
			n++
		}
		if n == 0 {
			return ""
		}
		name, v := nameIndex(string(rest[:min(n, maxPair)])), ""
		end := n + memberEnd(rest[n:])
		if member := rest[n:end]; len(member) > 0 && member[0] == '=' {
			bare, _, _ := bytes.Cut(member[1:], []byte{';'})
			if v = string(bare[:min(len(bare), maxPair)]); v == "" {
				return ""
			}
		} else if len(member) > 0 && member[0] != ';' && len(bytes.Trim(member, " \t")) > 0 {
			return "" // two words without a comma
		}
		if name >= 0 {
			last[name] = strings.Trim(v, " \t")
		}
		if rest = rest[end:]; len(rest) > 0 {
			if rest = bytes.TrimLeft(rest[1:], " \t"); len(rest) == 0 {
				return "" // nothing after the comma
			}
		}
	}
	for i, v := range last {
		if v == "y" || v == "n" {
			p = p.With(preference(preferenceNames[i], v))
		}
	}
	return p
}

// isKeyByte reports whether c may be part of a key of a dictionary (RFC 9651, 3.1.2).
func isKeyByte(c byte, first bool) bool {
	return 'a' <= c && c <= 'z' || c == '*' || !first && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
}

// memberEnd returns the length of a member of a dictionary, up to a comma that is not in quotes.
func memberEnd(b []byte) int {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return i
		}
	}
	return len(b)
}

// said collects the signal lines of a group.
type said struct {
	signal   Preferences
	usages   []Usage
	licenses []string
	cut      bool
	// everywhere has what the Content-Usage lines refuse whose paths were given up.
	everywhere Preferences
}

// signal keeps the value of a line that is a signal. Those before the first User-agent line are for all groups.
func (p *parser) signal(name, value []byte) bool {
	var add func(to *said, value []byte)
	switch {
	case equalFold(name, []byte("content-signal")):
		add = (*said).addSignal
	case equalFold(name, []byte("content-usage")):
		add = (*said).addUsage
	case equalFold(name, []byte("license")):
		add = (*said).addLicense
	default:
		return false
	}
	to := p.signalGroup()
	p.signalled = true
	switch {
	case to == nil:
	case p.long:
		to.cut = true // the end of the line is missing
	default:
		add(to, value)
	}
	return true
}

// signalGroup returns what the signals of the current line belong to, nil if they concern only others.
func (p *parser) signalGroup() *said {
	for _, g := range [...]*group{&p.own, &p.all} {
		if p.ended && g.open || !p.ended && g.above {
			if g.said == nil {
				g.said = new(said)
			}
			return g.said
		}
	}
	if p.named {
		return nil
	}
	if p.early == nil {
		p.early = new(said)
	}
	return p.early
}

func (s *said) addSignal(value []byte) { s.signal = s.signal.With(ParseContentSignal(value)) }

func (s *said) addUsage(value []byte) {
	u, path := Usage{}, []byte(nil)
	if len(value) > 0 && value[0] == '/' {
		end := bytes.IndexAny(value, " \t")
		if end < 0 {
			return // a path without preferences
		}
		path, value = value[:end], value[end:]
	}
	u.Preferences = ParseContentUsage(value)
	if path != nil {
		u.rule, _ = compile(path, false) // it begins with "/"
	}
	s.mergeUsage(u)
}

// refused returns the preferences whose value forbids.
func (p Preferences) refused() Preferences {
	codes := slices.DeleteFunc(p.codes(nil), func(c byte) bool { return int(c&7) > valueIndex("no") })
	no, _ := preferencesOf(codes)
	return no
}

func (s *said) addLicense(value []byte) {
	value = bytes.TrimRight(value, blanks)
	switch {
	case len(value) == 0 || bytes.IndexByte(value, ':') < 0: // not an absolute URI
	case bytes.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }):
	case slices.Contains(s.licenses, string(value)):
	case len(value) > maxLicenseBytes, len(s.licenses) >= maxLicenses:
		s.cut = true
	default:
		s.licenses = append(s.licenses, string(value))
	}
}

// signals returns the signals that apply to the group in force.
func (p *parser) signals(g *group) (s Signals) {
	s.Bots, s.Cut = p.botGroups()
	if g.said == nil && p.early == nil {
		return s.fit(MaxSignals)
	}
	var sum said
	for _, from := range [...]*said{g.said, p.early} {
		if from == nil {
			continue
		}
		sum.signal = sum.signal.With(from.signal)
		for _, u := range from.usages {
			sum.mergeUsage(u)
		}
		sum.everywhere, sum.cut = sum.everywhere.With(from.everywhere), sum.cut || from.cut
		if len(s.Licenses) == 0 { // those of the group replace those for all
			s.Licenses = from.licenses
		}
	}
	if s.Usages = sum.usages; sum.everywhere != "" {
		for i := range s.Usages {
			s.Usages[i].Preferences = s.Usages[i].Preferences.With(sum.everywhere)
		}
		s.Usages = append(s.Usages, Usage{Preferences: sum.everywhere})
	}
	s.ContentSignal, s.Cut = sum.signal, s.Cut || sum.cut
	slices.SortStableFunc(s.Usages, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.rule.Weight, a.rule.Weight), bytes.Compare(a.rule.pattern, b.rule.pattern))
	})
	return s.fit(MaxSignals)
}

// mergeUsage adds a usage; of those with one path the most restrictive preferences count.
func (s *said) mergeUsage(u Usage) {
	if u.Preferences == "" {
		return
	}
	for i := range s.usages {
		if old := &s.usages[i]; old.rule.Weight == u.rule.Weight && bytes.Equal(old.rule.pattern, u.rule.pattern) {
			old.Preferences = old.Preferences.With(u.Preferences)
			return
		}
	}
	if len(u.rule.pattern) > maxUsagePattern || len(s.usages) >= maxUsages {
		// Its path is given up: what it refuses is refused everywhere.
		s.cut, s.everywhere = true, s.everywhere.With(u.Preferences.refused())
		return
	}
	s.usages = append(s.usages, u)
}

// fit returns signals whose coding has at most limit bytes, at least maxSummedSignals. Instead of paths it keeps what
// all of them together forbid.
func (s Signals) fit(limit int) Signals {
	if len(s.Append(nil)) <= limit {
		return s
	}
	s.Cut = true
	var refused Preferences
	bots, rules := Bots(0), []Rule(nil)
	for _, u := range s.Usages {
		refused = refused.With(u.Preferences.refused())
	}
	for _, g := range s.Bots {
		bots |= g.Bots
		if r, err := DecodeRules(g.Rules); err == nil {
			rules = append(rules, r.list...)
		}
	}
	s.Usages, s.Bots = nil, nil
	if refused != "" {
		s.Usages = []Usage{{Preferences: refused}}
	}
	if cover := coverOf(rules); cover != nil {
		cover.pattern = cover.pattern[:min(len(cover.pattern), 16)]
		s.Bots = []BotGroup{{bots, (&Rules{list: []Rule{*cover}}).Append(nil)}}
	}
	for len(s.Licenses) > 0 && len(s.Append(nil)) > limit {
		s.Licenses = s.Licenses[:len(s.Licenses)-1]
	}
	return s
}

// IsZero reports whether the file says nothing.
func (s *Signals) IsZero() bool {
	return s.ContentSignal == "" && len(s.Usages) == 0 && len(s.Licenses) == 0 && len(s.Bots) == 0 && !s.Cut
}

// Coding of Signals; see docs/reference/files/robots.md. Numbers are unsigned varints, texts have their length.
const signalsVersion = 1

const signalsCut = 1 // flag

// Append appends the coding of the signals to dst: at most MaxSignals bytes, none if the file says nothing.
func (s *Signals) Append(dst []byte) []byte {
	if s.IsZero() {
		return dst
	}
	dst = append(dst, signalsVersion, byte(boolInt(s.Cut)*signalsCut))
	dst = appendPreferences(dst, s.ContentSignal)
	dst = binary.AppendUvarint(dst, uint64(len(s.Usages)))
	for _, u := range s.Usages {
		dst = binary.AppendUvarint(dst, uint64(u.rule.Weight))
		dst = appendPreferences(appendField(dst, string(u.rule.pattern)), u.Preferences)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Licenses)))
	for _, l := range s.Licenses {
		dst = appendField(dst, l)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Bots)))
	for _, g := range s.Bots {
		dst = appendField(binary.AppendUvarint(dst, uint64(g.Bots)), string(g.Rules))
	}
	return dst
}

func appendField(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func appendPreferences(dst []byte, p Preferences) []byte {
	at := len(dst)
	dst = p.codes(append(dst, 0))
	dst[at] = byte(len(dst) - at - 1)
	return dst
}

// preferences decodes what appendPreferences wrote.
func (d *decoder) preferences() Preferences {
	p, ok := preferencesOf(d.bytes(int(d.byte())))
	d.bad = d.bad || !ok
	return p
}

// text decodes what appendField wrote, at most limit bytes.
func (d *decoder) text(limit int) []byte { return d.bytes(int(d.uvarint(uint64(limit)))) }

// errSignals reports signals that no version of this program writes.
var errSignals = errors.New("robots: decode signals: bad coding")

// DecodeSignals decodes what Append wrote. The result refers to b.
func DecodeSignals(b []byte) (s Signals, err error) {
	if len(b) == 0 {
		return s, nil
	}
	d := decoder{b: b}
	version, flags := d.byte(), d.byte()
	s.Cut = flags&signalsCut != 0
	s.ContentSignal = d.preferences()
	for range d.uvarint(maxUsages + 1) {
		u := Usage{}
		u.rule.Weight = int(d.uvarint(maxWeight))
		u.rule.pattern, u.Preferences = d.text(maxUsagePattern), d.preferences()
		s.Usages = append(s.Usages, u)
	}
	for range d.uvarint(maxLicenses) {
		s.Licenses = append(s.Licenses, string(d.text(maxLicenseBytes)))
	}
	for range d.uvarint(64) {
		s.Bots = append(s.Bots, BotGroup{Bots(d.uvarint(uint64(allBots))), d.text(maxBotBytes)})
	}
	if d.bad || len(d.b) > 0 || version != signalsVersion || flags > signalsCut || len(b) > MaxSignals {
		return Signals{}, errSignals
	}
	return s, nil
}

// UsageAt returns the preferences of the Content-Usage line with the most specific path that matches a path with its
// query; "": none does. Lines with equally specific paths count together.
func (s *Signals) UsageAt(pathQuery []byte) (p Preferences) {
	if len(s.Usages) == 0 {
		return p
	}
	path := normal(nil, pathQuery)
	folded := foldedForm(path)
	weight := -1
	for _, u := range s.Usages {
		if u.rule.Weight < weight {
			break
		}
		against := path
		if namesDelimiters(u.rule.pattern) {
			against = folded
		}
		if matches(u.rule.pattern, against, isSpecial(u.rule.pattern)) {
			weight = u.rule.Weight
			p = p.With(u.Preferences)
		}
	}
	return p
}

// DisallowedAt returns the bots whose own groups disallow a path with its query.
func (s *Signals) DisallowedAt(pathQuery []byte) (bots Bots) {
	for _, g := range s.Bots {
		if !Match(g.Rules, pathQuery) {
			bots |= g.Bots
		}
	}
	return bots
}
