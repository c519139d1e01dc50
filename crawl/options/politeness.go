package options

import (
	"time"

	"drumbeat/polite"
	"drumbeat/state"
)

// Politeness are the limits of the requests to a host, a PLD, a server and a network. Package polite keeps to
// them.
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
	// MaxCrawlDelay limits the Crawl-delay of a robots.txt. Default: 1 h. Package robots reads at most 24 h.
	MaxCrawlDelay time.Duration
	// HostDelayFactor times the duration of a host's last response is a minimum for the delay of the host,
	// up to 5 min and MaxCrawlDelay. Zero means no such minimum.
	HostDelayFactor float64
	// AdaptiveDelay lets hosts whose answers stay quick and clean have shorter delays, by steps down to
	// HostDelayMin (package polite). It needs a HostDelayFactor.
	AdaptiveDelay bool
}

// Defaults sets the zero fields.
func (o *Politeness) Defaults() { setDefault(&o.MaxCrawlDelay, time.Hour) }

// Validate returns all errors in the group, joined.
func (o *Politeness) Validate() error { return o.Scheduler().Validate() }

// Scheduler returns the options of a scheduler that keeps to these limits.
func (o *Politeness) Scheduler() polite.Options {
	return polite.Options{HostDelay: o.HostDelay, HostDelayMin: o.HostDelayMin, ServerDelay: o.ServerDelay,
		ServerDelayMin: o.ServerDelayMin, PLDDelay: o.PLDDelay, PLDDelayMin: o.PLDDelayMin, NetworkRate: o.NetworkRate,
		NetworkConnections: o.NetworkConnections, MaxCrawlDelay: o.MaxCrawlDelay, ResponseFactor: o.HostDelayFactor,
		Adaptive: o.AdaptiveDelay}
}

// Keep writes the limits into what the manifest keeps of a run.
func (o *Politeness) Keep(run *state.LastRun) {
	run.HostDelay, run.HostDelayMin = o.HostDelay.Milliseconds(), o.HostDelayMin.Milliseconds()
	run.ServerDelay, run.ServerDelayMin = o.ServerDelay.Milliseconds(), o.ServerDelayMin.Milliseconds()
	run.PLDDelay, run.PLDDelayMin = o.PLDDelay.Milliseconds(), o.PLDDelayMin.Milliseconds()
	run.MaxCrawlDelay, run.HostDelayFactor, run.AdaptiveDelay = o.MaxCrawlDelay.Milliseconds(),
		o.HostDelayFactor, o.AdaptiveDelay
	run.NetworkRate, run.NetworkConnections = o.NetworkRate, o.NetworkConnections
}
