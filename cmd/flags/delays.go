package flags

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"drumbeat/crawl"
	"drumbeat/internal/human"
)

// Delays holds the flags that limit the requests to a host, a PLD, a server and a network.
type Delays struct {
	HostDelay   Interval `group:"politeness" common:"" site:"" type:"parts" placeholder:"DURATION"`
	ServerDelay Interval `group:"politeness" type:"parts" placeholder:"DURATION"`
	PLDDelay    Interval `group:"politeness" name:"pld-delay" type:"parts" placeholder:"DURATION"`

	NetworkRate        *float64      `group:"politeness" placeholder:"N"`
	NetworkConnections *Count        `group:"politeness" placeholder:"N"`
	HostDelayFactor    *float64      `group:"politeness" placeholder:"N"`
	AdaptiveDelay      bool          `group:"politeness"`
	MaxCrawlDelay      time.Duration `group:"politeness" placeholder:"DURATION" default:"1h"`
}

// Interval is a delay between requests. A larger budget gets a shorter one. Complete sets what is nil.
type Interval struct {
	Usual *time.Duration `part:""`
	Least *time.Duration `part:"min"` // at any budget
}

// complete sets a minimum that is not given, and refuses one above the delay.
func (i *Interval) complete(flag string, least time.Duration) error {
	if i.Least == nil {
		i.Least = new(min(least, *i.Usual))
	}
	if *i.Least > *i.Usual {
		return fmt.Errorf("--%s: min=%v is more than %v", flag, human.Exact(*i.Least), human.Exact(*i.Usual))
	}
	return nil
}

// DefaultHostDelay is the default of --host-delay, as in the paper.
const DefaultHostDelay = 40 * time.Second

// Complete computes the defaults that depend on other delays. HostDelay.Usual must be set.
func (d *Delays) Complete() (err error) {
	if err = d.HostDelay.complete("host-delay", time.Second); err != nil {
		return err
	}
	if d.ServerDelay.Usual == nil {
		d.ServerDelay.Usual = new(time.Second)
	}
	if err = d.ServerDelay.complete("server-delay", 200*time.Millisecond); err != nil {
		return err
	}
	if d.PLDDelay.Usual == nil {
		d.PLDDelay.Usual = new(min(500*time.Millisecond, *d.HostDelay.Usual))
	}
	if err = d.PLDDelay.complete("pld-delay", 20*time.Millisecond); err != nil {
		return err
	}
	own := *d.ServerDelay.Usual == 0 // the operator crawls his own servers
	if d.NetworkRate == nil {
		d.NetworkRate = new(float64)
		if !own {
			*d.NetworkRate = 10
		}
	}
	if d.NetworkConnections == nil {
		d.NetworkConnections = new(Count)
		if !own {
			*d.NetworkConnections = 20
		}
	}
	if d.HostDelayFactor == nil {
		d.HostDelayFactor = new(float64)
		if *d.HostDelay.Usual > 0 {
			*d.HostDelayFactor = 10
		}
	}
	switch {
	case d.AdaptiveDelay && *d.HostDelayFactor == 0:
		return errors.New("--adaptive-delay needs --host-delay-factor above 0, which spaces visits of slow hosts")
	case d.AdaptiveDelay && *d.HostDelay.Least == *d.HostDelay.Usual:
		return fmt.Errorf("--adaptive-delay needs a min below --host-delay; both are %s",
			human.Duration(*d.HostDelay.Usual))
	}
	return nil
}

// Rude lists the settings that are too fast for other people's sites; "" if there are none.
func (d *Delays) Rude() string {
	var what []string
	if *d.HostDelay.Least < time.Second {
		what = append(what, fmt.Sprintf("a delay of %s between requests to a host", human.Duration(*d.HostDelay.Least)))
	}
	if *d.ServerDelay.Usual == 0 || *d.ServerDelay.Least < 100*time.Millisecond {
		what = append(what,
			fmt.Sprintf("a delay of %s between requests to an address", human.Duration(*d.ServerDelay.Least)))
	}
	if *d.PLDDelay.Usual == 0 {
		what = append(what, "no delay between requests to a PLD")
	}
	if r := *d.NetworkRate; r == 0 || r > 100 {
		what = append(what, fmt.Sprintf("--network-rate %v", r))
	}
	return strings.Join(what, ", ")
}

// CheckRates returns the first fault of the numbers.
func (d *Delays) CheckRates() error {
	if r := OrZero(d.NetworkRate); r != 0 && !(r >= 1e-3 && r <= 1e6) {
		return fmt.Errorf("--network-rate %v: must be 0 (no limit) or between 0.001 and 1e6", r)
	}
	if n := OrZero(d.NetworkConnections); n > 1e6 {
		return fmt.Errorf("--network-connections %d: must be at most 1e6; 0 is no limit", n)
	}
	if f := OrZero(d.HostDelayFactor); !(f >= 0 && f <= 1e6) {
		return fmt.Errorf("--host-delay-factor %v: must be between 0 and 1e6", f)
	}
	return nil
}

// Apply sets a crawl's options; Complete has been called.
func (d *Delays) Apply(o *crawl.PolitenessOptions) {
	*o = crawl.PolitenessOptions{HostDelay: *d.HostDelay.Usual, HostDelayMin: *d.HostDelay.Least,
		ServerDelay: *d.ServerDelay.Usual, ServerDelayMin: *d.ServerDelay.Least, PLDDelay: *d.PLDDelay.Usual,
		PLDDelayMin: *d.PLDDelay.Least, NetworkRate: *d.NetworkRate, NetworkConnections: int(*d.NetworkConnections),
		MaxCrawlDelay: d.MaxCrawlDelay, HostDelayFactor: *d.HostDelayFactor, AdaptiveDelay: d.AdaptiveDelay}
}
