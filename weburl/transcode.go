package weburl

import (
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// appendTranscoded appends a query with non-ASCII characters in the page's encoding, percent-encoded: the
// standard's "percent-encode after encoding". What the encoding lacks becomes a numeric character reference.
func (r *Resolver) appendTranscoded(dst []byte, enc encoding.Encoding, query []byte) []byte {
	if r.encodes != enc {
		r.encoder, r.encodes = enc.NewEncoder(), enc
	}
	if utf8.Valid(query) {
		// At once, so that an encoding with shift states writes as few of them as it can.
		if out, err := r.encoder.Bytes(query); err == nil {
			return appendQueryBytes(dst, out)
		}
	}
	for i := 0; i < len(query); {
		if query[i] < utf8.RuneSelf {
			dst = appendQueryBytes(dst, query[i:i+1])
			i++
			continue
		}
		char, size := utf8.DecodeRune(query[i:])
		text := query[i : i+size]
		if char == utf8.RuneError {
			text = []byte("\uFFFD")
		}
		if out, err := r.encoder.Bytes(text); err == nil {
			dst = appendQueryBytes(dst, out)
		} else {
			dst = strconv.AppendInt(append(dst, "%26%23"...), int64(char), 10)
			dst = append(dst, "%3B"...)
		}
		i += size
	}
	return dst
}

func appendQueryBytes(dst, s []byte) []byte {
	for _, c := range s {
		if byteClass[c]&encodedInQuery != 0 {
			dst = appendPercent(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
