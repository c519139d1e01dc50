package main

import (
	"fmt"
	"time"
	_ "time/tzdata" // for --time-zone where the machine has no data base

	"drumbeat/pace"
)

// pagesRate is --rate.
type pagesRate struct{ pace.Schedule }

// UnmarshalText reads a number or a schedule.
func (r *pagesRate) UnmarshalText(text []byte) (err error) {
	r.Schedule, err = pace.Parse(string(text), pace.Pages)
	return err
}

// bandwidth is --bandwidth.
type bandwidth struct{ pace.Schedule }

// UnmarshalText reads a number of bits or a schedule.
func (b *bandwidth) UnmarshalText(text []byte) (err error) {
	b.Schedule, err = pace.Parse(string(text), pace.Bits)
	return err
}

// connections is --connections: a number, or a schedule of numbers. The zero is the default.
type connections struct{ schedule pace.Schedule }

// UnmarshalText reads a number or a schedule.
func (c *connections) UnmarshalText(text []byte) (err error) {
	c.schedule, err = pace.Parse(string(text), pace.Connections)
	return err
}

// String can be given to the flag again.
func (c connections) String() string { return c.schedule.String() }

// most is the largest number at any time; where there is no limit it is the default.
func (c connections) most() int64 {
	if n := c.schedule.Max(); !pace.NoLimit(n) {
		return int64(n)
	}
	most := int64(defaultConnections)
	return max(most, int64(c.schedule.Largest()))
}

// lower makes most the largest number that stands in it.
func (c *connections) lower(most int64) {
	if !c.schedule.Limits() {
		c.schedule = pace.Plain(pace.Connections, float64(most))
		return
	}
	c.schedule = c.schedule.AtMost(float64(most))
}

// hours is the schedule if the number changes with the time.
func (c connections) hours() pace.Schedule {
	if c.schedule.Next(time.Now()).IsZero() {
		return pace.Schedule{}
	}
	return c.schedule
}

// timeZone is --time-zone.
type timeZone struct{ *time.Location }

// UnmarshalText reads a name of the IANA data base.
func (z *timeZone) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		return fmt.Errorf("no name of a time zone such as Europe/Berlin")
	}
	if z.Location, err = time.LoadLocation(string(text)); err != nil {
		return fmt.Errorf("%q is no time zone such as UTC or Europe/Berlin: %w", text, err)
	}
	return nil
}

// String can be given to the flag again; empty for the machine's.
func (z timeZone) String() string {
	if z.Location == nil {
		return ""
	}
	return z.Location.String()
}
