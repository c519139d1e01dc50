package demo

import (
	"errors"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/storedweb"
)

// TestDamageOf: a crawl whose web was damaged does not end as done.
func TestDamageOf(t *testing.T) {
	for _, c := range []struct {
		requests, files int64
		want            int
	}{{0, 0, term.ExitDone}, {1, 0, term.ExitDamage}, {0, 1, term.ExitDamage}} {
		err := damageOf(&storedweb.Found{DamagedCount: c.files}, &storedweb.Counts{Damaged: c.requests})
		got := term.ExitDone
		var ended *term.Ended
		if errors.As(err, &ended) {
			got = ended.Code
		}
		if got != c.want || (err == nil) != (c.want == term.ExitDone) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
