package flags

import (
	"fmt"
	"time"

	"drumbeat/internal/human"
)

// Moment is a time, or a duration before now.
type Moment struct {
	text string
	At   time.Time     // or
	Ago  time.Duration // before now
}

// momentForms are those of a time in UTC.
var momentForms = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z", time.DateTime,
	"2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly}

// UnmarshalText reads 90m, 7d, 2026-11-21 and others.
func (m *Moment) UnmarshalText(text []byte) error {
	t := string(text)
	*m = Moment{text: t}
	ago, err := human.ParseDuration(t)
	if err == nil {
		m.Ago = ago
		return nil
	}
	for _, form := range momentForms {
		at, err := time.Parse(form, t)
		if err == nil {
			m.At = at
			return nil
		}
	}
	return fmt.Errorf("%q is neither a duration such as 90m, 1h or 7d nor a time such as 2026-11-21, "+
		"\"2026-11-21 22:43\" or 2026-11-21T22:43:05Z", text)
}

// String returns text that UnmarshalText reads.
func (m Moment) String() string { return m.text }

// Time returns the time; zero for nil.
func (m *Moment) Time(now time.Time) time.Time {
	switch {
	case m == nil:
		return time.Time{}
	case !m.At.IsZero():
		return m.At
	}
	return now.Add(-m.Ago)
}
