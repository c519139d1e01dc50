// Package human writes figures for people.
//
// Every text with a duration that a person reads comes from Duration: status, progress, summaries, explain and
// reports. The dashboard writes durations in the same form (admin/web/static/format.js).
//
// Three forms stay as they are, because programs read them:
//
//   - values of flags, in help, errors and --print-config, from Exact: 40s, 7d
//   - fields of JSON: seconds as numbers
//   - attributes of log lines: Go's form, such as 1m30s
//
// Every text with a size comes from Bytes, in binary units; rates of networks are in bits, with decimal ones.
//
// # Contract
//
// A text of Duration has at most two units, the largest first, and no unit of zero. It is for people: it is
// rounded, and no program should parse it. ParseDuration reads what people write, and what Exact writes.
//
// The package has no state; its functions may be called concurrently.
package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// units are those of durations from 10 s on.
var units = [...]struct {
	size int64 // seconds
	name string
}{{86_400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}

// Duration writes a duration with at most two units, such as 13 min 7 s, 2 d 4 h, 7.3 s or 12 ms. It rounds
// to tenths of a second below 10 s, and to three digits below 1 s.
func Duration(d time.Duration) string {
	if d < 0 {
		if d == math.MinInt64 {
			d++
		}
		return "-" + Duration(-d)
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < 999_500*time.Nanosecond:
		return digits(float64(d)/1e3) + " µs"
	case d < 999_500*time.Microsecond:
		return digits(float64(d)/1e6) + " ms"
	case d < 9950*time.Millisecond:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	whole := int64(d.Round(time.Second) / time.Second)
	for i, u := range units {
		first := whole / u.size
		if first == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", first, u.name)
		if i+1 < len(units) && first < 100 {
			if second := whole % u.size / units[i+1].size; second > 0 {
				text += fmt.Sprintf(" %d %s", second, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// Seconds is Duration of a number of seconds.
func Seconds(s float64) string {
	return Duration(time.Duration(min(max(s*1e9, math.MinInt64/2), math.MaxInt64/2)))
}

// digits writes a number below 1000 with three digits.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// Counted returns a number with the words that follow it: one for 1, many for all others, such as "1 page" and
// "4,784 pages". Every text with a number before a noun comes from here.
func Counted[T ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// Count returns a number with separators.
func Count(n int64) string { return humanize.Comma(n) }

// Rough writes a number for people with three digits that count, such as 0.123, 4.56, 78,900 or 1.2e9.
func Rough(v float64) string {
	if v >= 1e7 || v != 0 && math.Abs(v) < 1e-4 {
		return strings.NewReplacer("e+0", "e", "e+", "e", "e-0", "e-").Replace(strconv.FormatFloat(v, 'g', 3, 64))
	}
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-2)
	return humanize.Comma(int64(math.Round(v/scale) * scale))
}

// Bytes writes a number of bytes with two digits or more and a binary unit, such as 1.5 GiB, 12 GiB and 512 MiB; a
// negative one as 0 B. All texts for people have this form. Values that a program reads back are exact instead.
func Bytes[T ~int | ~int64 | ~uint64 | ~float64](n T) string {
	return humanize.IBytes(uint64(min(max(float64(n), 0), math.MaxInt64)))
}
