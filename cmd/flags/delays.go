package flags

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/crawl"
)

// Delays bound how often a host, a PLD, a server and a network are visited.
type Delays struct {
	HostDelay      *time.Duration `group:"manners" placeholder:"DURATION" help:"Time between two visits to a host whose PLD has the default budget; less for larger budgets. 0: none, for your own servers. Default: 40s, or 2s with --scope host and pld."`
	HostDelayMin   *time.Duration `group:"manners" placeholder:"DURATION" help:"Least time between two visits to a host, whatever its budget. Default: 1s, or --host-delay if that is less."`
	ServerDelay    time.Duration  `group:"manners" placeholder:"DURATION" default:"1s" help:"Time between two visits to an IP address at the default budget. 0: none, for your own servers."`
	ServerDelayMin *time.Duration `group:"manners" placeholder:"DURATION" help:"Least time between two visits to an IP address. Default: 200ms, or --server-delay if that is less."`
	PLDDelay       *time.Duration `group:"manners" name:"pld-delay" placeholder:"DURATION" help:"Time between two requests to a PLD, whichever its hosts, at the default budget; less for larger budgets. 0: none. Default: 500ms, or --host-delay if that is less."`
	PLDDelayMin    *time.Duration `group:"manners" name:"pld-delay-min" placeholder:"DURATION" help:"Least time between two requests to a PLD, whatever its budget. Default: 20ms, or --pld-delay if that is less."`

	NetworkRate        *float64      `group:"manners" placeholder:"N" help:"Most requests a second to a network (IPv4 /24, IPv6 /48). 0: no limit. Default: 10, or no limit if --server-delay is 0."`
	NetworkConnections *Count        `group:"manners" placeholder:"N" help:"Most exchanges at once with a network; one of its addresses may have half of them. 0: no limit. Default: 20, or no limit if --server-delay is 0."`
	HostDelayFactor    *float64      `group:"manners" placeholder:"N" help:"A host rests so many times as long as its last answer took, if that is more than --host-delay; --max-crawl-delay at most. 0: it doesn't matter. Default: 10, or 0 if --host-delay is 0."`
	MaxCrawlDelay      time.Duration `group:"manners" placeholder:"DURATION" default:"300s" help:"Longest Crawl-delay of a robots.txt that is obeyed; a longer one counts as this."`
}

// DefaultHostDelay is the default of --host-delay: the paper's.
const DefaultHostDelay = 40 * time.Second

// Complete fills in what follows from other delays. --host-delay is known.
func (d *Delays) Complete() (err error) {
	if d.HostDelayMin, err = leastDelay("host-delay", d.HostDelayMin, *d.HostDelay, time.Second); err != nil {
		return err
	}
	if d.ServerDelayMin, err = leastDelay("server-delay", d.ServerDelayMin, d.ServerDelay, 200*time.Millisecond); err != nil {
		return err
	}
	if d.PLDDelay == nil {
		d.PLDDelay = new(min(500*time.Millisecond, *d.HostDelay))
	}
	if d.PLDDelayMin, err = leastDelay("pld-delay", d.PLDDelayMin, *d.PLDDelay, 20*time.Millisecond); err != nil {
		return err
	}
	own := d.ServerDelay == 0 // a crawl of one's own servers
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
	return nil
}

// Rude names what no stranger's site should meet with; "" for nothing.
func (d *Delays) Rude() string {
	var what []string
	if *d.HostDelayMin < time.Second {
		what = append(what, fmt.Sprintf("a delay of %v between visits to a host", *d.HostDelayMin))
	}
	if d.ServerDelay == 0 || *d.ServerDelayMin < 100*time.Millisecond {
		what = append(what, fmt.Sprintf("a delay of %v between visits to an address", *d.ServerDelayMin))
	}
	if *d.PLDDelay == 0 {
		what = append(what, "no delay between requests to a PLD")
	}
	if r := *d.NetworkRate; r == 0 || r > 100 {
		what = append(what, fmt.Sprintf("--network-rate %v", r))
	}
	return strings.Join(what, ", ")
}

// CheckRates returns the first fault of what is counted, not timed.
func (d *Delays) CheckRates() error {
	if r := OrZero(d.NetworkRate); r != 0 && !(r >= 1e-3 && r <= 1e6) {
		return fmt.Errorf("--network-rate %v: must be 0 (no limit) or lie between 0.001 and 1e6", r)
	}
	if n := OrZero(d.NetworkConnections); n > 1e6 {
		return fmt.Errorf("--network-connections %d: at most 1e6; 0 is no limit", n)
	}
	if f := OrZero(d.HostDelayFactor); !(f >= 0 && f <= 1e6) {
		return fmt.Errorf("--host-delay-factor %v: must lie between 0 and 1e6", f)
	}
	return nil
}

// Apply puts them into a crawl's options.
func (d *Delays) Apply(o *crawl.Options) {
	o.HostDelay, o.HostDelayMin, o.ServerDelay, o.ServerDelayMin = *d.HostDelay, *d.HostDelayMin, d.ServerDelay, *d.ServerDelayMin
	o.PLDDelay, o.PLDDelayMin, o.MaxCrawlDelay, o.HostDelayFactor = *d.PLDDelay, *d.PLDDelayMin, d.MaxCrawlDelay, *d.HostDelayFactor
	o.NetworkRate, o.NetworkConnections = *d.NetworkRate, int(*d.NetworkConnections)
}

// leastDelay is the default of a least delay, or the one given if it is in order.
func leastDelay(flag string, given *time.Duration, full, standard time.Duration) (*time.Duration, error) {
	if given == nil {
		return new(min(standard, full)), nil
	}
	if *given > full {
		return nil, fmt.Errorf("--%s-min %v is more than --%s %v", flag, *given, flag, full)
	}
	return given, nil
}
