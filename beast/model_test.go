package beast_test

import (
	"testing"

	"drumbeat/beast"
)

// The examples after Theorems 6 and 7 and equation (31).
func TestPaperExamples(t *testing.T) {
	m := beast.Model{PLDs: 33e6, MeanBudget: 11, UniquePerPage: 6.5, PagesPerSecond: 3100, URLBytes: 110}
	for _, c := range []struct {
		name      string
		got, want float64
		unit      float64 // one unit of the last printed digit
	}{
		{"naive rate, N = 100 million", m.NaiveRate(100e6) / 1e6, 3.8, 0.1},
		{"naive rate, N = 8 billion", m.NaiveRate(8e9) / 1e6, 83, 1},
		{"naive rate, N = 80 billion", m.NaiveRate(80e9) / 1e6, 826, 1},
		{"bound of Theorem 7", m.RateBound() / 1e6, 8.2, 0.1},
		{"queues, N = 8 billion", m.Queues(8e9), 16, 0.001},
		{"queues, N = 80 billion", m.Queues(80e9), 128, 0.001},
	} {
		if d := c.got - c.want; d > c.unit || d < -c.unit {
			t.Errorf("%s: got %.3f, want %v", c.name, c.got, c.want)
		}
	}
	for n := 1e6; n < 1e13; n *= 10 {
		if m.Rate(n) > m.RateBound() {
			t.Errorf("rate at N = %g: got %g, above the bound %g", n, m.Rate(n), m.RateBound())
		}
	}
	if m.Rate(1e15) < 0.99*m.RateBound() {
		t.Errorf("rate for large N: got %g, want nearly %g", m.Rate(1e15), m.RateBound())
	}
}
