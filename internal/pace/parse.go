package pace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds of the text.
const (
	maxText    = 4096 // length in bytes
	maxEntries = 64   // number of entries: a limiter looks at each twice a second
)

// Bounds of values. A rate below one page in 17 minutes is no crawl. A value below 8 kbit/s is almost
// always a missing unit.
const (
	minRate, maxRate = 0.001, 1e6
	minBits, maxBits = 8000, 1e13
	maxConnections   = 1e6
)

var bitUnits = [...]struct {
	name string
	bits float64
}{{"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}

// word is a word of the text and its offset in bytes.
type word struct {
	text string
	at   int
}

// bad returns an error at a word of the text.
func (w word) bad(format string, args ...any) error {
	return fmt.Errorf("%q at character %d: %s", w.text, w.at+1, fmt.Sprintf(format, args...))
}

// Parse reads a schedule in the syntax of the package comment. Errors name the position in the text.
func Parse(text string, unit Unit) (Schedule, error) {
	s := Schedule{unit: unit}
	if len(text) > maxText {
		return s, fmt.Errorf("the schedule has %d bytes; the limit is %d", len(text), maxText)
	}
	limits := false
	parts := splitEntries(text)
	for i, words := range parts {
		switch {
		case i == maxEntries:
			return s, words[0].bad("more than %d entries", maxEntries)
		case len(words) == 0 && len(parts) == 1:
			return s, fmt.Errorf("the schedule is empty")
		case len(words) == 0:
			return s, fmt.Errorf("entry %d of %d is empty; omit the ; at the end", i+1, len(parts))
		}
		e, err := unit.entry(words, len(parts) == 1)
		if err != nil {
			return s, err
		}
		if e.days == 0 && i < len(parts)-1 {
			return s, words[0].bad("else must come last")
		}
		limits = limits || !NoLimit(e.value)
		s.entries = append(s.entries, e)
	}
	if !limits {
		s.entries = nil
	}
	return s, nil
}

// splitEntries splits the text into entries and each entry into words. Blanks next to a comma or a dash do
// not end a word.
func splitEntries(text string) [][]word {
	var parts [][]word
	at := 0
	for _, part := range strings.Split(text, ";") {
		var words []word
		for i := 0; i < len(part); {
			if blank(part[i]) {
				i++
				continue
			}
			w := word{at: at + i}
			var b []byte
			for i < len(part) {
				j := i
				for j < len(part) && blank(part[j]) {
					j++
				}
				if j == len(part) || j > i && !joins(part[j]) && !joins(b[len(b)-1]) {
					i = j
					break
				}
				b = append(b, part[j])
				i = j + 1
			}
			w.text = string(b)
			words = append(words, w)
		}
		parts = append(parts, words)
		at += len(part) + 1
	}
	return parts
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func joins(c byte) bool { return c == ',' || c == '-' }

// entry parses one entry. If alone is true, it is the only one and may be a plain value.
func (u Unit) entry(words []word, alone bool) (e entry, err error) {
	first := words[0]
	isElse := strings.EqualFold(first.text, "else")
	switch {
	case isElse:
		words = words[1:]
	case startsDay(first.text):
		if e.days, err = parseDays(first); err != nil {
			return e, err
		}
		words = words[1:]
	}
	if len(words) > 0 && strings.Contains(words[0].text, ":") {
		if isElse {
			return e, words[0].bad("else takes no times")
		}
		if e.spans, err = parseSpans(words[0]); err != nil {
			return e, err
		}
		if e.days == 0 {
			e.days = allDays
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return e, first.bad("want a value after it, such as %s", u.example())
	}
	if e.days == 0 && !isElse && !alone {
		return e, first.bad("want days (mon-fri), times (08:00-20:00) or else before a value")
	}
	w := words[0]
	for _, more := range words[1:] {
		w.text += " " + more.text
	}
	e.value, err = u.value(w)
	return e, err
}

// startsDay tells a list of days from a value: it starts with a letter, and is not none or pause.
func startsDay(text string) bool {
	c := text[0] | 0x20
	return c >= 'a' && c <= 'z' && !strings.EqualFold(text, "none") && !strings.EqualFold(text, "pause")
}

func parseDays(w word) (days uint8, err error) {
	at := w.at
	for _, item := range strings.Split(w.text, ",") {
		a, b, isRange := strings.Cut(item, "-")
		first, ok1 := parseDay(a)
		last, ok2 := first, ok1
		if isRange {
			last, ok2 = parseDay(b)
		}
		if !ok1 || !ok2 {
			return 0, word{item, at}.bad("want a day or a range of days, such as mon, sat or mon-fri")
		}
		for d := first; ; d = (d + 1) % 7 {
			days |= 1 << d
			if d == last {
				break
			}
		}
		at += len(item) + 1
	}
	return days, nil
}

func parseDay(name string) (int, bool) {
	for d, full := range dayNames {
		if strings.EqualFold(name, full) || strings.EqualFold(name, full[:3]) {
			return d, true
		}
	}
	return 0, false
}

func parseSpans(w word) (spans []span, err error) {
	at := w.at
	for _, item := range strings.Split(w.text, ",") {
		here := word{item, at}
		a, b, _ := strings.Cut(item, "-")
		from, ok1 := parseClock(a)
		to, ok2 := parseClock(b)
		switch {
		case !ok1 || !ok2 || from == dayLength:
			return nil, here.bad("want a range of times, such as 08:00-20:00")
		case from == to:
			return nil, here.bad("the range is empty; omit the times for the whole day")
		case to == 0:
			to = dayLength
		}
		spans = append(spans, span{from, to})
		at += len(item) + 1
	}
	return spans, nil
}

// parseClock parses HH:MM or H:MM; 24:00 is the last minute.
func parseClock(text string) (minute int16, ok bool) {
	h, m, _ := strings.Cut(text, ":")
	if len(h) < 1 || len(h) > 2 || len(m) != 2 {
		return 0, false
	}
	hour, err1 := strconv.ParseUint(h, 10, 8)
	min, err2 := strconv.ParseUint(m, 10, 8)
	if err1 != nil || err2 != nil || min > 59 || hour > 24 || hour == 24 && min > 0 {
		return 0, false
	}
	return int16(hour*60 + min), true
}

// value parses a value with its unit.
func (u Unit) value(w word) (float64, error) {
	text := w.text
	switch {
	case strings.EqualFold(text, "none"):
		return noLimit, nil
	case strings.EqualFold(text, "pause") && u == Pages:
		return 0, nil
	case strings.EqualFold(text, "pause"):
		return 0, w.bad("only the rate of pages can be pause")
	}
	factor := 1.0
	if u != Connections {
		text = strings.TrimSuffix(text, "/s")
	}
	if u == Bits {
		digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		name := text[len(digits):]
		if text = strings.TrimRight(digits, " "); name != "" {
			if factor = bitFactor(name); factor == 0 {
				return 0, w.bad("unknown unit %s; want bit, kbit, Mbit or Gbit (8 bits are a byte)", name)
			}
		}
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || text == "" || text[0] < '0' || text[0] > '9' || strings.ContainsAny(text, "xXpP") {
		return 0, w.bad("want a value, such as %s", u.example())
	}
	v *= factor
	return v, u.check(w, &v)
}

// check checks the bounds of a value. It turns 0 into no limit.
func (u Unit) check(w word, v *float64) error {
	least, most := float64(minRate), float64(maxRate)
	switch {
	case u == Connections && *v == 0:
		return w.bad("can't be 0")
	case *v == 0:
		*v = noLimit
		return nil
	case u == Bits:
		least, most = minBits, maxBits
	case u == Connections && *v != math.Trunc(*v):
		return w.bad("want a whole number")
	case u == Connections:
		least, most = 1, maxConnections
	}
	if *v < least || *v > most {
		return w.bad("must lie between %s and %s", u.short(least), u.short(most))
	}
	return nil
}

func bitFactor(name string) float64 {
	for _, b := range bitUnits {
		if strings.EqualFold(name, b.name) {
			return b.bits
		}
	}
	return 0
}

// example returns a value for error messages.
func (u Unit) example() string { return [...]string{"200", "200Mbit", "500"}[u] }
