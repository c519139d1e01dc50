package weburl

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hostParser is the standard's host parser for http and https. It copies plain names and dotted addresses
// and passes the rest to idna and the address parsers. It caches the last such result, because unusual hosts
// come in sequences.
type hostParser struct {
	raw    []byte // the last unusual host
	answer []byte // its canonical form
	err    error
	domain *idna.Profile
}

// append appends the canonical form of host, which must not be empty.
func (p *hostParser) append(dst, host []byte) ([]byte, error) {
	if out, ok := appendPlainHost(dst, host); ok {
		return out, nil
	}
	if len(host) > maxRawHost {
		return dst, ErrTooLong
	}
	if !bytes.Equal(host, p.raw) {
		p.raw = append(p.raw[:0], host...)
		answer, err := p.parse(string(host))
		p.answer, p.err = append(p.answer[:0], answer...), err
	}
	return append(dst, p.answer...), p.err
}

// appendPlainHost appends a host of letters, digits, '-', '_' and '.' in lower case. ok is false if the host
// has other characters, or a last label that may be a number in a spelling other than the usual one.
func appendPlainHost(dst, host []byte) ([]byte, bool) {
	start := len(dst)
	dst = append(dst, host...)
	name := dst[start:]
	for i, c := range name {
		if class := byteClass[c]; class&plainHost == 0 {
			if class&upperHost == 0 {
				return dst[:start], false
			}
			name[i] = c | 0x20
		}
	}
	last := len(name)
	if name[last-1] == '.' {
		last--
	}
	last = bytes.LastIndexByte(name[:last], '.') + 1
	if name[last] >= '0' && name[last] <= '9' && !isDottedQuad(name) {
		return dst[:start], false
	}
	return dst, true
}

// isDottedQuad reports whether name is an IPv4 address in the standard's serialization.
func isDottedQuad(name []byte) bool {
	parts, value, digits := 0, 0, 0
	for i := 0; ; i++ {
		if i == len(name) || name[i] == '.' {
			if digits == 0 {
				return false
			}
			if parts++; i == len(name) {
				return parts == 4
			}
			value, digits = 0, 0
			continue
		}
		c := name[i]
		if c < '0' || c > '9' || digits > 0 && value == 0 {
			return false
		}
		if value = 10*value + int(c-'0'); value > 255 {
			return false
		}
		digits++
	}
}

// parse is the complete host parser for special schemes.
func (p *hostParser) parse(host string) (string, error) {
	if host[0] == '[' {
		return parseIPv6(host)
	}
	name := percentDecode(host)
	// Invalid UTF-8 becomes U+FFFD, which no host may contain, even if it would be valid together with the
	// decoded bytes after it.
	if !utf8.ValidString(host) || !utf8.ValidString(name) {
		return "", ErrParse
	}
	name, err := p.toASCII(name)
	if err != nil {
		return "", err
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("#/:<>?@[\\]^|%", c) >= 0 {
			return "", ErrParse
		}
	}
	if !endsInNumber(name) {
		return name, nil
	}
	return parseIPv4(name)
}

// toASCII is the standard's "domain to ASCII" without beStrict. It only lower-cases ASCII names, even those
// with labels in valid or invalid punycode. Sites have names such as xn--8i7caa.famitei.net, which a strict
// punycode decoder rejects and browsers have always accepted; the standard has said so since June 2026.
func (p *hostParser) toASCII(name string) (string, error) {
	ascii := true
	for i := 0; i < len(name); i++ {
		ascii = ascii && name[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(name), nil
	}
	if p.domain == nil {
		// The rules of browsers. idna.Lookup would reject a_b.example, ab--cd.example and -a.example.
		p.domain = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
			idna.CheckHyphens(false), idna.BidiRule(), idna.CheckJoiners(true), idna.VerifyDNSLength(false))
	}
	name, err := p.domain.ToASCII(mapNewer(name))
	if err != nil || name == "" {
		return "", ErrParse
	}
	return name, nil
}

// endsInNumber is the standard's "ends in a number checker" for lower-case ASCII.
func endsInNumber(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	digits, hex := true, strings.HasPrefix(last, "0x")
	for i := 0; i < len(last); i++ {
		digits = digits && last[i] >= '0' && last[i] <= '9'
		hex = hex && (i < 2 || isHexDigit(last[i]))
	}
	return digits || hex
}

func isHexDigit(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// percentDecode decodes every %XX. Other percent signs stay.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHexDigit(s[i+1]) && isHexDigit(s[i+2]) {
			out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
