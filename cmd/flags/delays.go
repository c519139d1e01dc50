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
	HostDelay      *time.Duration `group:"politeness" common:"" placeholder:"DURATION"`
	HostDelayMin   *time.Duration `group:"politeness" placeholder:"DURATION"`
	ServerDelay    time.Duration  `group:"politeness" placeholder:"DURATION" default:"1s"`
	ServerDelayMin *time.Duration `group:"politeness" placeholder:"DURATION"`
	PLDDelay       *time.Duration `group:"politeness" name:"pld-delay" placeholder:"DURATION"`
	PLDDelayMin    *time.Duration `group:"politeness" name:"pld-delay-min" placeholder:"DURATION"`

	NetworkRate        *float64      `group:"politeness" placeholder:"N"`
	NetworkConnections *Count        `group:"politeness" placeholder:"N"`
	HostDelayFactor    *float64      `group:"politeness" placeholder:"N"`
	AdaptiveDelay      bool          `group:"politeness"`
	MaxCrawlDelay      time.Duration `group:"politeness" placeholder:"DURATION" default:"300s"`
}

// DefaultHostDelay is the default of --host-delay, as in the paper.
const DefaultHostDelay = 40 * time.Second

// Complete computes the defaults that depend on other delays. HostDelay must be set.
func (d *Delays) Complete() (err error) {
	if d.HostDelayMin, err = leastDelay("host-delay", d.HostDelayMin, *d.HostDelay, time.Second); err != nil {
		return err
	}
	if d.ServerDelayMin, err = leastDelay("server-delay", d.ServerDelayMin, d.ServerDelay,
		200*time.Millisecond); err != nil {
		return err
	}
	if d.PLDDelay == nil {
		d.PLDDelay = new(min(500*time.Millisecond, *d.HostDelay))
	}
	if d.PLDDelayMin, err = leastDelay("pld-delay", d.PLDDelayMin, *d.PLDDelay, 20*time.Millisecond); err != nil {
		return err
	}
	own := d.ServerDelay == 0 // the operator crawls his own servers
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
		if *d.HostDelay > 0 {
			*d.HostDelayFactor = 10
		}
	}
	switch {
	case d.AdaptiveDelay && *d.HostDelayFactor == 0:
		return errors.New("--adaptive-delay needs --host-delay-factor above 0, which keeps visits of slow hosts apart")
	case d.AdaptiveDelay && *d.HostDelayMin == *d.HostDelay:
		return fmt.Errorf("--adaptive-delay needs --host-delay-min below --host-delay; both are %s",
			human.Duration(*d.HostDelay))
	}
	return nil
}

// Rude lists the settings that are too fast for other people's sites; "" if there are none.
func (d *Delays) Rude() string {
	var what []string
	if *d.HostDelayMin < time.Second {
		what = append(what, fmt.Sprintf("a delay of %s between requests to a host", human.Duration(*d.HostDelayMin)))
	}
	if d.ServerDelay == 0 || *d.ServerDelayMin < 100*time.Millisecond {
		what = append(what, fmt.Sprintf("a delay of %s between requests to an address", human.Duration(*d.ServerDelayMin)))
	}
	if *d.PLDDelay == 0 {
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
	*o = crawl.PolitenessOptions{HostDelay: *d.HostDelay, HostDelayMin: *d.HostDelayMin, ServerDelay: d.ServerDelay,
		ServerDelayMin: *d.ServerDelayMin, PLDDelay: *d.PLDDelay, PLDDelayMin: *d.PLDDelayMin, NetworkRate: *d.NetworkRate,
		NetworkConnections: int(*d.NetworkConnections), MaxCrawlDelay: d.MaxCrawlDelay, HostDelayFactor: *d.HostDelayFactor,
		AdaptiveDelay: d.AdaptiveDelay}
}

// leastDelay returns a minimum delay: the one given, which must not exceed full, or else standard, or full
// if that is less.
func leastDelay(flag string, given *time.Duration, full, standard time.Duration) (*time.Duration, error) {
	if given == nil {
		return new(min(standard, full)), nil
	}
	if *given > full {
		return nil, fmt.Errorf("--%s-min %v is more than --%s %v", flag, *given, flag, full)
	}
	return given, nil
}
