package export

import (
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
	dst = append(dst, warc.LineKey(line)...)
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
