package textquality

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWritten: measures of texts that can be counted by hand.
func TestWritten(t *testing.T) {
	for _, c := range []struct {
		name, language, text string
		want                 Stats
	}{
		{"empty", "eng", " \n\n", Stats{}},
		{"a sentence", "eng", "The cat sat with 9 dogs.", Stats{Words: 6, MeanWordLength: 19.0 / 6,
			AlphabeticWords: 5.0 / 6, GopherStopWords: 2, StopWords: 2.0 / 6, Lines: 1, PunctuatedLines: 1,
			ShortLines: 1}},
		{"no list of the language", "und", "{x} # … lorem  IPSUM...", Stats{Words: 5, MeanWordLength: 18.0 / 5,
			AlphabeticWords: 3.0 / 5, SymbolsPerWord: 2.0 / 5, StopWords: -1, Lines: 1, EllipsisLines: 1,
			ShortLines: 1, CurlyBracket: true}},
		{"lorem ipsum", "und", "loLorem ipsum", Stats{Words: 2, MeanWordLength: 6, AlphabeticWords: 1, StopWords: -1,
			Lines: 1, ShortLines: 1, LoremIpsum: true}},
		{"lines", "eng", "• one\n- two\n\n• one\nthirty-one characters are longer\n", Stats{Words: 10,
			MeanWordLength: 41.0 / 10, AlphabeticWords: 7.0 / 10, StopWords: 1.0 / 10, Lines: 4, BulletLines: 3.0 / 4,
			ShortLines: 3.0 / 4, DuplicateLines: 1.0 / 4, DuplicateLineChars: 5.0 / 47,
			// "• one" twice, of 4 characters each
			TopNGrams: [3]float64{8.0 / 41}}},
		{"repetition", "und", strings.Repeat("aa b c d e f ", 3) + "end", Stats{Words: 19, MeanWordLength: 24.0 / 19,
			AlphabeticWords: 1, StopWords: -1, Lines: 1,
			// "aa b", "aa b c" and "aa b c d" three times
			TopNGrams: [3]float64{9.0 / 24, 12.0 / 24, 15.0 / 24},
			// the n-gram at word 6 is the first that occurred before
			DuplicateNGrams: [6]float64{12.0 / 24, 14.0 / 24, 9.0 / 24, 10.0 / 24, 11.0 / 24, 12.0 / 24}}},
		{"Japanese", "jpn", "猫がいる。 猫。", Stats{Words: 7, MeanWordLength: 1,
			AlphabeticWords: 5.0 / 7, StopWords: -1,
			Lines: 1, PunctuatedLines: 1, ShortLines: 1}},
		{"one word", "und", strings.Repeat("a ", 9), Stats{Words: 9, MeanWordLength: 1, AlphabeticWords: 1,
			StopWords: -1, Lines: 1, ShortLines: 1, TopNGrams: [3]float64{1, 1, 1},
			DuplicateNGrams: [6]float64{5.0 / 9, 6.0 / 9, 7.0 / 9, 8.0 / 9}}},
		{"German", "deu", "Der Hund und „die“ Katze.\nÜber «sie» hinaus…", Stats{Words: 8, MeanWordLength: 37.0 / 8,
			AlphabeticWords: 1, SymbolsPerWord: 1.0 / 8, StopWords: 5.0 / 8, Lines: 2, EllipsisLines: 0.5,
			PunctuatedLines: 0.5, ShortLines: 1}},
	} {
		var m Meter
		for range 2 { // the second one finds full tables
			if got := m.Measure([]byte(c.text), c.language); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
			}
		}
	}
}

// TestStopWords: each list has words that everyone knows.
func TestStopWords(t *testing.T) {
	for code, word := range map[string]string{"dan": "ikke", "deu": "nicht", "eng": "don't", "fin": "ovat",
		"fra": "été", "hun": "hogy", "ita": "perché", "nld": "niet", "nor": "ikke", "por": "não",
		"rus": "что", "spa": "también", "swe": "inte"} {
		if !stopWords[code][word] {
			t.Errorf("%s lacks %s", code, word)
		}
	}
	if len(stopWords) != 13 {
		t.Errorf("%d lists", len(stopWords))
	}
	for code, list := range stopWords {
		for word := range list {
			if len(word) > longestStopWord || !utf8.ValidString(word) {
				t.Errorf("%s: %q", code, word)
			}
		}
	}
}

// TestHostile: a text of one repeated word, or of a million distinct ones, is measured within the bounds.
func TestHostile(t *testing.T) {
	var m Meter
	s := m.Measure(bytes.Repeat([]byte("x "), 1<<20), "eng")
	if s.Words != 1<<20 || s.TopNGrams[0] != 1 || math.Abs(s.DuplicateNGrams[0]-1) > 1e-3 {
		t.Errorf("%+v", s)
	}
	var text []byte
	for i := range 1 << 20 {
		text = append(text, byte('a'+i%16), byte('a'+i/16%16), byte('a'+i/256%16), byte('a'+i/4096%16),
			byte('a'+i/65536), '\n')
	}
	s = m.Measure(text, "eng")
	if s.Words != 1<<20 || s.Lines != 1<<20 || s.DuplicateLines != 0 || s.DuplicateNGrams != [6]float64{} {
		t.Errorf("%+v", s)
	}
	if n := len(m.seen.slots); n > 4*maxWords || cap(m.words) > 2*maxWords {
		t.Errorf("%d slots, %d words", n, cap(m.words))
	}
}

// FuzzMeasure: each text has shares from 0 to 1, the same ones with every seed.
func FuzzMeasure(f *testing.F) {
	f.Add([]byte("\xff … \u0301 #\n- \u00a0x\r\nлорем Ipsum lorem ipsum"))
	f.Add([]byte("a b a b a b a b a b a b a b a b a b a b\na b a b…"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m, other Meter
		s := m.Measure(text, "eng")
		if again := other.Measure(text, "eng"); !reflect.DeepEqual(s, again) {
			t.Errorf("%+v, then %+v", s, again)
		}
		shares := append(s.TopNGrams[:], s.AlphabeticWords, s.StopWords, s.BulletLines, s.EllipsisLines,
			s.PunctuatedLines, s.ShortLines, s.DuplicateLines, s.DuplicateLineChars)
		for _, v := range append(shares, s.DuplicateNGrams[:]...) {
			if !(v >= 0 && v <= 1) {
				t.Errorf("%f in %+v", v, s)
			}
		}
	})
}

// BenchmarkMeasure measures the text of a page of 30 KB with few tags: 20 KB, 3,400 words.
func BenchmarkMeasure(b *testing.B) {
	var text []byte
	for i := 0; len(text) < 20_000; i++ {
		text = append(text, "Engineers measured the bridge number "...)
		text = append(text, strings.Repeat(string(rune('a'+i%26)), i%7+1)...)
		if i%12 == 11 {
			text = append(text, ".\n"...)
		} else {
			text = append(text, ' ')
		}
	}
	var m Meter
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		m.Measure(text, "eng")
	}
}
