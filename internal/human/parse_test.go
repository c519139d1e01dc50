package human

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond,
		"7d": 7 * day, "1w": 7 * day, "1d12h": 36 * time.Hour,
		"1.5d": 36 * time.Hour, "0.5w": 84 * time.Hour, "2min": 2 * time.Minute,
		"1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second, " 2h ": 2 * time.Hour, "7µs": 7000,
		"106751d": 106751 * day, "15250w": 15250 * 7 * day,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseDuration(Exact(got)); err != nil || again != got {
			t.Errorf("%q is written as %s, which reads as %v, %v", text, Exact(got), again, err)
		}
	}
	for text, want := range map[string]string{
		"5":       `"5" has no unit; the units are ms, s, m, h, d and w, so write 5s, 5h or 5d`,
		"2.5":     "so write 2.5s, 2.5h or 2.5d",
		"":        "the duration is empty",
		"-5s":     `"-5s" is negative`,
		"7x":      `"7x": x is not a unit; the units are ms, s, m, h, d and w, as in 7s`,
		"3 days":  `"3 days" is not a duration such as 90s`,
		"soon":    `"soon" is not a duration such as 90s, 12h, 7d or 1d12h`,
		"1..5s":   "is not a duration",
		".s":      "is not a duration",
		"5d5":     "is not a duration",
		"106752d": "the longest duration is 106751d",
		"15251w":  "the longest duration is 106751d", "99999999999999999999s": "the longest duration is 106751d",
		"106751d106751d": "the longest duration is 106751d",
	} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestExact(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 90 * time.Second: "1m30s", time.Hour: "1h", time.Minute: "1m",
		10 * time.Minute: "10m", 168 * time.Hour: "7d", 36 * time.Hour: "1d12h",
		24*time.Hour + time.Second: "1d1s", 100 * time.Hour: "4d4h",
		1500 * time.Millisecond: "1.5s", 10*time.Hour + 20*time.Second: "10h0m20s",
	} {
		got := Exact(d)
		if again, err := ParseDuration(got); got != want || err != nil || again != d {
			t.Errorf("%v: %s, want %s; it reads as %v, %v", d, got, want, again, err)
		}
	}
	if got := Exact(math.MaxInt64); !strings.HasPrefix(got, "106751d") {
		t.Error(got)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"7d", "1d12h", "0.1w", "5", "1h1h", "9999999h", "1e5s", "µs", "\x80s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(Exact(d)); d < 0 || err != nil || again != d {
			t.Errorf("%q: %v, written as %s, which reads as %v, %v", text, d, Exact(d), again, err)
		}
		if old, err := time.ParseDuration(text); err == nil && old != d {
			t.Errorf("%q: %v, Go reads %v", text, d, old)
		}
	})
}
