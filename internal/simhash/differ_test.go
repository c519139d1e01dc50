package simhash

import (
	"math"
	"math/rand/v2"
	"strconv"
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
			x, nx := a.Counts()
			y, ny := b.Counts()
			there, back := Differ(&x, &y, nx-ny), Differ(&y, &x, ny-nx)
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
	x, _ := sketch(prose(rng, 50_000)).Counts()
	y, _ := sketch(prose(rng, 50_000)).Counts()
	if got := Differ(&x, &y, 0); got < 10_000 {
		t.Errorf("two other texts of 50,000 words: %g features differ", got)
	}
}

// TestDifferNumbers: the estimate has the numbers in which texts differ, which the hash ignores.
func TestDifferNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, changed := range []int{0, 1, 10, 300} {
		const rounds = 100
		total := 0.0
		for range rounds {
			words := prose(rng, 1000)
			var sketches [2]Sketch
			var hashes [2]uint64
			for k := range sketches {
				text := append([]string(nil), words...)
				for i := range 300 {
					number := 1000 + i
					if i < changed {
						number += 1000 * (k + 1)
					}
					text[3*i+1] = strconv.Itoa(number)
				}
				sketches[k].Add([]byte(strings.Join(text, " ")))
				hashes[k], _ = sketches[k].Sum()
			}
			x, nx := sketches[0].Counts()
			y, ny := sketches[1].Counts()
			if hashes[0] != hashes[1] || nx != 999 || ny != nx {
				t.Fatalf("%d numbers: hashes %x, %d and %d features", changed, hashes, nx, ny)
			}
			total += Differ(&x, &y, 0)
		}
		if mean, want := total/rounds, 2*float64(changed); math.Abs(mean-want) > want/8 {
			t.Errorf("%d numbers changed: %.1f features differ, want %.0f", changed, mean, want)
		}
	}
}
