package human

import (
	"math"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 s", 7: "7 ns", 1500: "1.5 µs", 120 * time.Microsecond: "120 µs", 999_499: "999 µs", 999_600: "1 ms",
		12345 * time.Microsecond: "12.3 ms", 50 * time.Millisecond: "50 ms", 999_499 * time.Microsecond: "999 ms",
		999_600 * time.Microsecond: "1 s", 7 * time.Second: "7 s", 7349 * time.Millisecond: "7.3 s",
		9949 * time.Millisecond: "9.9 s", 9951 * time.Millisecond: "10 s", 59_700 * time.Millisecond: "1 min",
		90 * time.Second: "1 min 30 s", 13*time.Minute + 7*time.Second: "13 min 7 s", time.Hour: "1 h",
		time.Hour + 7*time.Second: "1 h", 2*time.Hour + 5*time.Minute + 59*time.Second: "2 h 5 min", 2*day +
			4*time.Hour: "2 d 4 h", 120*day + 4*time.Hour: "120 d", -90 * time.Second: "-1 min 30 s",
		math.MaxInt64: "106751 d",
		math.MinInt64: "-106751 d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
	if got := Seconds(61); got != "1 min 1 s" {
		t.Errorf("Seconds(61) = %q", got)
	}
	_ = Seconds(math.Inf(1)) // must not panic
}

func TestCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 rows", 1: "1 row", 2: "2 rows", 4784: "4,784 rows"} {
		if got := Counted(n, "row", "rows"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestRough(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.1234: "0.123", 4.559: "4.56", 999.4: "999", 78_912: "78,900",
		9_994_000: "9,990,000", 12_345_678: "1.23e7", 6.56e9: "6.56e9", 1e12: "1e12", 0.0000118: "1.18e-5"} {
		if got := Rough(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}
