package langid

import (
	"unicode"
	"unicode/utf8"
)

const (
	// Undetermined is the code of ISO 639-3 for a text whose language is not known.
	Undetermined = "und"
	// NoLanguage is its code for what is in no language: numbers, part numbers, markup, noise.
	NoLanguage = "zxx"
)

const (
	// pieces and pieceBytes are how much of a text is read: at its beginning, in its middle and at its end.
	pieces     = 3
	pieceBytes = 512
	// leastLetters is the length of a text below which n-grams say nothing.
	leastLetters = 20
	// leastNoise is the length of a text, in bytes, that has a language if it has leastLetters.
	leastNoise = 10 * leastLetters
	// leastConfidence is where an answer counts.
	leastConfidence = 0.2
	// A Chinese, Japanese or Korean character says as much as this many letters.
	ideographLetters = 2
	// A text is Japanese if this share of its Han and kana is kana: Japanese has particles in kana.
	leastKana = 0.02
)

// scripts are the blocks of Unicode of scripts that one language writes, and that the model does not know.
var scripts = [...]struct {
	first, last rune
	code        string
}{
	{0x700, 0x74f, "syr"}, {0x780, 0x7bf, "div"}, {0x7c0, 0x7ff, "nqo"}, {0x13a0, 0x13ff, "chr"},
	{0x1c50, 0x1c7f, "sat"}, {0x2d30, 0x2d7f, "zgh"}, {0xa000, 0xa4cf, "iii"}, {0xa4d0, 0xa4ff, "lis"},
	{0xa500, 0xa63f, "vai"}, {0xab70, 0xabbf, "chr"}, {0xabc0, 0xabff, "mni"}, {0x11100, 0x1114f, "ccp"},
	{0x1e900, 0x1e95f, "ful"},
}

// Language returns the language of a text in UTF-8, such as the main text of a page, as a code of ISO 639-3 (zho for
// all Chinese but yue and wuu; macrolanguages where the model has no more), and how sure it is, from 0 to 1. It is
// safe for concurrent use, and takes less than 0.1 ms; the first call loads the model, in 0.1 s.
func Language(text []byte) (code string, confidence float64) {
	sample := sampleOf(text)
	letters, han, kana, hangul := 0, 0, 0, 0
	var rare [len(scripts)]int
	for _, r := range string(sample) {
		switch {
		case r < utf8.RuneSelf:
			if r|0x20 >= 'a' && r|0x20 <= 'z' {
				letters++
			}
		case r >= 0x3040 && r <= 0x30ff:
			kana++
		case unicode.Is(unicode.Han, r):
			han++
		case unicode.Is(unicode.Hangul, r):
			hangul++
		case unicode.IsLetter(r):
			letters++
			for i := range scripts {
				if s := &scripts[i]; r >= s.first && r <= s.last {
					rare[i]++
				}
			}
		}
	}
	// The model takes a Japanese text with few kana for Chinese, and one with many Latin names for their language.
	if n := max(han+kana, hangul); n >= 4 && ideographLetters*(han+kana+hangul) > letters {
		switch {
		case hangul > han+kana:
			return "kor", 1
		case float64(kana) >= leastKana*float64(han+kana):
			return "jpn", 1
		}
		code, confidence = get().classify(sample)
		if code == "yue" || code == "wuu" {
			return code, confidence
		}
		return "zho", 1
	}
	if letters < leastLetters {
		if len(sample) >= leastNoise {
			return NoLanguage, 1
		}
		return Undetermined, 0
	}
	for i, n := range rare {
		if 2*n > letters {
			return scripts[i].code, 1
		}
	}
	code, confidence = get().classify(sample)
	if confidence < leastConfidence {
		return Undetermined, confidence
	}
	return decide(code, confidence, sample)
}

// sampleOf returns the pieces of a text that are read.
func sampleOf(text []byte) []byte {
	if len(text) <= pieces*pieceBytes {
		return text
	}
	var sample []byte
	for i := range pieces {
		from := (len(text) - pieceBytes) / (pieces - 1) * i
		for from < len(text) && !utf8.RuneStart(text[from]) {
			from++
		}
		to := min(from+pieceBytes, len(text))
		for to < len(text) && !utf8.RuneStart(text[to]) {
			to++
		}
		sample = append(append(sample, text[from:to]...), '\n')
	}
	return sample
}
