package robots

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse reads a robots.txt file and keeps the group that applies to agent, a product token (letters, "-",
// "_"; "/" and a version may follow). It accepts any input and skips unknown lines.
//
// Lines end at CR, LF, CRLF or NUL. "#" begins a comment. A line is "name: value"; without a colon, exactly
// two words count as name and value. Names are compared by prefix, ignoring case; common misspellings are
// known. A group begins with User-agent lines and ends before the first User-agent line after an Allow or
// Disallow; no other line ends it. The rules of all groups for our token are merged. Without any such group
// the rules for "*" apply. Rules before the first User-agent line are ignored. A Crawl-delay applies to the
// User-agent lines above it in its group; the largest one counts.
func Parse(body []byte, agent string) *Rules {
	var p parser
	p.agent, p.valid = agentName([]byte(agent))
	p.cut.Input = eachLine(body, p.line)
	return p.finish()
}

// Sitemaps returns only the values of the file's Sitemap lines; see Rules.Sitemaps.
func Sitemaps(body []byte) []string {
	var p parser
	eachLine(body, func(line []byte) {
		if bytes.ContainsAny(line, "sS") { // avoids splitting most other lines
			p.sitemap(split(line[:min(len(line), maxLine)]))
		}
	})
	return p.sitemaps
}

// eachLine calls fn for each non-empty line. It returns the number of bytes beyond MaxInput.
func eachLine(body []byte, fn func(line []byte)) (cut int) {
	body, cut = limitInput(decode(body))
	for len(body) > 0 {
		n := bytes.IndexAny(body, "\r\n")
		line := body
		if n < 0 {
			body = nil
		} else {
			line, body = body[:n], body[n+1:]
		}
		if len(line) > 0 {
			fn(line)
		}
	}
	return cut
}

// parser is the state of one Parse.
type parser struct {
	agent    []byte
	valid    bool  // agent is a product token
	own, all group // for our token and for "*"
	ended    bool  // a rule was read: the next User-agent line begins a new group
	delayed  bool  // a Crawl-delay was read after the last User-agent line
	named    bool  // a User-agent line was read

	signalled bool // a signal was read after the last User-agent line
	early     *said
	bots      Bots // named by the User-agent lines of the current group
	botRules  []botRule
	botsCut   Bots // not all of their rules were kept
	long      bool // the line was cut
	sitemaps  []string
	cut       Cut
}

// group collects the lines of all groups for one name.
type group struct {
	open  bool // named by the User-agent lines of the current group
	near  bool // named by the User-agent lines directly above
	seen  bool // named anywhere
	above bool // named by the User-agent lines directly above a signal
	said  *said
	rules []rawRule
	delay time.Duration
}

type rawRule struct {
	value []byte
	allow bool
}

// limitInput cuts the body after the last whole line within MaxInput.
func limitInput(body []byte) ([]byte, int) {
	if len(body) <= MaxInput {
		return body, 0
	}
	keep := bytes.LastIndexAny(body[:MaxInput], "\r\n") + 1
	return body[:keep], len(body) - keep
}

// decode removes a byte order mark, even a partial one, and converts UTF-16 to UTF-8.
func decode(body []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		for _, c := range []byte{0xef, 0xbb, 0xbf} {
			if len(body) == 0 || body[0] != c {
				break
			}
			body = body[1:]
		}
		return body
	}
	body = body[2:min(len(body), 2*MaxInput+2)]
	out := make([]byte, 0, len(body)/2)
	for ; len(body) >= 2; body = body[2:] {
		r := rune(order.Uint16(body))
		if utf16.IsSurrogate(r) && len(body) >= 4 {
			if full := utf16.DecodeRune(r, rune(order.Uint16(body[2:]))); full != utf8.RuneError {
				r, body = full, body[2:]
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

const blanks = " \t\v\f"

// split splits a line into name and value. Both are empty if the line has neither.
func split(line []byte) (name, value []byte) {
	if n := bytes.IndexAny(line, "#\x00"); n >= 0 {
		line = line[:n]
	}
	line = bytes.Trim(line, blanks)
	n := bytes.IndexByte(line, ':')
	if n < 0 {
		n = bytes.IndexAny(line, " \t")
		if n < 0 || bytes.ContainsAny(bytes.TrimLeft(line[n:], " \t"), " \t") {
			return nil, nil
		}
	}
	return bytes.TrimRight(line[:n], blanks), bytes.TrimLeft(line[n+1:], blanks)
}

// line processes one line without its end.
func (p *parser) line(line []byte) {
	if p.long = len(line) > maxLine; p.long {
		line = line[:maxLine]
	}
	name, value := split(line)
	switch {
	case len(name) == 0:
	case hasName(name, "user-agent", "useragent", "user agent"):
		p.userAgent(value)
	case hasName(name, "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"):
		p.rule(value, false)
	case hasName(name, "allow"):
		p.rule(value, true)
	case hasName(name, "crawl-delay", "crawldelay", "crawl delay"):
		p.crawlDelay(value)
	case name[0]|0x20 != 'c' && name[0]|0x20 != 'l' || !p.signal(name, value):
		p.sitemap(name, value)
	}
}

// sitemap keeps the value if the line is a Sitemap line.
func (p *parser) sitemap(name, value []byte) {
	if !hasName(name, "sitemap", "site-map") || len(value) == 0 || len(value) > maxSitemapBytes ||
		len(p.sitemaps) >= maxSitemaps {
		return
	}
	p.sitemaps = append(p.sitemaps, string(value))
}

func (p *parser) userAgent(value []byte) {
	if p.ended {
		p.ended, p.delayed, p.own.open, p.all.open = false, true, false, false
		p.signalled, p.bots = true, 0
	}
	if p.delayed {
		p.delayed, p.own.near, p.all.near = false, false, false
	}
	if p.signalled {
		p.signalled, p.own.above, p.all.above = false, false, false
	}
	p.named = true
	p.bots |= botOf(value)
	switch {
	case isStar(value):
		p.all.open, p.all.near, p.all.above, p.all.seen = true, true, true, true
	case p.names(value):
		p.own.open, p.own.near, p.own.above, p.own.seen = true, true, true, true
	}
}

// agentName returns the name part of the crawler's agent string, without the version, and whether it is a
// product token by RFC 9309, 2.2.1. A name with a blank is no name.
func agentName(agent []byte) (name []byte, valid bool) {
	name, _, _ = bytes.Cut(agent, []byte("/"))
	if bytes.ContainsAny(name, blanks) {
		return nil, false
	}
	return name, len(name) > 0 && len(token(name)) == len(name)
}

// names reports whether a User-agent value names our agent: if our name is a product token, by the token at
// the beginning of the value; otherwise ("bot2") by its first word.
func (p *parser) names(value []byte) bool {
	if p.valid {
		return equalFold(token(value), p.agent)
	}
	if n := bytes.IndexAny(value, blanks+"/"); n >= 0 {
		value = value[:n]
	}
	return len(p.agent) > 0 && equalFold(value, p.agent)
}

// isStar reports whether a User-agent value is "*", alone or before a blank.
func isStar(value []byte) bool {
	return len(value) > 0 && value[0] == '*' && (len(value) == 1 || strings.IndexByte(blanks, value[1]) >= 0)
}

func (p *parser) rule(value []byte, allow bool) {
	p.ended = true
	if len(value) == 0 {
		return // "Disallow:" only ends the list of names
	}
	if allow && p.long && bytes.IndexByte(value, '*') >= 0 {
		// The lost end could be important. Without wildcards a pattern is a prefix, so a cut one is harmless.
		p.cut.Long++
		return
	}
	if g := p.group(); g != nil {
		g.rules = append(g.rules, rawRule{value: value, allow: allow})
	}
	if p.bots != 0 {
		p.botRule(value, allow)
	}
}

func (p *parser) crawlDelay(value []byte) {
	d, ok := parseDelay(value)
	if !ok {
		return
	}
	p.delayed = true
	own, all := p.own.near, p.all.near
	if p.ended {
		own, all = p.own.open, p.all.open
	}
	switch {
	case own:
		p.own.delay = max(p.own.delay, d)
	case all:
		p.all.delay = max(p.all.delay, d)
	}
}

// group returns the collection that the current group adds to, or nil if the group concerns only others.
func (p *parser) group() *group {
	switch {
	case p.own.open:
		return &p.own
	case p.all.open:
		return &p.all
	}
	return nil
}

func (p *parser) finish() *Rules {
	g, r := &p.all, &Rules{Sitemaps: p.sitemaps, Cut: p.cut, Group: GroupNone}
	switch {
	case p.own.seen:
		g, r.Own, r.Group = &p.own, true, GroupOwn
	case p.all.seen:
		r.Group = GroupAll
	}
	r.Signals = p.signals(g)
	r.CrawlDelay = g.delay
	for _, raw := range g.rules {
		r.add(raw)
	}
	r.list = order(r.list)
	r.list = r.limit(r.list)
	return r
}

// add compiles one line and adds it to the list within the limits.
func (r *Rules) add(raw rawRule) {
	rule, ok := compile(raw.value, raw.allow)
	if !ok {
		r.Cut.Odd++
		return
	}
	if len(rule.pattern) > MaxPattern {
		r.Cut.Long++
		if rule.Allow {
			return
		}
		rule.pattern = bytes.TrimRight(rule.pattern[:MaxPattern], "\x00")
		rule.Weight = min(rule.Weight, maxWeight)
	}
	r.list = append(r.list, rule)
	if !rule.Allow {
		return
	}
	// As in Google's parser, allowing "/dir/index.html" allows "/dir/".
	slash := bytes.LastIndexByte(rule.pattern, '/')
	if slash >= 0 && bytes.HasPrefix(rule.pattern[slash:], []byte("/index.htm")) {
		dir := append(bytes.Clone(rule.pattern[:slash+1]), anchor)
		r.list = append(r.list, Rule{Allow: true, Weight: len(dir), pattern: dir})
	}
}

// token returns the longest prefix of b that consists of characters of a product token.
func token(b []byte) []byte {
	for i, c := range b {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '-' && c != '_' {
				return b[:i]
			}
		}
	}
	return b
}

// hasName reports whether name begins with one of the lower-case names, ignoring the case of ASCII letters.
func hasName(name []byte, names ...string) bool {
	for _, n := range names {
		if len(name) >= len(n) && equalFold(name[:len(n)], []byte(n)) {
			return true
		}
	}
	return false
}

// equalFold compares a and b ignoring the case of ASCII letters only. bytes.EqualFold would equate "ſ" and
// "s".
func equalFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// parseDelay parses the value of a Crawl-delay line: a decimal number with point or comma, in seconds unless
// "ms" or "m" (minutes) follows. It ignores other words after the number, so it accepts "10", "10s", "1,5"
// and "2.5 seconds". The result is at most MaxCrawlDelay. Anything else, including a negative number, is no
// delay.
func parseDelay(value []byte) (time.Duration, bool) {
	var whole, fraction, scale float64
	scale = 1
	i, digits := 0, 0
	for ; i < len(value) && value[i] >= '0' && value[i] <= '9'; i++ {
		whole = min(whole*10+float64(value[i]-'0'), 1e9)
		digits++
	}
	if i < len(value) && (value[i] == '.' || value[i] == ',') {
		for i++; i < len(value) && value[i] >= '0' && value[i] <= '9'; i++ {
			if scale < 1e9 {
				scale *= 10
				fraction = fraction*10 + float64(value[i]-'0')
			}
			digits++
		}
	}
	if digits == 0 {
		return 0, false
	}
	unit := time.Second
	rest := bytes.TrimLeft(value[i:], blanks)
	switch {
	case hasName(rest, "ms", "milli"):
		unit = time.Millisecond
	case hasName(rest, "m"):
		unit = time.Minute
	}
	seconds := (whole + fraction/scale) * unit.Seconds()
	if seconds >= MaxCrawlDelay.Seconds() {
		return MaxCrawlDelay, true
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond), true
}
