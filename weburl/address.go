package weburl

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// parseIPv4 is the standard's IPv4 parser: one to four numbers in decimal, octal or hexadecimal, the last of
// which fills the remaining bytes. host must be in lower case.
func parseIPv4(host string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return "", ErrParse
	}
	var addr uint64
	for i, part := range parts {
		limit := uint64(1) << 8
		if i == len(parts)-1 {
			limit = 1 << (8 * (5 - len(parts)))
		}
		n, ok := parseIPv4Number(part, limit)
		if !ok {
			return "", ErrParse
		}
		if i == len(parts)-1 {
			addr |= n
		} else {
			addr |= n << (8 * (3 - i))
		}
	}
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], uint32(addr))
	return netip.AddrFrom4(bytes).String(), nil
}

// parseIPv4Number parses a number below limit. "0x" alone is 0.
func parseIPv4Number(part string, limit uint64) (uint64, bool) {
	base, digits := uint64(10), part
	if rest, ok := strings.CutPrefix(part, "0x"); ok {
		base, digits = 16, rest
	} else if len(part) >= 2 && part[0] == '0' {
		base, digits = 8, part[1:]
	}
	if part == "" {
		return 0, false
	}
	n := uint64(0)
	for i := 0; i < len(digits); i++ {
		if !isHexDigit(digits[i]) || uint64(unhex(digits[i])) >= base {
			return 0, false
		}
		if n = n*base + uint64(unhex(digits[i])); n >= limit {
			return 0, false
		}
	}
	return n, true
}

// parseIPv6 combines the standard's IPv6 parser, for a host that starts with '[', and its serializer: lower
// case, the first longest run of two or more zero pieces compressed, no dotted tail.
func parseIPv6(host string) (string, error) {
	if len(host) < 2 || host[len(host)-1] != ']' || strings.IndexByte(host, '%') >= 0 {
		return "", ErrParse // the standard has no zones
	}
	addr, err := netip.ParseAddr(host[1 : len(host)-1])
	if err != nil || !addr.Is6() {
		return "", ErrParse
	}
	bytes := addr.As16()
	var pieces [8]uint64
	for i := range pieces {
		pieces[i] = uint64(bytes[2*i])<<8 | uint64(bytes[2*i+1])
	}
	skip, skipped := -1, 1
	for i := 0; i < len(pieces); i++ {
		run := i
		for run < len(pieces) && pieces[run] == 0 {
			run++
		}
		if run-i > skipped {
			skip, skipped = i, run-i
		}
		i = max(i, run-1)
	}
	out := []byte{'['}
	for i := 0; i < len(pieces); i++ {
		if i == skip {
			out = append(out, "::"...)
			i += skipped - 1
			continue
		}
		if i > 0 && out[len(out)-1] != ':' {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, pieces[i], 16)
	}
	return string(append(out, ']')), nil
}
