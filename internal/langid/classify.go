package langid

import (
	"bytes"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxCount is the number of times that an n-gram counts in a text.
	maxCount = 31
	// maxSum is how many weights of a byte fit into a sum of 16 bits.
	maxSum = math.MaxUint16 / math.MaxUint8
	// even has the bytes 0, 2, 4 and 6 of a word.
	even = 0x00ff00ff00ff00ff
)

// scratch is what a detection needs: the n-grams of a text, by the number of times that each is in it.
type scratch struct {
	count []uint8 // of each n-gram
	seen  []uint32
	by    [maxCount + 1][]uint32
	text  []byte
	score [classes]float32
}

var pool = sync.Pool{New: func() any { return &scratch{count: make([]uint8, len(get().weight))} }}

// classify returns the language of a text in UTF-8, and its probability among the languages of the model. A text
// without n-grams of the model is Undetermined.
func (m *model) classify(text []byte) (code string, probability float64) {
	s := pool.Get().(*scratch)
	defer pool.Put(s)
	text = s.normal(text)
	s.countGrams(m, text)
	if len(s.seen) == 0 {
		return Undetermined, 0
	}
	s.sum(m)
	// The scores of a long text are further apart than its evidence, since its n-grams depend on each other: py3langid
	// divides them by the root of the length.
	scale := float64(1 / math.Sqrt(float64(len(text))))
	best, total := 0, 0.0
	for c := range m.codes {
		if s.score[c] > s.score[best] {
			best = c
		}
	}
	for c := range m.codes {
		p := math.Exp(float64(s.score[c]-s.score[best]) * scale)
		total += p
		if m.codes[c] == m.codes[best] {
			probability += p
		}
	}
	return m.codes[best], probability / total
}

// normal returns a text in normalization form C, in lower case if it has no lower case: as the model was trained.
func (s *scratch) normal(text []byte) []byte {
	upper := false
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if unicode.IsLower(r) {
			upper = false
			break
		}
		upper = upper || unicode.IsUpper(r)
		i += n
	}
	if upper {
		text = bytes.ToLower(text)
	}
	if norm.NFC.IsNormal(text) {
		return text
	}
	s.text = norm.NFC.Append(s.text[:0], text...)
	return s.text
}

// countGrams counts the n-grams of a text: at each byte the longest that ends there.
func (s *scratch) countGrams(m *model, text []byte) {
	s.seen = s.seen[:0]
	state := uint32(0)
	for _, b := range text {
		state = m.move(state, b)
		g := m.gram[state]
		if g < 0 {
			continue
		}
		if s.count[g] == 0 {
			s.seen = append(s.seen, uint32(g))
		}
		s.count[g] = min(s.count[g]+1, maxCount)
	}
	for _, g := range s.seen {
		n := s.count[g]
		s.by[n] = append(s.by[n], g)
		s.count[g] = 0
	}
}

// sum computes the score of each class: its prior, and for each n-gram its weight times ln(1+count).
func (s *scratch) sum(m *model) {
	copy(s.score[:], m.prior)
	for n := range s.by {
		factor := m.step * float32(math.Log1p(float64(n)))
		for grams := s.by[n]; len(grams) > 0; {
			k := min(len(grams), maxSum)
			var low, high [words]uint64 // four sums of 16 bits each: of the even bytes, and of the odd ones
			for _, g := range grams[:k] {
				row := &m.weight[g]
				for i, w := range row {
					low[i] += w & even
					high[i] += w >> 8 & even
				}
			}
			for i := range words {
				for j := range 4 {
					s.score[8*i+2*j] += factor * float32(uint16(low[i]>>(16*j)))
					s.score[8*i+2*j+1] += factor * float32(uint16(high[i]>>(16*j)))
				}
			}
			grams = grams[k:]
		}
		s.by[n] = s.by[n][:0]
	}
}
