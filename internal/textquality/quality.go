package textquality

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"drumbeat/internal/pagetext"
)

// Stats are the measures of a text. Shares are from 0 to 1, and 0 in a text without words.
type Stats struct {
	Words           int64   // Gopher keeps 50 to 100,000
	MeanWordLength  float64 // characters; Gopher keeps 3 to 10
	AlphabeticWords float64 // share of words with a letter; Gopher keeps from 0.8 on
	SymbolsPerWord  float64 // # and ellipses, the more frequent of the two; Gopher keeps up to 0.1
	GopherStopWords int64   // how many of eight English words occur; Gopher keeps from 2 on
	StopWords       float64 // share of words that are stop words of the language; -1: there is no list of it

	Lines           int64   // that are not empty
	BulletLines     float64 // share of lines that begin with a bullet; Gopher keeps up to 0.9
	EllipsisLines   float64 // share of lines that end with an ellipsis; Gopher keeps up to 0.3
	PunctuatedLines float64 // share of lines that end as sentences do (C4); FineWeb: above 0.12
	ShortLines      float64 // share of lines of up to 30 characters; FineWeb keeps below 0.67

	DuplicateLines     float64 // share of lines that are equal to an earlier one; Gopher keeps up to 0.3
	DuplicateLineChars float64 // share of characters in them; Gopher keeps up to 0.2, FineWeb below 0.1

	// TopNGrams are the shares of characters in the most frequent 2-gram, 3-gram and 4-gram that occurs twice or more;
	// Gopher keeps up to 0.2, 0.18 and 0.16.
	TopNGrams [leastDuplicate - leastTop]float64
	// DuplicateNGrams are the shares of characters in 5-grams to 10-grams that occurred before; Gopher keeps up to
	// 0.15, 0.14, 0.13, 0.12, 0.11 and 0.1.
	DuplicateNGrams [mostGram + 1 - leastDuplicate]float64

	CurlyBracket bool // the text has one; C4 leaves it out
	LoremIpsum   bool // the text has these words; C4 leaves it out
}

const (
	leastTop       = 2 // words of the shortest n-gram
	leastDuplicate = 5 // of the shortest one of DuplicateNGrams
	mostGram       = 10

	shortLine = 30      // characters
	maxWords  = 1 << 17 // that n-grams are made of
	maxLines  = 1 << 17 // that are compared
)

// terminal has the marks that end a sentence, quotation marks included, as in C4.
const terminal = ".!?\"'”’»。！？」』।۔؟።།"

// Meter measures one text after another. It belongs to one goroutine. The zero value is usable.
type Meter struct {
	// seed is secret, so that no page can have words whose hashes share a slot. The measures do not depend on it.
	seed    maphash.Seed
	words   []word
	grams   []uint64
	seen    table
	lowered []byte
	counts
}

// word is a word of an n-gram.
type word struct {
	hash uint64
	len  int32 // characters
}

// counts are the numbers of the text so far.
type counts struct {
	total, chars, alphabetic, hashes, ellipses, stops  int64
	lines, bullets, trailing, punctuated, short, again int64
	lineChars, againChars                              int64
	gopher                                             uint8 // a bit for each of the eight
}

// Measure measures a text in a language (ISO 639-3).
func (m *Meter) Measure(text []byte, language string) (s Stats) {
	if m.seed == (maphash.Seed{}) {
		m.seed = maphash.MakeSeed()
	}
	stops := stopWords[language]
	m.counts, m.words = counts{}, m.words[:0]
	m.seen.reset(min(bytes.Count(text, []byte{'\n'})+1, maxLines))
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			m.line(line, stops)
		}
	}
	s.Words, s.Lines = m.total, m.lines
	s.MeanWordLength = share(m.chars, m.total)
	s.AlphabeticWords = share(m.alphabetic, m.total)
	s.SymbolsPerWord = share(max(m.hashes, m.ellipses), m.total)
	s.GopherStopWords = int64(bits.OnesCount8(m.gopher))
	if s.StopWords = -1; stops != nil {
		s.StopWords = share(m.stops, m.total)
	}
	s.BulletLines = share(m.bullets, m.lines)
	s.EllipsisLines = share(m.trailing, m.lines)
	s.PunctuatedLines = share(m.punctuated, m.lines)
	s.ShortLines = share(m.short, m.lines)
	s.DuplicateLines = share(m.again, m.lines)
	s.DuplicateLineChars = share(m.againChars, m.lineChars)
	m.repetition(&s)
	s.CurlyBracket = bytes.ContainsAny(text, "{}")
	s.LoremIpsum = containsFold(text, "lorem ipsum")
	return s
}

// share returns n/of; 0 if of is 0.
func share(n, of int64) float64 { return float64(n) / float64(max(1, of)) }

// line counts a line.
func (m *Meter) line(line []byte, stops map[string]bool) {
	n := int64(utf8.RuneCount(line))
	m.lines++
	m.lineChars += n
	if n <= shortLine {
		m.short++
	}
	first, _ := utf8.DecodeRune(line)
	switch first {
	case '•', '‣', '◦', '▪', '●', '·', '∙', '-', '*', '–':
		m.bullets++
	}
	switch last, _ := utf8.DecodeLastRune(line); {
	case last == '…', bytes.HasSuffix(line, []byte("...")):
		m.trailing++ // which is no end of a sentence in C4 either
	case strings.ContainsRune(terminal, last):
		m.punctuated++
	}
	m.hashes += int64(bytes.Count(line, []byte{'#'}))
	m.ellipses += int64(bytes.Count(line, []byte("...")) + bytes.Count(line, []byte("…")))
	if m.lines <= maxLines && m.seen.add(maphash.Bytes(m.seed, line)) > 1 {
		m.again++
		m.againChars += n
	}
	m.split(line, stops)
}

// split counts the words of a line.
func (m *Meter) split(line []byte, stops map[string]bool) {
	start, chars, letter := 0, int32(0), false
	end := func(to int) {
		if chars > 0 {
			m.word(line[start:to], chars, letter, stops)
		}
		chars, letter = 0, false
	}
	for i := 0; i < len(line); {
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		switch {
		case r == ' ' || r == '\t' || r >= utf8.RuneSelf && unicode.IsSpace(r):
			end(i)
		case r >= utf8.RuneSelf && pagetext.Unspaced(r) > 0:
			end(i)
			m.word(line[i:i+size], 1, unicode.IsLetter(r), stops)
		default:
			if chars == 0 {
				start = i
			}
			chars++
			letter = letter || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= utf8.RuneSelf && unicode.IsLetter(r)
		}
		i += size
	}
	end(len(line))
}

// word counts a word.
func (m *Meter) word(text []byte, chars int32, letter bool, stops map[string]bool) {
	m.total++
	m.chars += int64(chars)
	if len(m.words) < maxWords {
		m.words = append(m.words, word{hash: maphash.Bytes(m.seed, text), len: chars})
	}
	if !letter {
		return
	}
	m.alphabetic++
	if len(text) > longestStopWord {
		return
	}
	text = bytes.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	m.lowered = m.lowered[:0]
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if text = text[size:]; r == '’' {
			r = '\''
		}
		m.lowered = utf8.AppendRune(m.lowered, unicode.ToLower(r))
	}
	if stops[string(m.lowered)] {
		m.stops++
	}
	m.gopher |= gopherWords[string(m.lowered)]
}

// repetition measures the n-grams.
func (m *Meter) repetition(s *Stats) {
	m.grams = m.grams[:0]
	chars := int64(0)
	for _, w := range m.words {
		m.grams = append(m.grams, w.hash)
		chars += int64(w.len)
	}
	for n := leastTop; n <= mostGram && n <= len(m.words); n++ {
		m.grams = m.grams[:len(m.words)-n+1]
		for i := range m.grams {
			m.grams[i] = mix(m.grams[i], m.words[i+n-1].hash)
		}
		m.seen.reset(len(m.grams))
		if n < leastDuplicate {
			s.TopNGrams[n-leastTop] = min(1, share(m.top(n), chars))
		} else {
			s.DuplicateNGrams[n-leastDuplicate] = share(m.duplicate(n), chars)
		}
	}
}

// top returns the number of characters in the most frequent n-gram; of two equally frequent ones, in the longer one.
// It is 0 if each occurs once.
func (m *Meter) top(n int) int64 {
	most, longest := int32(1), int64(0)
	for i, g := range m.grams {
		if times := m.seen.add(g); times >= most && times > 1 {
			if chars := m.gramChars(i, n); times > most || chars > longest {
				most, longest = times, chars
			}
		}
	}
	return int64(most) * longest
}

// duplicate returns the number of characters in n-grams that occurred before, none of them counted twice.
func (m *Meter) duplicate(n int) (chars int64) {
	for i := 0; i < len(m.grams); i++ {
		if m.seen.add(m.grams[i]) > 1 {
			chars += m.gramChars(i, n)
			i += n - 1
		}
	}
	return chars
}

func (m *Meter) gramChars(i, n int) (chars int64) {
	for _, w := range m.words[i : i+n] {
		chars += int64(w.len)
	}
	return chars
}

// mix returns a hash of two numbers, as in wyhash.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD1B54A32D192ED03)
	return hi ^ lo
}

// table counts hashes. Its slots are those of the largest text so far, and an emptied one costs nothing.
type table struct {
	slots []slot
	mask  uint64
	round uint32
}

type slot struct {
	hash  uint64
	times int32
	round uint32 // the slot is empty if it is of another round
}

// reset empties the table, which takes up to n hashes then.
func (t *table) reset(n int) {
	size := 1 << bits.Len(uint(2*n))
	if t.round++; size > len(t.slots) || t.round == 0 {
		t.slots, t.round = make([]slot, max(size, len(t.slots))), 1
	}
	t.mask = uint64(size - 1)
}

// add counts a hash, and returns its number.
func (t *table) add(hash uint64) int32 {
	for i := hash & t.mask; ; i = (i + 1) & t.mask {
		switch s := &t.slots[i]; {
		case s.round != t.round:
			*s = slot{hash, 1, t.round}
			return 1
		case s.hash == hash:
			s.times++
			return s.times
		}
	}
}
