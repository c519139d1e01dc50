package export

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

// CDX is one file of lines of 11 fields, index.cdx, or Options.Stream: the format of OutbackCDX and OpenWayback. Its
// first line names the fields: N key, b time, a URL, m media type, s status, k digest, r redirect, M robot flags (we
// have none), S and V length and offset of the record, g name of the WARC file. A field without a value is "-". The
// format has no place for what else CDXJ says: truncated, simhash, type.
const CDX tabular.Format = "cdx"

const (
	cdxHeader = " CDX N b a m s k r M S V g" // sorts before all lines
	cdxName   = "index.cdx"
)

// appendCDX appends the CDX line of an index line that has been parsed as x, without a newline.
func appendCDX(dst, line []byte, x *warc.Indexed) []byte {
	dst = append(dst, keyOf(line)...)
	for _, field := range []string{x.URL, x.MIME, strconv.Itoa(x.Status), strings.TrimPrefix(x.Digest, "sha1:"),
		x.Redirect, "", strconv.FormatInt(x.Length, 10), strconv.FormatInt(x.Offset, 10), x.File} {
		dst = appendCDXField(append(dst, ' '), field)
	}
	return dst
}

// appendCDXField appends a field, which must have no blank: whatever is not printable ASCII is percent-encoded. A
// character up to U+00FF stands for the byte that the site sent.
func appendCDXField(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	if s == "" {
		return append(dst, '-')
	}
	for _, r := range s {
		if r > ' ' && r < 0x7f {
			dst = append(dst, byte(r))
			continue
		}
		var buf [utf8.UTFMax]byte
		b := append(buf[:0], byte(r))
		if r > 0xff {
			b = utf8.AppendRune(buf[:0], r)
		}
		for _, c := range b {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// appendReplayKey appends an index line with its key as replay tools make it. They know no addresses: the numbers of an
// IPv4 address are in reverse order, as if they were labels. The Python library surt, hence pywb, also leaves out the
// brackets of an IPv6 address, which plain asks for; replayweb.page keeps them.
func appendReplayKey(dst, line []byte, plain bool) []byte {
	if plain && len(line) > 0 && line[0] == '[' {
		if end := bytes.IndexByte(line, ']'); end > 0 {
			return append(append(dst, line[1:end]...), line[end+1:]...)
		}
	}
	end := bytes.IndexAny(line, "): ")
	if end < len("0.0.0.0") || end > len("255.255.255.255") {
		return append(dst, line...)
	}
	addr, err := netip.ParseAddr(string(line[:end]))
	if err != nil || !addr.Is4() {
		return append(dst, line...)
	}
	n := addr.As4()
	for i := len(n) - 1; i >= 0; i-- {
		dst = strconv.AppendUint(dst, uint64(n[i]), 10)
		if i > 0 {
			dst = append(dst, ',')
		}
	}
	return append(dst, line[end:]...)
}
