package weburl

import (
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/width"
)

// appendTranscoded appends a query with non-ASCII characters, percent-encoded in the page's encoding: the
// standard's "percent-encode after encoding". A character that the encoding lacks becomes a numeric
// character reference.
func (r *Resolver) appendTranscoded(dst []byte, enc encoding.Encoding, query []byte) []byte {
	e := &r.encoder
	e.set(enc)
	for i := 0; i < len(query); {
		char, size := utf8.DecodeRune(query[i:])
		i += size
		out, ok := e.encode(char)
		dst = appendQueryBytes(dst, out)
		if !ok {
			if e.shifts && isShift(char) {
				char = utf8.RuneError
			}
			dst = strconv.AppendInt(append(dst, "%26%23"...), int64(char), 10)
			dst = append(dst, "%3B"...)
		}
	}
	return appendQueryBytes(dst, e.end())
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

// queryEncoder encodes characters as the Encoding standard specifies. x/text's encoders also encode
// characters that only decoders should know, for instance of JIS X 0212 and the Hong Kong supplement, and do
// not know the yen sign.
type queryEncoder struct {
	enc     encoding.Encoding
	encoder *encoding.Encoder
	shifts  bool   // ISO-2022-JP
	state   string // escape sequence in force in ISO-2022-JP; "" is shiftASCII
	out     []byte // result of the last encode
	ibm     map[rune][]byte
}

// The escape sequences of ISO-2022-JP.
const (
	shiftASCII = "\x1B(B"
	shiftRoman = "\x1B(J"
	shiftJIS   = "\x1B$B"
)

func isShift(char rune) bool { return char == 0x0E || char == 0x0F || char == 0x1B }

// set begins a text in the given encoding.
func (e *queryEncoder) set(enc encoding.Encoding) {
	if e.enc != enc {
		e.enc, e.encoder, e.shifts = enc, enc.NewEncoder(), enc == japanese.ISO2022JP
	}
	e.state = ""
}

// encode returns the bytes of a character, valid until the next call. ok is false if the encoding lacks it;
// the returned bytes then precede its replacement.
func (e *queryEncoder) encode(char rune) (out []byte, ok bool) {
	e.out = e.out[:0]
	switch {
	case e.shifts:
		ok = e.encodeShifting(char)
		return e.out, ok
	case char < utf8.RuneSelf:
		e.out = append(e.out, byte(char))
		return e.out, true
	case e.enc == japanese.ShiftJIS || e.enc == japanese.EUCJP:
		switch char {
		case 0x80:
			if e.enc == japanese.ShiftJIS {
				return append(e.out, 0x80), true
			}
		case 0xA5:
			return append(e.out, '\\'), true
		case 0x203E:
			return append(e.out, '~'), true
		case 0x2212:
			char = 0xFF0D
		}
	}
	out = e.library(char)
	if out == nil {
		return nil, false
	}
	switch {
	case e.enc == japanese.EUCJP && out[0] == 0x8F: // JIS X 0212
		return nil, false
	case e.enc == japanese.ShiftJIS && (out[0] == 0xED || out[0] == 0xEE):
		return e.ibmExtension(char, out), true
	case e.enc == traditionalchinese.Big5:
		if code := big5Choice(char); code != 0 {
			out[0], out[1] = byte(code>>8), byte(code)
		}
		if out[0] < 0xA1 { // of the Hong Kong supplement
			return nil, false
		}
	case len(out) == 4 && char == 0xE5E5: // GB18030 does not decode it
		return nil, false
	}
	return out, true
}

// library returns x/text's encoding of a character, or nil.
func (e *queryEncoder) library(char rune) []byte {
	out, err := e.encoder.Bytes(utf8.AppendRune(nil, char))
	if err != nil || len(out) == 0 {
		return nil
	}
	return out
}

// ibmExtension returns the second of two Shift_JIS codes for characters of NEC and IBM. The standard uses
// the second.
func (e *queryEncoder) ibmExtension(char rune, first []byte) []byte {
	if e.ibm == nil {
		e.ibm = make(map[rune][]byte)
		decoder := japanese.ShiftJIS.NewDecoder()
		for code := 0xFA40; code <= 0xFC4B; code++ {
			pair := []byte{byte(code >> 8), byte(code)}
			if text, err := decoder.Bytes(pair); err == nil {
				if r, size := utf8.DecodeRune(text); r != utf8.RuneError && size == len(text) {
					e.ibm[r] = pair
				}
			}
		}
	}
	if out, ok := e.ibm[char]; ok {
		return out
	}
	return first
}

// encodeShifting is the encoder of ISO-2022-JP. It appends to out.
func (e *queryEncoder) encodeShifting(char rune) (ok bool) {
	roman := char == 0xA5 || char == 0x203E
	switch {
	case isShift(char):
		if e.state == shiftJIS {
			e.shift(shiftASCII)
		}
		return false
	case char < utf8.RuneSelf:
		if e.state == shiftJIS || char == '\\' || char == '~' {
			e.shift(shiftASCII)
		}
		e.out = append(e.out, byte(char))
		return true
	case roman:
		e.shift(shiftRoman)
		e.out = append(e.out, map[rune]byte{0xA5: '\\', 0x203E: '~'}[char])
		return true
	case char == 0x2212:
		char = 0xFF0D
	case char >= 0xFF61 && char <= 0xFF9F:
		char, _ = utf8.DecodeRuneInString(width.Widen.String(string(char)))
	}
	const around = len(shiftJIS) + len(shiftASCII)
	out := e.library(char)
	if len(out) != around+2 || string(out[:len(shiftJIS)]) != shiftJIS {
		if e.state == shiftJIS {
			e.shift(shiftASCII)
		}
		return false
	}
	e.shift(shiftJIS)
	e.out = append(e.out, out[len(shiftJIS):len(shiftJIS)+2]...)
	return true
}

// shift appends an escape sequence to out unless it is in force.
func (e *queryEncoder) shift(to string) {
	if e.state == to || e.state == "" && to == shiftASCII {
		return
	}
	e.state = to
	e.out = append(e.out, to...)
}

// end returns the bytes that end a text.
func (e *queryEncoder) end() []byte {
	e.out = e.out[:0]
	if e.shifts {
		e.shift(shiftASCII)
	}
	return e.out
}

// big5Choice returns the code of a character that Big5 has twice and for which x/text chooses the wrong one:
// the standard uses the first that is not in the Hong Kong supplement. It returns 0 for other characters.
func big5Choice(char rune) uint16 {
	switch char {
	case 0x256D:
		return 0xA27E
	case 0x256E:
		return 0xA2A1
	case 0x256F:
		return 0xA2A3
	case 0x2570:
		return 0xA2A2
	case 0x3003:
		return 0xA1B2
	case 0x4EDD:
		return 0xC6DF
	case 0x5029:
		return 0xADC5
	case 0x507D:
		return 0xB0B0
	case 0x5305:
		return 0xA55D
	case 0x5344:
		return 0xA2CD
	case 0x537F:
		return 0xADEB
	case 0x5A77:
		return 0xB440
	case 0x5E75:
		return 0xC9DB
	case 0x5EF4:
		return 0xC6CF
	case 0x5F58:
		return 0xD8F4
	case 0x6490:
		return 0xBCB5
	case 0x65E0:
		return 0xC6D3
	case 0x6674:
		return 0xB4B8
	case 0x675E:
		return 0xA7FB
	case 0x6C9C:
		return 0xCB58
	case 0x6E1D:
		return 0xB4FC
	case 0x6E2F:
		return 0xB4E4
	case 0x716E:
		return 0xB54E
	case 0x745C:
		return 0xB7EC
	case 0x74E9:
		return 0xA260
	case 0x7676:
		return 0xC6D5
	case 0x7809:
		return 0xCFF1
	}
	return 0
}
