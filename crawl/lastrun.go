package crawl

import "drumbeat/state"

// lastRun returns the options of this run that the manifest keeps.
func (o *Options) lastRun() *state.LastRun {
	return &state.LastRun{Version: o.Identity.Version, Agent: o.Identity.Agent, Seeds: o.Admission.Seeds, Scope: o.Admission.Scope,
		MaxDepth: o.Limits.MaxDepth, MaxURLBytes: o.Admission.MaxURLBytes, MaxRedirects: o.Links.MaxRedirects,
		Ports: o.Network.Ports, Retries: o.Health.Retries, Budget: string(o.Budgets.Policy),
		BudgetDefault: o.Budgets.Default, BudgetMax: o.Budgets.Max, BudgetRanks: o.Budgets.Ranks, QueuePages: o.Budgets.QueuePages,
		BudgetShare: o.budgetShare(),
		HostDelay:   o.Politeness.HostDelay.Milliseconds(), HostDelayMin: o.Politeness.HostDelayMin.Milliseconds(),
		ServerDelay: o.Politeness.ServerDelay.Milliseconds(), ServerDelayMin: o.Politeness.ServerDelayMin.Milliseconds(),
		MaxCrawlDelay: o.Politeness.MaxCrawlDelay.Milliseconds(), PLDDelay: o.Politeness.PLDDelay.Milliseconds(),
		PLDDelayMin: o.Politeness.PLDDelayMin.Milliseconds(), NetworkRate: o.Politeness.NetworkRate,
		NetworkConnections: o.Politeness.NetworkConnections, HostDelayFactor: o.Politeness.HostDelayFactor, AdaptiveDelay: o.Politeness.AdaptiveDelay,
		Backoff: o.Health.Backoff.Milliseconds(), BackoffMax: o.Health.BackoffMax.Milliseconds(),
		HostFailures: o.Health.HostFailures, HostRests: o.Health.HostRests, HostRefusals: o.Health.HostRefusals,
		RobotsWait: o.Health.RobotsWait.Milliseconds(), RobotsForget: o.Health.RobotsForget.Milliseconds(),
		MaxPagesPerHost: o.Health.MaxPagesPerHost, Rules: o.Admission.Rules, Blacklist: o.Admission.Blacklist, Sites: o.Admission.Sites, URLRules: o.Admission.URLRules,
		ClusterFile: o.clusterFile(), CrawlLog: o.Output.CrawlLog, Store: o.Output.Store, Drain: o.Admission.Drain}
}
