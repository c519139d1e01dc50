package simhash

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDiffer: the estimate is that of the features that differ, for changed, added and missing words.
func TestDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	sketch := func(words []string) *Sketch {
		var s Sketch
		s.Add([]byte(strings.Join(words, " ")))
		s.Sum()
		return &s
	}
	for _, c := range []struct{ changed, added int }{{0, 0}, {1, 0}, {10, 0}, {100, 0}, {0, 50}, {0, 501}, {30, 200}} {
		const rounds, length = 100, 1000
		total := 0.0
		for range rounds {
			words := prose(rng, length)
			a := sketch(words)
			for i := range c.changed {
				words[5+9*i] += "new"
			}
			b := sketch(append(words, prose(rng, c.added)...))
			x, y := a.Counts(), b.Counts()
			there, back := Differ(&x, &y, a.Features()-b.Features()), Differ(&y, &x, b.Features()-a.Features())
			if there != back || c.changed+c.added == 0 && there != 0 {
				t.Fatalf("%+v: %g one way, %g the other", c, there, back)
			}
			total += there
		}
		want := float64(4*c.changed + c.added) // two features on each side for a changed word
		if mean := total / rounds; math.Abs(mean-want) > want/8 {
			t.Errorf("%+v: %.1f features differ, want %.0f", c, mean, want)
		}
	}
	x, y := sketch(prose(rng, 50_000)).Counts(), sketch(prose(rng, 50_000)).Counts()
	if got := Differ(&x, &y, 0); got < 10_000 {
		t.Errorf("two other texts of 50,000 words: %g features differ", got)
	}
}
