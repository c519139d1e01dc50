package maintext

import (
	"unicode"
	"unicode/utf8"

	"drumbeat/internal/pagetext"
)

// counts are those of a text.
type counts struct {
	words  int32
	linked int32 // words in links
	digits int32 // words that begin with a digit
	stops  int32 // punctuation marks behind words
	rest   int32 // characters of a word in a script without spaces
}

// add adds the counts of a part.
func (c *counts) add(d *counts) {
	c.words += d.words
	c.linked += d.linked
	c.digits += d.digits
	c.stops += d.stops
}

// density is the share of the words that are in links.
func (c *counts) density() float64 { return share(c.linked, c.words) }

// share returns n/of; 0 if of is 0.
func share(n, of int32) float64 { return float64(n) / float64(max(1, of)) }

// count counts a text.
func (c *counts) count(text []byte, linked bool) {
	var words int32
	inWord := false
	for len(text) > 0 {
		r, size := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text)
		}
		text = text[size:]
		in := false
		switch {
		case r|0x20 >= 'a' && r|0x20 <= 'z':
			in = true
		case r >= '0' && r <= '9':
			in = true
			if !inWord {
				c.digits++
			}
		case r == '\'' || r == '-' || r == '’':
			continue
		case isStop(r):
			if inWord || r >= utf8.RuneSelf {
				c.stops++
			}
		case r < utf8.RuneSelf:
		case pagetext.Unspaced(r) > 0:
			if c.rest += 4 / pagetext.Unspaced(r); c.rest >= 4 {
				c.rest -= 4
				words++
			}
		case unicode.IsMark(r):
			continue
		default:
			in = unicode.IsLetter(r) || unicode.IsNumber(r)
		}
		if in && !inWord {
			words++
		}
		inWord = in
	}
	c.words += words
	if linked {
		c.linked += words
	}
}

// isStop reports whether a character ends a sentence or a part of it.
func isStop(r rune) bool {
	switch r {
	case '.', ',', '!', '?', ';', ':', '。', '、', '，', '！', '？', '।', '؟', '،', '؛':
		return true
	}
	return false
}
