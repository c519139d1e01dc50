package crawl

import "drumbeat/state"

// lastRun returns the options of this run that the manifest keeps.
func (o *Options) lastRun() *state.LastRun {
	return &state.LastRun{Version: o.Version, Agent: o.Agent, Seeds: o.Seeds, Scope: o.Scope,
		MaxDepth: o.MaxDepth, MaxURLBytes: o.MaxURLBytes, MaxRedirects: o.MaxRedirects,
		Ports: o.Ports, Retries: o.Retries, Budget: string(o.Budget),
		BudgetDefault: o.BudgetDefault, BudgetMax: o.BudgetMax, BudgetRanks: o.BudgetRanks, QueuePages: o.QueuePages,
		BudgetShare: o.budgetShare(),
		HostDelay:   o.HostDelay.Milliseconds(), HostDelayMin: o.HostDelayMin.Milliseconds(),
		ServerDelay: o.ServerDelay.Milliseconds(), ServerDelayMin: o.ServerDelayMin.Milliseconds(),
		MaxCrawlDelay: o.MaxCrawlDelay.Milliseconds(), PLDDelay: o.PLDDelay.Milliseconds(),
		PLDDelayMin: o.PLDDelayMin.Milliseconds(), NetworkRate: o.NetworkRate,
		NetworkConnections: o.NetworkConnections, HostDelayFactor: o.HostDelayFactor, AdaptiveDelay: o.AdaptiveDelay,
		Backoff: o.Backoff.Milliseconds(), BackoffMax: o.BackoffMax.Milliseconds(),
		HostFailures: o.HostFailures, HostRests: o.HostRests, HostRefusals: o.HostRefusals,
		RobotsWait: o.RobotsWait.Milliseconds(), RobotsForget: o.RobotsForget.Milliseconds(),
		MaxPagesPerHost: o.MaxPagesPerHost, Rules: o.Rules, Blacklist: o.Blacklist, Sites: o.Sites, URLRules: o.URLRules,
		ClusterFile: o.clusterFile(), CrawlLog: o.CrawlLog, Store: o.Store, Drain: o.Drain}
}
