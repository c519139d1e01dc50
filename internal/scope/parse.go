package scope

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// Limits of Parse.
const (
	MaxBytes      = 256 << 20  // of all files; 10⁷ hosts fit
	MaxRules      = 10_000_000 // about 50 bytes each
	MaxLineBytes  = 8 << 10    // four times the default limit of a URL
	MaxRegexes    = 1000       // each may be tried for each link
	MaxRegexBytes = 1000
	MaxFaults     = 100 // listed one by one; Parse only counts the rest
	maxSources    = 1000
)

// List is the purpose of rule files.
type List uint8

const (
	Rules     List = iota // which URLs are crawled
	Blacklist             // which sites get no request at all
)

// Source is the name and the text of a file.
type Source struct {
	Name string
	Text []byte
}

// kind is the kind of a rule.
type kind uint8

const (
	hostKind kind = iota
	belowKind
	pldKind
	surtKind
	prefixKind
	regexKind
	netKind
	defaultKind
)

var kindNames = [...]string{"host", "host", "pld", "surt", "prefix", "regex", "net", "default"}

// wants returns the rule words that may follow the sign.
func (l List) wants() string {
	if l == Blacklist {
		return "host, pld or net"
	}
	return "host, pld, surt, prefix or regex"
}

// Fault is an error in a line.
type Fault struct {
	File string
	Line int // from 1; 0: the whole file
	Why  string
}

func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Why
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Why)
}

// Faults is the error of Parse. List has the first MaxFaults faults.
type Faults struct {
	List []Fault
	More int // number of further faults
}

// Error returns one line for each fault.
func (f *Faults) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope: %s", human.Counted(len(f.List)+f.More, "fault", "faults"))
	if len(f.List)+f.More == 1 {
		b.Reset()
		b.WriteString("scope: 1 error")
	}
	for _, one := range f.List {
		b.WriteString("\n" + one.String())
	}
	if f.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", f.More)
	}
	return b.String()
}

// Parse compiles rule files for URLs with folded escapes (weburl.FoldEscapes). suffixes defines the PLDs.
// An error is *Faults.
func Parse(list List, suffixes *weburl.Suffixes, sources ...Source) (*Set, error) {
	return parse(list, suffixes, true, sources)
}

// ParseKept is Parse for URLs that keep the escapes of the pages.
func ParseKept(list List, suffixes *weburl.Suffixes, sources ...Source) (*Set, error) {
	return parse(list, suffixes, false, sources)
}

func parse(list List, suffixes *weburl.Suffixes, fold bool, sources []Source) (*Set, error) {
	p := &parser{
		fold:     fold,
		set:      &Set{list: list, suffixes: suffixes, fallback: None, surts: prefixes{fold: true}},
		resolver: weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: fold}),
		faults:   new(Faults),
	}
	size := 0
	for i, src := range sources {
		p.set.sources = append(p.set.sources, src.Name)
		p.at = place{source: i}
		if size += len(src.Text); size > MaxBytes || i >= maxSources {
			p.fault("more than %d bytes of rules, or %d files", MaxBytes, maxSources)
			break
		}
		p.file(src.Text)
	}
	if p.hasFallback {
		p.at = p.fallbackAt
		p.rule(defaultKind, p.fallback, nil)
		p.set.fallback = Number(len(p.set.rules) - 1)
	}
	if len(p.faults.List) > 0 {
		return nil, p.faults
	}
	p.finish()
	return p.set, nil
}

// place is the position of the parser: the index of the source, and the line from 1.
type place struct{ source, line int }

type parser struct {
	set      *Set
	resolver *weburl.Resolver
	fold     bool // fold the escapes
	faults   *Faults
	at       place
	url, out []byte // scratch buffers
	fields   []string

	hasFallback, fallback bool
	fallbackAt            place
}

// finish compiles the parts that need all rules.
func (p *parser) finish() {
	s := p.set
	s.rules = append(make([]rule, 0, len(s.rules)), s.rules...)
	s.text = append(make([]byte, 0, len(s.text)), s.text...)
	s.surts.finish()
	s.urls.finish()
	s.nets.finish()
	s.count()
}

func (p *parser) fault(format string, args ...any) {
	if len(p.faults.List) >= MaxFaults {
		p.faults.More++
		return
	}
	p.faults.List = append(p.faults.List, Fault{p.set.sources[p.at.source], p.at.line, fmt.Sprintf(format, args...)})
}

func (p *parser) file(text []byte) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		p.at.line++
		if len(line) > MaxLineBytes {
			p.fault("the line has %d bytes; the limit is %d", len(line), MaxLineBytes)
			continue
		}
		if len(p.set.rules) >= MaxRules {
			p.fault("more than %d rules", MaxRules)
			return
		}
		p.line(uncomment(line))
	}
}

// uncomment removes a comment: a # at the start or after a blank. Canonical URLs have neither # nor blanks.
func uncomment(line []byte) []byte {
	for i, c := range line {
		if c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return bytes.TrimSpace(line)
}

const example = "such as \"- host example.org\""

func (p *parser) line(line []byte) {
	if len(line) == 0 {
		return
	}
	fields := p.fields[:0]
	for word := range strings.FieldsSeq(string(line)) {
		fields = append(fields, word)
	}
	p.fields = fields
	if fields[0] == "default" {
		p.setDefault(fields[1:])
		return
	}
	if fields[0] != "+" && fields[0] != "-" {
		p.fault("%.60q: want + or - and a space at the start, %s", fields[0], example)
		return
	}
	if len(fields) < 3 {
		p.fault("%.60q: want %s, and a pattern, after %s, %s", line, p.set.list.wants(), fields[0], example)
		return
	}
	word, pattern := fields[1], fields[2]
	if len(fields) > 3 {
		p.fault("%.60q: want only a comment after the pattern: URLs have no spaces (in a regex, use %%20 or \\s)",
			fields[3])
		return
	}
	if err := p.pattern(word, pattern, fields[0] == "+"); err != nil {
		p.fault("%s", err)
	}
}

func (p *parser) setDefault(fields []string) {
	switch {
	case p.set.list == Blacklist:
		p.fault("a blacklist has no default: want + or -, and host, pld or net")
	case len(fields) != 1 || fields[0] != "+" && fields[0] != "-":
		p.fault("want + or - after default, and nothing else")
	case p.hasFallback:
		p.fault("second default; the first is in %s:%d", p.set.sources[p.fallbackAt.source], p.fallbackAt.line)
	default:
		p.hasFallback, p.fallback, p.fallbackAt = true, fields[0] == "+", p.at
	}
}

// rule adds a rule and returns its number.
func (p *parser) rule(k kind, include bool, pattern []byte) Number {
	s := p.set
	s.rules = append(s.rules, rule{start: uint32(len(s.text)), line: uint32(p.at.line), size: uint16(len(pattern)),
		source: uint16(p.at.source), kind: k, include: include})
	s.text = append(s.text, pattern...)
	return Number(len(s.rules) - 1)
}

// pattern compiles one rule.
func (p *parser) pattern(word, pattern string, include bool) error {
	blacklist := p.set.list == Blacklist
	switch {
	case word == "host":
		return p.host(pattern, include)
	case word == "pld":
		return p.pld(pattern, include)
	case word == "net" && blacklist:
		return p.net(pattern, include)
	case word == "net":
		return errors.New("net: allowed only in a blacklist: the address of a link's host is not known yet")
	case blacklist:
		return fmt.Errorf("%.60q: want %s: a blacklist names sites, not pages", word, p.set.list.wants())
	case word == "surt":
		return p.surt(pattern, include)
	case word == "prefix":
		return p.prefix(pattern, include)
	case word == "regex":
		return p.regex(pattern, include)
	}
	return fmt.Errorf("%.60q: want %s", word, p.set.list.wants())
}

// digestPrefix begins the digest of a name in place of the name.
const digestPrefix = "sha256:"

// Digest returns the form of a host or PLD in a rule that does not show it: sha256: and the SHA-256 of the name as in a
// canonical URL, in hexadecimal. It is no secret: who guesses a name can check it.
func Digest(name []byte) string { return string(appendDigest(nil, name)) }

func appendDigest(dst, name []byte) []byte {
	sum := sha256.Sum256(name)
	return hex.AppendEncode(append(dst, digestPrefix...), sum[:])
}

// digest returns a digest in a rule; ok is false for a name.
func digest(pattern string) (text []byte, ok bool, err error) {
	digits, ok := strings.CutPrefix(pattern, digestPrefix)
	if !ok {
		return nil, false, nil
	}
	if b, err := hex.DecodeString(digits); err != nil || len(b) != sha256.Size {
		return nil, true, fmt.Errorf("%.100q: want the SHA-256 of a name, 64 hexadecimal digits, after %s", pattern,
			digestPrefix)
	}
	return []byte(strings.ToLower(pattern)), true, nil
}

func (p *parser) host(pattern string, include bool) error {
	s := p.set
	if text, ok, err := digest(pattern); ok || err != nil {
		if err == nil {
			s.hidden.add(s, p.rule(hostKind, include, text))
		}
		return err
	}
	name, below := strings.CutPrefix(pattern, "*.")
	host, err := p.name(name)
	if err != nil {
		return err
	}
	if !below {
		s.hosts.add(s, p.rule(hostKind, include, host))
		return nil
	}
	if weburl.IsAddress(host) {
		return fmt.Errorf("host %.100q: an address has no hosts below it", pattern)
	}
	s.below.add(s, p.rule(belowKind, include, host))
	s.deepest = max(s.deepest, 1+bytes.Count(host, []byte(".")))
	return nil
}

// name returns a host in the form of a canonical URL, valid until the next call.
func (p *parser) name(text string) ([]byte, error) {
	bad := func(why string) ([]byte, error) { return nil, fmt.Errorf("host %.100q: %s", text, why) }
	name := text
	if strings.Contains(text, ":") {
		if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
			name = "[" + text + "]"
		}
	}
	switch i := strings.IndexAny(name, "/\\?#@"); {
	case strings.Contains(name, "*"):
		return bad("want a name, or *. and a name for all hosts below it")
	case i >= 0:
		return bad(fmt.Sprintf("%q: want only a name or an address; use a prefix rule for URLs", name[i:i+1]))
	case strings.Contains(name, ":") && name[0] != '[':
		return bad("want a name or an address without a port; use a prefix rule for http://host:8080/")
	}
	p.url = append(append(append(p.url[:0], "http://"...), name...), '/')
	url, err := p.resolver.AppendResolve(p.out[:0], nil, p.url)
	if err != nil {
		return bad("not a name or an address of a host")
	}
	p.out = url
	host := weburl.TrimDot(weburl.Split(url).Host)
	if len(host) == 0 || host[0] == '.' || bytes.Contains(host, []byte("..")) || host[len(host)-1] == '.' {
		return bad("an empty label")
	}
	return host, nil
}

func (p *parser) pld(pattern string, include bool) error {
	if text, ok, err := digest(pattern); ok || err != nil {
		if err == nil {
			p.set.hiddenPLDs.add(p.set, p.rule(pldKind, include, text))
		}
		return err
	}
	name, err := p.name(pattern)
	if err != nil {
		return err
	}
	if s := string(name); p.set.suffixes.IsSuffix(s) {
		return fmt.Errorf("pld %.100q: is a public suffix with many owners; want a name below it, or host *.%s",
			pattern, s)
	} else if pld := p.set.suffixes.PLD(s); pld != s {
		return fmt.Errorf("pld %.100q: belongs to the PLD %s; want pld %s, or host %s and host *.%s",
			pattern, pld, pld, s, s)
	}
	p.set.plds.add(p.set, p.rule(pldKind, include, name))
	return nil
}

func (p *parser) net(pattern string, include bool) error {
	var net netip.Prefix
	a, err := netip.ParseAddr(pattern)
	if err == nil {
		net = netip.PrefixFrom(a, a.BitLen())
	} else if net, err = netip.ParsePrefix(pattern); err != nil {
		return fmt.Errorf("net %.100q: want an address or a range of addresses, such as 192.0.2.0/24 or 2001:db8::/32",
			pattern)
	}
	switch {
	case a.Zone() != "":
		return fmt.Errorf("net %.100q: want an address without a zone", pattern)
	case net.Addr().Is4In6():
		return fmt.Errorf("net %.100q: want the IPv4 address itself, %s", pattern, net.Addr().Unmap())
	case net != net.Masked():
		return fmt.Errorf("net %.100q: has bits set beyond the prefix length; did you mean %s?", pattern, net.Masked())
	}
	p.set.nets.add(net, p.rule(netKind, include, []byte(net.String())))
	return nil
}

func (p *parser) regex(pattern string, include bool) error {
	if len(p.set.regexes) >= MaxRegexes {
		return fmt.Errorf("regex: more than %d expressions", MaxRegexes)
	}
	if len(pattern) > MaxRegexBytes {
		return fmt.Errorf("regex has %d bytes; the limit is %d", len(pattern), MaxRegexBytes)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("regex %.100q: want RE2 syntax: %w", pattern, err)
	}
	p.set.regexes = append(p.set.regexes, expression{p.rule(regexKind, include, []byte(pattern)), re})
	return nil
}
