package crawl

import "drumbeat/state"

// lastRun returns the options of this run that the manifest keeps.
func (o *Options) lastRun() *state.LastRun {
	run := &state.LastRun{Version: o.Identity.Version, Agent: o.Identity.Agent, MaxDepth: o.Limits.MaxDepth,
		MaxRedirects: o.Links.MaxRedirects, Ports: o.Network.Ports, BudgetShare: o.budgetShare(),
		ClusterFile: o.clusterFile(), CrawlLog: o.Output.CrawlLog, Store: o.Output.Store}
	for _, group := range []interface{ Keep(*state.LastRun) }{&o.Admission, &o.Politeness, &o.Health, &o.Budgets} {
		group.Keep(run)
	}
	return run
}
