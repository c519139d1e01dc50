package options

import (
	"errors"
	"time"

	"drumbeat/polite"
)

// Politeness are the limits of the requests to a host, a PLD, a server and a network. Package polite keeps to them.
type Politeness struct {
	// The delays between requests to a host or server; zero means no delay.
	HostDelay, HostDelayMin, ServerDelay, ServerDelayMin time.Duration
	// PLDDelay is the least time between the starts of two requests to one PLD with the default budget
	// (Budgets.Default). PLDDelayMin is its minimum for larger budgets. Zero means no delay.
	PLDDelay, PLDDelayMin time.Duration
	// NetworkRate limits the requests per second to one network (IPv4 /24 or IPv6 /48), NetworkConnections
	// the concurrent exchanges. Zero means no limit.
	NetworkRate        float64
	NetworkConnections int
	// MaxCrawlDelay limits the Crawl-delay of a robots.txt. Default: 300 s.
	MaxCrawlDelay time.Duration
	// HostDelayFactor times the duration of a host's last response is a minimum for the delay of the host,
	// up to MaxCrawlDelay. Zero means no such minimum.
	HostDelayFactor float64
	// AdaptiveDelay lets hosts whose answers stay quick and clean have shorter delays, by steps down to
	// HostDelayMin (package polite). It needs a HostDelayFactor.
	AdaptiveDelay bool
}

// Defaults sets the zero fields.
func (o *Politeness) Defaults() { setDefault(&o.MaxCrawlDelay, 300*time.Second) }

// Validate returns all errors in the group, joined.
func (o *Politeness) Validate() error {
	faults := negatives(named{"host delay", o.HostDelay}, named{"least host delay", o.HostDelayMin},
		named{"server delay", o.ServerDelay}, named{"least server delay", o.ServerDelayMin},
		named{"PLD delay", o.PLDDelay}, named{"least PLD delay", o.PLDDelayMin},
		named{"longest Crawl-delay", o.MaxCrawlDelay})
	rates := polite.Options{NetworkRate: o.NetworkRate, NetworkConnections: o.NetworkConnections,
		ResponseFactor: o.HostDelayFactor, Adaptive: o.AdaptiveDelay}
	return errors.Join(append(faults, rates.Validate())...)
}
