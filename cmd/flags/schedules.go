package flags

import (
	"fmt"
	"time"
	_ "time/tzdata" // for --time-zone on machines without a time zone database

	"drumbeat/internal/pace"
)

// PagesRate is --rate.
type PagesRate struct{ pace.Schedule }

// UnmarshalText reads a number or a schedule.
func (r *PagesRate) UnmarshalText(text []byte) (err error) {
	r.Schedule, err = pace.Parse(string(text), pace.Pages)
	return err
}

// Bandwidth is --bandwidth.
type Bandwidth struct{ pace.Schedule }

// UnmarshalText reads a number of bits or a schedule.
func (b *Bandwidth) UnmarshalText(text []byte) (err error) {
	b.Schedule, err = pace.Parse(string(text), pace.Bits)
	return err
}

// Connections is --connections: a number, or a schedule of numbers. The zero is the default.
type Connections struct{ schedule pace.Schedule }

// UnmarshalText reads a number or a schedule.
func (c *Connections) UnmarshalText(text []byte) (err error) {
	c.schedule, err = pace.Parse(string(text), pace.Connections)
	return err
}

// String returns text that UnmarshalText reads.
func (c Connections) String() string { return c.schedule.String() }

// Most returns the largest number at any time; entries without a limit count as the default.
func (c Connections) Most() int64 {
	if n := c.schedule.Max(); !pace.NoLimit(n) {
		return int64(n)
	}
	most := int64(DefaultConnections)
	return max(most, int64(c.schedule.Largest()))
}

// Lower reduces all numbers to at most most.
func (c *Connections) Lower(most int64) {
	if !c.schedule.Limits() {
		c.schedule = pace.Plain(pace.Connections, float64(most))
		return
	}
	c.schedule = c.schedule.AtMost(float64(most))
}

// Hours returns the schedule if the number changes with time, else the zero schedule.
func (c Connections) Hours() pace.Schedule {
	if c.schedule.Next(time.Now()).IsZero() {
		return pace.Schedule{}
	}
	return c.schedule
}

// TimeZone is --time-zone.
type TimeZone struct{ *time.Location }

// UnmarshalText reads a name of the IANA time zone database.
func (z *TimeZone) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		return fmt.Errorf("the time zone is empty; give a name such as Europe/Berlin")
	}
	if z.Location, err = time.LoadLocation(string(text)); err != nil {
		return fmt.Errorf("%q is not a time zone such as UTC or Europe/Berlin", text)
	}
	return nil
}

// String returns text that UnmarshalText reads; "" for the machine's zone.
func (z TimeZone) String() string {
	if z.Location == nil {
		return ""
	}
	return z.Location.String()
}

// DefaultConnections is the default of --connections.
const DefaultConnections = 2000
