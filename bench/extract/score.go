package extract

import (
	"strings"
	"unicode"
)

// score is how far a text agrees with the truth. Each figure is from 0 to 1.
type score struct {
	precision, recall, f1 float64
	with, without         float64 // shares of these snippets that are in the text
}

// harmonic returns the harmonic mean.
func harmonic(precision, recall float64) float64 {
	if precision+recall == 0 {
		return 0
	}
	return 2 * precision * recall / (precision + recall)
}

// isWord reports whether a character is one of \w in Python.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// wordsOf returns the runs of word characters of a text.
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) })
}

// shingleWords is the length of a shingle.
const shingleWords = 4

// shinglesOf returns the shingles of a text; a text of fewer words is one.
func shinglesOf(text string) []string {
	words := wordsOf(text)
	var list []string
	for i := 0; i == 0 && len(words) > 0 || i+shingleWords <= len(words); i++ {
		list = append(list, strings.Join(words[i:min(i+shingleWords, len(words))], " "))
	}
	return list
}

// overlap returns the size of the intersection of two multisets.
func overlap(a, b []string) int {
	left := make(map[string]int, len(b))
	for _, item := range b {
		left[item]++
	}
	n := 0
	for _, item := range a {
		if left[item] > 0 {
			left[item]--
			n++
		}
	}
	return n
}

// compare returns precision, recall and F1 of a multiset. Of two empty ones all are 1, of one empty one 0.
func compare(got, want []string) score {
	if len(got) == 0 && len(want) == 0 {
		return score{precision: 1, recall: 1, f1: 1}
	}
	var s score
	if n := float64(overlap(got, want)); n > 0 {
		s.precision, s.recall = n/float64(len(got)), n/float64(len(want))
	}
	s.f1 = harmonic(s.precision, s.recall)
	return s
}

// share returns the share of snippets that are in a text, whatever their case; 1 if there are none.
func share(text string, snippets []string) float64 {
	if len(snippets) == 0 {
		return 1
	}
	text = strings.ToLower(text)
	n := 0
	for _, s := range snippets {
		if strings.Contains(text, strings.ToLower(s)) {
			n++
		}
	}
	return float64(n) / float64(len(snippets))
}

// judge compares the main text of a page with the truth.
func (c *corpus) judge(p *page, text string) score {
	if c.shingled {
		return compare(shinglesOf(text), shinglesOf(p.Main))
	}
	s := compare(wordsOf(strings.ToLower(text)), wordsOf(strings.ToLower(p.Main)))
	s.with, s.without = share(text, p.With), share(text, p.Without)
	return s
}
