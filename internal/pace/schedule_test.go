package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, text string, unit Unit) Schedule {
	t.Helper()
	s, err := Parse(text, unit)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// TestScheduleAt checks values in the week from Monday 2026-01-05.
func TestScheduleAt(t *testing.T) {
	office := "mon-fri 08:00-20:00 200Mbit; sat,sun 00:00-24:00 1Gbit; else 500Mbit"
	for _, c := range []struct {
		text string
		unit Unit
		at   string // day of January, hour, minute
		want float64
	}{
		{office, Bits, "05 07:59", 500e6}, {office, Bits, "05 08:00", 200e6}, {office, Bits, "09 19:59", 200e6},
		{office, Bits, "09 20:00", 500e6}, {office, Bits, "09 23:59", 500e6}, {office, Bits, "10 00:00", 1e9},
		{office, Bits, "11 23:59", 1e9}, {office, Bits, "12 00:00", 500e6},
		{"200", Pages, "05 00:00", 200}, {"0.5/s", Pages, "05 00:00", 0.5}, {"none", Pages, "05 00:00", noLimit},
		{"0", Pages, "05 00:00", noLimit}, {"0", Bits, "05 00:00", noLimit}, {"pause", Pages, "05 00:00", 0},
		// the first entry that matches counts
		{"08:00-12:00 1; 08:00-20:00 2; else 3", Pages, "05 09:00", 1},
		{"08:00-12:00 1; 08:00-20:00 2; else 3", Pages, "05 12:00", 2},
		{"08:00-12:00 none; 08:00-20:00 2", Pages, "05 09:00", noLimit},
		// no limit at times that no entry matches
		{"mon 5", Pages, "05 12:00", 5}, {"mon 5", Pages, "06 00:00", noLimit},
		// spans midnight; the days are those on which it begins
		{"fri 22:00-06:00 7; else 1", Pages, "09 21:59", 1}, {"fri 22:00-06:00 7; else 1", Pages, "09 22:00", 7},
		{"fri 22:00-06:00 7; else 1", Pages, "10 05:59", 7}, {"fri 22:00-06:00 7; else 1", Pages, "10 06:00", 1},
		{"fri 22:00-06:00 7; else 1", Pages, "09 05:59", 1}, {"sun 22:00-06:00 7; else 1", Pages, "05 03:00", 7},
		{"22:00-00:00 7; else 1", Pages, "05 23:59", 7}, {"22:00-00:00 7; else 1", Pages, "05 00:00", 1},
		// ranges that include the weekend, full names, any case, blanks
		{"fri-mon 7; else 1", Pages, "11 12:00", 7}, {"fri-mon 7; else 1", Pages, "05 12:00", 7},
		{"fri-mon 7; else 1", Pages, "06 12:00", 1},
		{"Saturday , SUN 7 ;else  1", Pages, "11 12:00", 7},
		{"mon - fri  08:00 - 20:00 , 21:00-22:00   1_000", Pages, "07 21:30", 1000},
		// several ranges
		{"8:00-12:00,13:00-17:00 7; else 1", Pages, "05 12:30", 1},
		{"8:00-12:00,13:00-17:00 7; else 1", Pages, "05 13:00", 7},
		// units
		{"1.5 Mbit/s", Bits, "05 00:00", 1.5e6}, {"64KBIT", Bits, "05 00:00", 64e3}, {"8000", Bits, "05 00:00", 8000},
		{"9000bit", Bits, "05 00:00", 9000}, {"1e6", Pages, "05 00:00", 1e6},
		{"mon 20; else 2000", Connections, "06 00:00", 2000},
	} {
		s := mustParse(t, c.text, c.unit).In(time.UTC)
		at, err := time.Parse("2006-01-02 15:04", "2026-01-"+c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.At(at); got != c.want {
			t.Errorf("%s on %s: got %v, want %v", c.text, c.at, got, c.want)
		}
		again := mustParse(t, s.String(), c.unit).In(time.UTC)
		if again.String() != s.String() || again.At(at) != c.want {
			t.Errorf("%s is formatted as %s, which parses as %s", c.text, s, again)
		}
	}
}

// TestParseFaults: every error names the position in the text.
func TestParseFaults(t *testing.T) {
	for _, c := range []struct {
		text string
		unit Unit
		want string
	}{
		{"", Pages, "empty"}, {" ; 5", Pages, "entry 1 of 2 is empty"}, {"mon 5;", Pages, "entry 2 of 2 is empty"},
		{"else 5; mon 6", Pages, `"else" at character 1: else must come last`},
		{"mon 6; else", Pages, `"else" at character 8: want a value after it`},
		{"mon 6; 08:00-09:00", Pages, `"08:00-09:00" at character 8: want a value after it`},
		{"mon 6; 7", Pages, `"7" at character 8: want days`},
		{"mon 6; else 08:00-09:00 7", Pages, `"08:00-09:00" at character 13: else takes no times`},
		{"mon-fry 6", Pages, `"mon-fry" at character 1: want a day`},
		{"sat,son 6", Pages, `"son" at character 5: want a day`},
		{"mon 08:00-25:00 6", Pages, `"08:00-25:00" at character 5: want a range of times`},
		{"08:00-08:00 6", Pages, "the range is empty"},
		{"24:00-08:00 6", Pages, "want a range of times"}, {"08:00 6", Pages, "want a range of times"},
		{"08:60-09:00 6", Pages, "want a range of times"}, {"8-9 6", Pages, "want a value"},
		{"mon 5 pages", Pages, `"5 pages" at character 5: want a value`}, {"-5", Pages, "want a value"},
		{"NaN", Pages, "want a day"}, {"inf", Pages, "want a day"},
		{"1e400", Pages, "want a value"}, {"1e7", Pages, "between 0.001 and 1000000"}, {"0.0001", Pages, "between"},
		{"200", Bits, "between 8kbit and"}, {"200MB", Bits, "unknown unit MB"},
		{"200 MiB", Bits, "unknown unit MiB"}, {"Mbit", Bits, "want a day"},
		{"pause", Bits, "only the rate"}, {"pause", Connections, "only the rate"}, {"0", Connections, "can't be 0"},
		{"1.5", Connections, "want a whole number"},
		{"5/s", Connections, "want a value"}, {"0x10", Pages, "want a value"},
		{strings.Repeat("mon 5;", 70) + "else 1", Pages, "more than 64 entries"},
		{strings.Repeat(" ", 5000), Pages, "the limit is 4096"},
	} {
		if s, err := Parse(c.text, c.unit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, %v; want an error with %q", c.text, s, err, c.want)
		}
	}
}

// TestScheduleNext compares Next with At minute by minute, also when summer time begins and ends.
func TestScheduleNext(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone database: ", err)
	}
	for _, c := range []struct{ text, from, want string }{
		{"mon-fri 08:00-20:00 5; else 9", "2026-01-05 09:30", "2026-01-05 20:00"},
		{"mon-fri 08:00-20:00 5; else 9", "2026-01-09 20:00", "2026-01-12 08:00"},
		// summer time begins on 2026-03-29: 02:00 is 03:00
		{"02:00-03:00 5; else 9", "2026-03-29 00:00", "2026-03-30 02:00"},
		{"02:30-04:00 5; else 9", "2026-03-29 00:00", "2026-03-29 03:00"},
		{"sun 02:00-03:00 5; else 9", "2026-03-28 00:00", "2026-04-05 02:00"},
		// and ends on 2026-10-25: 03:00 is 02:00
		{"02:30-06:00 5; else 9", "2026-10-25 00:00", "2026-10-25 02:30"},
		{"5", "2026-01-05 09:30", ""}, {"mon 5; else 5", "2026-01-05 09:30", ""},
	} {
		s := mustParse(t, c.text, Pages).In(berlin)
		from, _ := time.ParseInLocation("2006-01-02 15:04", c.from, berlin)
		got := s.Next(from)
		if got.IsZero() && c.want == "" {
			continue
		}
		if got.Format("2006-01-02 15:04") != c.want {
			t.Errorf("%s after %s: got %v, want %s", c.text, c.from, got, c.want)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		s := mustParse(t, randomSchedule(rnd), Pages).In(berlin)
		for _, day := range []string{"2026-03-27", "2026-10-23", "2026-06-01"} {
			from, _ := time.ParseInLocation("2006-01-02", day, berlin)
			checkNext(t, s, from, 4*24*60)
		}
	}
}

// checkNext compares Next with At for each minute.
func checkNext(t *testing.T, s Schedule, from time.Time, minutes int) {
	t.Helper()
	next, last := s.Next(from), s.At(from)
	for m := 1; m < minutes; m++ {
		at := from.Add(time.Duration(m) * time.Minute)
		v := s.At(at)
		if v != last {
			if !next.Equal(at) {
				t.Fatalf("%s: changes at %v, but Next says %v", s, at, next)
			}
			next, last = s.Next(at), v
		} else if next.Equal(at) {
			t.Fatalf("%s: does not change at %v as Next says", s, at)
		}
	}
}

func randomSchedule(r *rand.Rand) string {
	var parts []string
	for range 1 + r.IntN(4) {
		from, to := r.IntN(1440), r.IntN(1440)
		if from == to {
			continue
		}
		days := dayNames[r.IntN(7)][:3] + "-" + dayNames[r.IntN(7)][:3]
		parts = append(parts, fmt.Sprintf("%s %02d:%02d-%02d:%02d %d", days, from/60, from%60,
			to/60, to%60, 1+r.IntN(3)))
	}
	return strings.Join(append(parts, fmt.Sprintf("else %d", 1+r.IntN(3))), "; ")
}

// TestScheduleBounds checks Max, Largest and AtMost.
func TestScheduleBounds(t *testing.T) {
	s := mustParse(t, "mon 20; tue none; else 300", Connections)
	if !NoLimit(s.Max()) || s.Largest() != 300 {
		t.Errorf("got %v and %v, want none and 300", s.Max(), s.Largest())
	}
	if got := s.AtMost(100).String(); got != "mon 20; tue none; else 100" || s.Largest() != 300 {
		t.Errorf("got %s, and %s was changed", got, s)
	}
	if s := mustParse(t, "mon-wed 20; thu-sun 30", Connections); s.Max() != 30 {
		t.Errorf("got %v, want 30", s.Max())
	}
	if s := mustParse(t, "mon-wed 20; fri-sun 30", Connections); !NoLimit(s.Max()) {
		t.Errorf("got %v, want no limit: no entry matches on a Thursday", s.Max())
	}
}

// FuzzParse: Parse does not panic. Formatting and parsing a schedule gives the same values, within their
// bounds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"200Mbit", "mon-fri 08:00-20:00 200Mbit; sat,sun 00:00-24:00 1Gbit; else 500Mbit",
		"22:00-06:00 none; else 20", "pause", "fri-mon 22:00-06:00,07:00-08:00 5;else 0", "1.5 Mbit/s", "mon - fri 5",
		"else 7", "0.001", "1_000", "8e3bit"} {
		for unit := range 3 {
			f.Add(text, uint8(unit))
		}
	}
	f.Fuzz(func(t *testing.T, text string, unit uint8) {
		u := Unit(unit % 3)
		s, err := Parse(text, u)
		if err != nil {
			return
		}
		shown := s.String()
		again, err := Parse(shown, u)
		if err != nil || again.String() != shown {
			t.Fatalf("%q is formatted as %q, which parses as %v, %v", text, shown, again, err)
		}
		s, again = s.In(time.UTC), again.In(time.UTC)
		at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
		for m := 0; m < 7*24*60; m += 31 {
			v := s.At(at)
			if math.IsNaN(v) || v < 0 || v != again.At(at) {
				t.Fatalf("%q at %v: %v, and %v after formatting and parsing", text, at, v, again.At(at))
			}
			at = at.Add(31 * time.Minute)
		}
		if next := s.Next(at); !next.IsZero() && (!next.After(at) || s.At(next) == s.At(at)) {
			t.Fatalf("%q: Next after %v is %v", text, at, next)
		}
	})
}
