package minhash

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func sum(t testing.TB, text string) Signature {
	t.Helper()
	var s Sketch
	sig, ok := s.Sum([]byte(text))
	if !ok {
		t.Fatalf("%q has no signature", text)
	}
	return sig
}

// TestEqual: texts that differ in case, punctuation, line breaks and figures alone have equal signatures.
func TestEqual(t *testing.T) {
	want := sum(t, "Zwei Bäume, 12 Äpfel und 3,50 Euro am Tag")
	for _, text := range []string{"zwei bäume 99 ÄPFEL\nUND 7 – 10 euro (am Tag)!",
		" ZWEI-Bäume;12 äpfel und 3/45 euro am tag"} {
		if got := sum(t, text); got != want {
			t.Errorf("%q differs", text)
		}
	}
	if got := sum(t, "Zwei Bäume, 12 Äpfel und 3,50 Euro am Abend"); got == want {
		t.Error("another word, and an equal signature")
	}
}

// TestShort: a text of four words has no signature, and one of five has.
func TestShort(t *testing.T) {
	var s Sketch
	for text, want := range map[string]bool{"": false, "one two three four": false, "one two three 4 five": true,
		"猫がいる": false, "猫がいるの": true, "…!? \xff\xfe": false} {
		if _, ok := s.Sum([]byte(text)); ok != want {
			t.Errorf("%q: %t", text, ok)
		}
	}
}

// TestGolden: signatures are written to tables, so they must not change.
func TestGolden(t *testing.T) {
	sig := sum(t, "The quick brown fox jumps over the lazy dog. 猫がいる。")
	text := string(sig.AppendText(nil))
	if got, want := text[:67], goldenBands; got != want || len(text) != Bands*2*BandBytes+Bands-1 {
		t.Errorf("%d bytes, %s, want %s", len(text), got, want)
	}
}

const goldenBands = "acc3ede3d51099e93d03b68784ad0d3d b2b83b18752e83a119477d5278714d7c 2"

// pair returns two texts that share some of their words, in blocks, and the Jaccard similarity of their shingles.
func pair(r *rand.Rand, words, blocks int) (a, b string, similarity float64) {
	var one, other []string
	for range words {
		w := fmt.Sprintf("w%s", strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(3))+string(rune('a'+r.IntN(26))))
		one = append(one, w)
	}
	other = append(other, one...)
	for range blocks {
		other[r.IntN(words)] = fmt.Sprintf("x%c%c", 'a'+r.IntN(26), 'a'+r.IntN(26))
	}
	return strings.Join(one, " "), strings.Join(other, " "), jaccard(one, other)
}

// jaccard is the similarity of the sets of shingles.
func jaccard(a, b []string) float64 {
	set := func(words []string) map[string]bool {
		m := map[string]bool{}
		for i := range len(words) - ShingleWords + 1 {
			m[strings.Join(words[i:i+ShingleWords], " ")] = true
		}
		return m
	}
	x, y := set(a), set(b)
	both := 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func sharesBand(a, b *Signature) bool {
	for i := range Bands {
		if bytes.Equal(a.Band(i), b.Band(i)) {
			return true
		}
	}
	return false
}

// TestJaccard compares 4,000 pairs of texts of 400 words with their exact similarity: the mean error of the estimate,
// and the share of the pairs with an equal band in each class of similarity, which is 1-(1-s^8)^14 in theory.
func TestJaccard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type class struct {
		pairs, found     int
		near             int // found, and with an estimate from Near on
		theory, sum, sq2 float64
	}
	var classes [10]class
	for i := range 4000 {
		a, b, want := pair(r, 400, i%80)
		x, y := sum(t, a), sum(t, b)
		c := &classes[min(9, int(want*10))]
		c.pairs++
		if sharesBand(&x, &y) {
			c.found++
		}
		off := Similarity(&x, &y) - want
		if sharesBand(&x, &y) && want+off >= Near {
			c.near++
		}
		c.sum += off
		c.sq2 += off * off
		c.theory += 1 - math.Pow(1-math.Pow(want, Rows), Bands)
	}
	for i, c := range classes {
		if c.pairs < 100 {
			continue
		}
		n := float64(c.pairs)
		t.Logf("similarity %.1f to %.1f: %d pairs, with an equal band %.3f (theory %.3f), near %.3f, error of the "+
			"estimate %.4f, root of its mean square %.4f", float64(i)/10, float64(i+1)/10, c.pairs, float64(c.found)/n,
			c.theory/n, float64(c.near)/n, c.sum/n, math.Sqrt(c.sq2/n))
		if share := float64(c.near) / n; i < 6 && share > 0.02 || i >= 8 && share < 0.95 {
			t.Errorf("class %d: %.3f are near", i, share)
		}
		if d := float64(c.found)/n - c.theory/n; math.Abs(d) > 4*math.Sqrt(0.25/n) {
			t.Errorf("class %d: %d of %d found, want %.0f", i, c.found, c.pairs, c.theory)
		}
		if math.Abs(c.sum/n) > 0.01 || math.Sqrt(c.sq2/n) > 0.06 {
			t.Errorf("class %d: error %f, deviation %f", i, c.sum/n, math.Sqrt(c.sq2/n))
		}
	}
}

// TestHostile: a text of millions of words takes the time of its first ones.
func TestHostile(t *testing.T) {
	var s Sketch
	text := bytes.Repeat([]byte("語"), 4<<20)
	if _, ok := s.Sum(text); !ok || s.n != maxShingles {
		t.Errorf("%d words, %t", s.n, ok)
	}
}

// FuzzSum: each text has the same signature with other spaces, and a band is the part of its text.
func FuzzSum(f *testing.F) {
	f.Add([]byte("one two three four five six \xff \u0301 7 ไทย 猫がいる"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Sketch
		sig, ok := s.Sum(text)
		again, ok2 := new(Sketch).Sum(append([]byte(" \n"), text...))
		if ok != ok2 || sig != again || ok && Similarity(&sig, &again) != 1 {
			t.Errorf("%q: other signatures", text)
		}
		bands := strings.Split(string(sig.AppendText(nil)), " ")
		for i := range Bands {
			if fmt.Sprintf("%x", sig.Band(i)) != bands[i] {
				t.Errorf("band %d: %s", i, bands[i])
			}
		}
	})
}

// BenchmarkSum sketches the text of a page of 30 KB with few tags: 20 KB, 3,400 words.
func BenchmarkSum(b *testing.B) {
	var text []byte
	for i := 0; len(text) < 20_000; i++ {
		text = append(text, "Engineers measured the bridge number "...)
		text = append(text, strings.Repeat(string(rune('a'+i%26)), i%7+1)...)
		text = append(text, ' ')
	}
	var s Sketch
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		s.Sum(text)
	}
}
