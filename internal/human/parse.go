package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// parseUnits are the units that ParseDuration reads, each as a multiple of a unit of Go.
var parseUnits = map[string]struct {
	goUnit string
	times  int64
}{
	"ns": {"ns", 1}, "us": {"us", 1}, "µs": {"us", 1}, "μs": {"us", 1}, "ms": {"ms", 1}, "s": {"s", 1},
	"m": {"m", 1}, "min": {"m", 1}, "h": {"h", 1}, "d": {"h", 24}, "w": {"h", 7 * 24},
}

// unitWords names the units in errors: those that a person writes.
const unitWords = "ms, s, m, h, d and w"

// ParseDuration reads a duration of 0 or more, as flags and files have it: 90s, 500ms, 7d, 1w, 1d12h. A day
// has 24 hours. Only 0 may lack its unit. An error is a clause for people; it lacks the name of the flag.
func ParseDuration(text string) (time.Duration, error) {
	bare := strings.TrimSpace(text)
	_, err := strconv.ParseFloat(bare, 64)
	switch {
	case bare == "":
		return 0, fmt.Errorf("the duration is empty; want one such as 90s, 12h or 7d")
	case bare == "0":
		return 0, nil
	case strings.HasPrefix(bare, "-"):
		return 0, fmt.Errorf("%q is negative; want a duration such as 90s, 12h or 7d", text)
	case err == nil:
		return 0, fmt.Errorf("%q has no unit; the units are %s, so write %[3]ss, %[3]sh or %[3]sd", text,
			unitWords, bare)
	}
	var sum time.Duration
	for rest := bare; rest != ""; {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		rest = rest[len(number):]
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, unicode.IsLetter))]
		rest = rest[len(name):]
		unit, known := parseUnits[name]
		if !known && number != "" && name != "" && number != "." {
			return 0, fmt.Errorf("%q: %s is not a unit; the units are %s, as in %ss", text, name, unitWords, number)
		}
		d, err := time.ParseDuration(number + unit.goUnit)
		if err != nil || !known {
			return 0, notDuration(text, number)
		}
		if int64(d) > (math.MaxInt64-int64(sum))/unit.times {
			return 0, fmt.Errorf("%q is too long; the longest duration is %s", text, Exact(math.MaxInt64/day*day))
		}
		sum += d * time.Duration(unit.times)
	}
	return sum, nil
}

// notDuration is the error of a text that has another form, or a number with too many digits.
func notDuration(text, number string) error {
	if v, err := strconv.ParseFloat(number, 64); err == nil && v > 1e6 {
		return fmt.Errorf("%q is too long; the longest duration is %s", text, Exact(math.MaxInt64/day*day))
	}
	return fmt.Errorf("%q is not a duration such as 90s, 12h, 7d or 1d12h", text)
}

const day = 24 * time.Hour

// Exact writes a duration as flags and configuration files have it, without loss: 7d, 1d12h, 1m30s, 500ms.
// ParseDuration reads the same value.
func Exact(d time.Duration) string {
	if d < day {
		return goForm(d)
	}
	text := strconv.FormatInt(int64(d/day), 10) + "d"
	if d %= day; d > 0 {
		text += goForm(d)
	}
	return text
}

// goForm is the form of Go without units of zero: 1h rather than 1h0m0s.
func goForm(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
