package textquality

import (
	"bytes"
	_ "embed"
	"strings"
)

// stopWordFile has a line for each language: its code, then the words. They are the lists of Snowball
// (https://snowballstem.org), under the licence in LICENSE.stopwords.
//
//go:embed stopwords.txt
var stopWordFile string

// stopWords has the words of a language by its code. It is read-only.
var stopWords = readStopWords(stopWordFile)

// longestStopWord bounds the words that are looked up, in bytes, with punctuation.
const longestStopWord = 40

func readStopWords(file string) map[string]map[string]bool {
	lists := map[string]map[string]bool{}
	for line := range strings.Lines(file) {
		words := strings.Fields(line)
		list := map[string]bool{}
		for _, w := range words[1:] {
			list[w] = true
		}
		lists[words[0]] = list
	}
	return lists
}

// gopherWords are the eight words of Gopher, as bits. It is read-only.
var gopherWords = map[string]uint8{"the": 1, "be": 2, "to": 4, "of": 8, "and": 16, "that": 32, "have": 64, "with": 128}

// containsFold tells whether a text has some ASCII letters in lower case, whatever its own case.
func containsFold(text []byte, lower string) bool {
	for len(text) >= len(lower) {
		i := bytes.IndexAny(text[:len(text)-len(lower)+1], lower[:1]+strings.ToUpper(lower[:1]))
		if i < 0 {
			return false
		}
		if text = text[i:]; bytes.EqualFold(text[:len(lower)], []byte(lower)) {
			return true
		}
		text = text[1:]
	}
	return false
}
