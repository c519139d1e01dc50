package pace

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unit is the unit of the values of a schedule.
type Unit uint8

// The units.
const (
	Pages       Unit = iota // pages per second; may be fractional
	Bits                    // bits per second
	Connections             // concurrent exchanges; whole numbers
)

// noLimit is the value of a schedule at times without a limit.
var noLimit = math.Inf(1)

// NoLimit reports whether a value of a schedule means no limit.
func NoLimit(value float64) bool { return math.IsInf(value, 1) }

// Schedule is a value by local time; see the package comment. The zero Schedule has no limit. Immutable.
type Schedule struct {
	unit    Unit
	entries []entry        // the first that matches counts
	zone    *time.Location // nil: the machine's zone
}

// entry is a value and the times at which it applies.
type entry struct {
	days  uint8  // bit 0 Monday … bit 6 Sunday; 0 for else
	spans []span // times of a day; none: the whole day
	value float64
}

// span is a range of minutes of a day, to excluded. If to is not larger than from, it spans midnight.
type span struct{ from, to int16 }

const (
	allDays   = 1<<7 - 1
	dayLength = 24 * 60 // minutes
)

// Plain returns a schedule with one value; 0 means no limit.
func Plain(unit Unit, value float64) Schedule {
	if value == 0 || NoLimit(value) {
		return Schedule{unit: unit}
	}
	return Schedule{unit: unit, entries: []entry{{value: value}}}
}

// In returns the schedule in another time zone; nil is the machine's.
func (s Schedule) In(zone *time.Location) Schedule {
	s.zone = zone
	return s
}

// Limits reports whether the schedule has a limit at any time.
func (s Schedule) Limits() bool { return len(s.entries) > 0 }

// local returns t in the schedule's time zone.
func (s Schedule) local(t time.Time) time.Time {
	if s.zone == nil {
		return t.Local()
	}
	return t.In(s.zone)
}

// At returns the value at t; NoLimit tells whether there is no limit.
func (s Schedule) At(t time.Time) float64 {
	if len(s.entries) == 0 {
		return noLimit
	}
	if len(s.entries) == 1 && s.entries[0].days == 0 {
		return s.entries[0].value
	}
	t = s.local(t)
	hour, minute, _ := t.Clock()
	return s.on(int(t.Weekday()+6)%7, int16(hour*60+minute))
}

// on returns the value at a minute of a weekday, 0 being Monday.
func (s Schedule) on(day int, minute int16) float64 {
	for i := range s.entries {
		if s.entries[i].holds(day, minute) {
			return s.entries[i].value
		}
	}
	return noLimit
}

func (e *entry) holds(day int, minute int16) bool {
	if e.days == 0 {
		return true
	}
	today, yesterday := e.days>>day&1 == 1, e.days>>((day+6)%7)&1 == 1
	if len(e.spans) == 0 {
		return today
	}
	for _, sp := range e.spans {
		if sp.from < sp.to {
			if today && sp.from <= minute && minute < sp.to {
				return true
			}
		} else if today && minute >= sp.from || yesterday && minute < sp.to {
			return true
		}
	}
	return false
}

// horizon is how far ahead Next looks: two weeks, because an hour may be missing in one, plus a day for the
// partial days at both ends.
const horizon = 15 * 24 * time.Hour

// Next returns when the value changes next after t; the zero time if it never changes.
func (s Schedule) Next(t time.Time) time.Time {
	if len(s.entries) == 0 || len(s.entries) == 1 && s.entries[0].days == 0 {
		return time.Time{}
	}
	marks := s.marks()
	value, end := s.At(t), t.Add(horizon)
	for u := t; u.Before(end); {
		u = s.nextMark(u, marks)
		if s.At(u) != value {
			return u
		}
	}
	return time.Time{}
}

// nextMark returns the next time after t at which the clock shows one of the marks, or is set forward or
// back.
func (s Schedule) nextMark(t time.Time, marks []int16) time.Time {
	t = s.local(t)
	_, offset := t.Zone()
	const day = dayLength * 60
	clock := (t.Unix() + int64(offset)) % day // the offset of t is valid until the end of the zone
	if clock < 0 {
		clock += day
	}
	ahead := int64(day)
	for _, m := range marks {
		d := (int64(m)*60 - clock + day) % day
		if d == 0 {
			d = day
		}
		ahead = min(ahead, d)
	}
	next := s.local(time.Unix(t.Unix()+ahead, 0))
	if _, end := t.ZoneBounds(); !end.IsZero() && end.Before(next) {
		return s.local(end)
	}
	return next
}

// marks returns the minutes of the day at which the value may change.
func (s Schedule) marks() []int16 {
	marks := []int16{0}
	for _, e := range s.entries {
		for _, sp := range e.spans {
			marks = append(marks, sp.from%dayLength, sp.to%dayLength)
		}
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// Max returns the largest value of a week; NoLimit tells whether there is no limit at some time.
func (s Schedule) Max() float64 {
	most := 0.0
	marks := s.marks()
	for day := range 7 {
		for _, m := range marks {
			most = max(most, s.on(day, m))
		}
	}
	return most
}

// Largest returns the largest limit of any entry; 0 without a limit.
func (s Schedule) Largest() (most float64) {
	for _, e := range s.entries {
		if !NoLimit(e.value) {
			most = max(most, e.value)
		}
	}
	return most
}

// AtMost returns the schedule with larger limits lowered to most. Times without a limit stay so.
func (s Schedule) AtMost(most float64) Schedule {
	s.entries = slices.Clone(s.entries)
	for i := range s.entries {
		if e := &s.entries[i]; !NoLimit(e.value) {
			e.value = min(e.value, most)
		}
	}
	return s
}

var dayNames = [7]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// Times returns the schedule with each limit multiplied by factor, which is more than 0.
func (s Schedule) Times(factor float64) Schedule {
	s.entries = slices.Clone(s.entries)
	for i := range s.entries {
		s.entries[i].value *= factor
	}
	return s
}

// String returns the schedule in the syntax of Parse.
func (s Schedule) String() string {
	if len(s.entries) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(s.entries))
	for i, e := range s.entries {
		words := make([]string, 0, 3)
		switch {
		case e.days == 0 && i > 0:
			words = append(words, "else")
		case e.days == 0:
		case e.days != allDays || len(e.spans) == 0:
			words = append(words, daysText(e.days))
		}
		if len(e.spans) > 0 {
			words = append(words, spansText(e.spans))
		}
		parts = append(parts, strings.Join(append(words, s.unit.short(e.value)), " "))
	}
	return strings.Join(parts, "; ")
}

func daysText(days uint8) string {
	var list []string
	for d := 0; d < 7; d++ {
		if days>>d&1 == 0 {
			continue
		}
		last := d
		for last < 6 && days>>(last+1)&1 == 1 {
			last++
		}
		name := dayNames[d][:3]
		if last > d {
			name += "-" + dayNames[last][:3]
		}
		list = append(list, name)
		d = last
	}
	return strings.Join(list, ",")
}

func spansText(spans []span) string {
	list := make([]string, 0, len(spans))
	for _, sp := range spans {
		list = append(list, clockText(sp.from)+"-"+clockText(sp.to))
	}
	return strings.Join(list, ",")
}

func clockText(minute int16) string {
	two := func(n int16) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }
	return two(minute/60) + ":" + two(minute%60)
}

// short formats a value in the syntax of Parse, as one word.
func (u Unit) short(v float64) string {
	switch {
	case NoLimit(v):
		return "none"
	case v == 0:
		return "pause"
	case u == Bits:
		for i := len(bitUnits) - 1; i > 0; i-- {
			if n := v / bitUnits[i].bits; n >= 1 && n*bitUnits[i].bits == v {
				return number(n) + bitUnits[i].name
			}
		}
	}
	return number(v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Text formats a value with its unit for people.
func (s Schedule) Text(value float64) string {
	text := s.unit.short(value)
	switch {
	case NoLimit(value):
		return "no limit"
	case value == 0:
		return "no pages"
	case s.unit == Pages:
		return text + " pages/s"
	case s.unit == Connections:
		return text + " connections"
	}
	if text[len(text)-1] != 't' {
		text += "bit"
	}
	return text + "/s"
}
