package simhash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/parse"
)

func sum(text string) (uint64, bool) {
	var s Sketch
	s.Add([]byte(text))
	return s.Sum()
}

// prose returns n words drawn from a vocabulary of 5,000.
func prose(rng *rand.Rand, n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%sx", strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(3))+
			string(rune('a'+rng.IntN(26)))+string(rune('a'+rng.IntN(8))))
	}
	return words
}

// slowly computes the hash with one counter for each bit.
func slowly(text string) uint64 {
	var words []uint64
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		words = append(words, hash([]byte(w), 0, len(w)))
	}
	var counts [64]int
	for i := 1; i < len(words); i++ {
		f := mix(words[i-1], words[i])
		for b := range counts {
			counts[b] += int(f >> b & 1)
		}
	}
	var h uint64
	for b, n := range counts {
		if n > (len(words)-1)/2 {
			h |= 1 << b
		}
	}
	return h
}

func TestReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		text := strings.Join(prose(rng, LeastFeatures+1+rng.IntN(3000)), " ")
		if got, ok := sum(text); !ok || got != slowly(text) {
			t.Fatalf("got %x, %v, want %x", got, ok, slowly(text))
		}
	}
}

// TestGolden holds the features fixed: hashes are stored and compared with those of later versions.
func TestGolden(t *testing.T) {
	english := "A crawler that comes back must know which pages it has seen. " +
		"It compares each page with those before, and it leaves alone what differs in a date or a number only. " +
		"Pages in ten thousand copies are the rule on the web, not the exception, and an honest archive says so."
	for _, c := range []struct {
		text string
		want uint64
	}{
		{english, 0x8c9f85fae089427e},
		{strings.ToUpper(english), 0x8c9f85fae089427e},
		{strings.Repeat("ÄÖÜ größer, naïve façade élan; ", 12), 0x11b42465c102a0b0},
		{strings.Repeat("日本語の文章は空白で区切られていません。", 4), 0xe636afb0cfb8dc04},
	} {
		if got, ok := sum(c.text); !ok || got != c.want {
			t.Errorf("%.40q: got %#x, %v, want %#x", c.text, got, ok, c.want)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	base := strings.Join(prose(rand.New(rand.NewPCG(2, 2)), 200), " ")
	want, _ := sum(base)
	for _, text := range []string{strings.ToUpper(base), base + " 2026-11-24 12:30", "42 " + base,
		base + "&nbsp;&#x20;", strings.ReplaceAll(base, " ", ",\n ")} {
		if got, ok := sum(text); !ok || got != want {
			t.Errorf("%.60q: got %x, want %x", text, got, want)
		}
	}
	if other, _ := sum(base + " & more text that counts " + base[:300]); other == want {
		t.Error("more text: the same hash")
	}
	for _, text := range []string{"", "one", strings.Repeat("word ", LeastFeatures), strings.Repeat("12 ", 1000)} {
		if h, ok := sum(text); ok || h != 0 {
			t.Errorf("%.20q: got %x, want none", text, h)
		}
	}
	if _, ok := sum(strings.Repeat("word ", LeastFeatures+1)); !ok {
		t.Error("a text of the least length has no hash")
	}
}

// TestDistances: changed words change as many bits as the doc comment says.
func TestDistances(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, every := range []int{200, 100, 20, 2} {
		const rounds, length = 400, 1000
		total := 0
		for range rounds {
			words := prose(rng, length)
			a, _ := sum(strings.Join(words, " "))
			for i := every / 2; i < length; i += every {
				words[i] = "changed" + words[i]
			}
			b, _ := sum(strings.Join(words, " "))
			total += Distance(a, b)
		}
		share := 2 / float64(every) // of the features
		want := 64 / math.Pi * math.Acos(1-share)
		mean := float64(total) / rounds
		t.Logf("one word in %d: %.2f bits, expected %.2f", every, mean, want)
		if math.Abs(mean-want) > want/8 {
			t.Errorf("one word in %d differs: %.2f bits, want %.2f", every, mean, want)
		}
	}
}

// TestSplit: runs change nothing unless they cut words.
func TestSplit(t *testing.T) {
	words := prose(rand.New(rand.NewPCG(4, 4)), 500)
	want, _ := sum(strings.Join(words, " "))
	var s Sketch
	for i := range words {
		s.Add([]byte(words[i]))
		if i%100 == 99 {
			s.Sum() // may be asked for at any time
		}
	}
	if got, _ := s.Sum(); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
	s.Reset()
	if _, ok := s.Sum(); ok {
		t.Error("a hash after Reset")
	}
}

func FuzzAdd(f *testing.F) {
	f.Add([]byte("&amp;\xe3\x81"), 1)
	f.Add([]byte(strings.Repeat("日本 x&#1234;", 20)), 7)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var a, b Sketch
		a.Add(text)
		b.Add(text)
		x, ok := a.Sum()
		if y, ok2 := b.Sum(); x != y || ok != ok2 {
			t.Fatal("not a function of the text")
		}
		if a.n > len(text) {
			t.Fatalf("%d features of %d bytes", a.n, len(text))
		}
	})
}

// BenchmarkPage hashes a page of 30 KB with text and markup in the proportion of documentation pages.
func BenchmarkPage(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 5))
	var page strings.Builder
	for page.Len() < 30_000 {
		fmt.Fprintf(&page, `<p class="p"><a href="/doc/%d.html" title="t">%s</a> %s</p>`+"\n", rng.IntN(1000),
			strings.Join(prose(rng, 2), " "), strings.Join(prose(rng, 12), " "))
	}
	body := []byte(page.String())
	b.SetBytes(int64(len(body)))
	var s Sketch
	for b.Loop() {
		s.Reset()
		parse.EachText(body, false, s.Add)
		s.Sum()
	}
}
