package crawl

import (
	"sync/atomic"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/internal/revisit"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/state"
)

// engine holds what all stages of this package share: options, identity, the run with its transactions and
// accounts, and the parts with their own locks that several stages use. It is safe for concurrent use once
// the crawl runs.
type engine struct {
	*state.Saved
	*account.Run
	opt    Options
	limit  *space.Limit // the file system of opt, which holds Options.Limits.DiskBytes
	holder *disk.Holder // with Options.Backup, the file system of the crawl, on top of limit
	plan   plan.Plan
	links  *admit.Policy // decides which links become URLs
	rules  *inforce.Rules
	sites  *inforce.Sites
	margin revisit.Margin // what a visit must gain; kept in the manifest

	// These parts have their own locks. They are created when the crawl is opened.
	polite     *polite.Scheduler // the heaps of hosts and servers in RAM
	policy     health.Policy     // for hosts that fail or refuse
	faultWaits retryWaits

	strategy atomic.Pointer[strategy.Strategy] // which URLs are preferred; set once the journal is open
	sketches *observe.Sketches
	traps    *trapscore.Table // nil without Options.Budgets.TrapScore; created when the crawl is opened

	draining      atomic.Bool // new links are not queued: Options.Admission.Drain, or little disk space
	operatorDrain atomic.Bool // new links are not queued: a change of the operator
	paused        atomic.Bool // no request starts: a change of the operator

	orders *orders.Table // URLs that the operator has enqueued
}

func newEngine(opt Options) *engine {
	limit := opt.opened.limit
	if limit == nil {
		limit = space.NewLimit(opt.Disk.FS, opt.allDirs(), opt.Limits.DiskBytes)
	}
	holder := disk.NewHolder(limit)
	opt.Disk.FS = limit
	if opt.Backup != nil {
		opt.Disk.FS = holder
	}
	e := &engine{holder: holder, Saved: state.NewSaved(opt.Disk.FS, opt.Disk.Dirs, opt.Disk.Out),
		Run: account.New(opt.Observe.Log, opt.Observe.Panicked, opt.tests.hook), opt: opt, limit: limit,
		rules: &inforce.Rules{}, sketches: observe.NewSketches(), faultWaits: opt.makeWaits(), policy: opt.makePolicy()}
	e.orders = orders.New()
	if opt.Cluster != nil {
		e.sketches.CountHeavy()
	}
	e.rules.NAT64 = opt.Network.NAT64
	e.sites = inforce.NewSites(e.Saved, inforce.SiteOptions{Assets: opt.fetchesParts(), Politeness: &e.opt.Politeness})
	e.links = &admit.Policy{Parts: opt.Budgets.Parts, Lists: &e.rules.Lists,
		MaxDepth: opt.Limits.MaxDepth, MaxRedirects: opt.Links.MaxRedirects,
		MaxURLBytes: opt.Admission.MaxURLBytes, KeepEscapes: opt.Admission.KeepEscapes, Ports: opt.Network.Ports,
		LinkFilter: opt.Admission.LinkFilter, Settings: &e.sites.Pointer, SeedsOnly: opt.seedsOnly(),
		RenderParts: opt.rendersParts(), Walks: opt.walks()}
	e.draining.Store(opt.Admission.Drain)
	return e
}

// drains reports whether new links are not queued.
func (e *engine) drains() bool { return e.draining.Load() || e.operatorDrain.Load() }

// observed reports whether anything takes snapshots while the crawl runs.
func (e *engine) observed() bool {
	return e.opt.Observe.Snapshot != nil || e.opt.Observe.Control != nil || e.opt.Observe.HistoryBytes > 0
}

// Counter returns the value of a counter.
func (e *engine) Counter(n state.Counter) int64 { return e.Accounts.Counter(n) }
