package term

import (
	"context"
	"strings"
	"time"

	"drumbeat/internal/bug"
)

// Live shows on a screen what Look finds. Look and the functions of Key run aside, so keys work while an answer takes
// long; all other functions run in the goroutine of Run.
type Live[T any] struct {
	Every time.Duration // between two looks
	Wait  time.Duration // bound of a look
	Look  func(context.Context) T
	// Key returns what a key does; nil for nothing. Run itself takes q, Escape and Ctrl-C, which end it.
	Key   func(key rune) func(context.Context) T
	Take  func(T)
	Lines func(columns int) []string
}

// Run shows until a key or ctx ends it.
func (l *Live[T]) Run(ctx context.Context, screen *Screen) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looks := make(chan T)
	waiting := 0
	ask := func(f func(context.Context) T) {
		waiting++
		go func() {
			defer bug.Fatal()
			wait, cancel := context.WithTimeout(ctx, l.Wait)
			defer cancel()
			select {
			case looks <- f(wait):
			case <-ctx.Done():
			}
		}()
	}
	ask(l.Look)
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	for {
		screen.Draw(l.Lines(screen.Width()))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if waiting == 0 {
				ask(l.Look)
			}
		case key := <-screen.Keys():
			switch key {
			case 'q', KeyEscape, KeyInterrupt:
				return
			}
			if l.Key != nil {
				if f := l.Key(key); f != nil {
					ask(f)
				}
			}
		case found := <-looks:
			waiting--
			l.Take(found)
		}
	}
}

// Trend is the last values of a rate, to be drawn.
type Trend []float64

// trendPoints is how many values are kept.
const trendPoints = 120

// Add adds a value.
func (t *Trend) Add(v float64) {
	*t = append(*t, v)
	*t = (*t)[max(0, len(*t)-trendPoints):]
}

// Spark draws the last values as blocks, at most width.
func (t Trend) Spark(width int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	values := t[max(0, len(t)-width):]
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		n := 0
		if most > 0 {
			n = int(max(0, v) / most * float64(len(levels)-1))
		}
		b.WriteRune(levels[n])
	}
	return b.String()
}
