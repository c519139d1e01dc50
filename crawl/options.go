package crawl

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/cluster/lease"
	"drumbeat/crawl/backups"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/options"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/render"
	"drumbeat/crawl/resolve"
	"drumbeat/crawl/space"
	"drumbeat/internal/health"
	proc "drumbeat/internal/hook"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Options are the options of a crawl, in groups. A zero field means the default in its comment unless the
// comment says otherwise.
type Options struct {
	Disk       DiskOptions
	Identity   IdentityOptions
	Admission  AdmissionOptions
	Links      LinksOptions
	Network    NetworkOptions
	Politeness PolitenessOptions
	Health     HealthOptions
	Budgets    BudgetsOptions
	Order      OrderOptions
	Drum       DrumOptions
	Limits     LimitsOptions
	Output     OutputOptions
	Observe    ObserveOptions

	// Cluster makes the crawl one node of several; nil for a crawl of one node.
	Cluster *Cluster
	// Hook is a program that is asked about each page (package internal/hook); nil for none. Run starts it, and sets
	// Note and Program.
	Hook *proc.Options
	// Render has a browser render some pages; nil: none.
	Render *render.BrowserOptions
	// Recrawl says when URLs are visited again; nil: never.
	Recrawl *revisit.Policy
	// Backup has the running crawl backed up; nil: it is not.
	Backup *backups.Options
	// ObjectStore takes finished output files, which then leave the local directories; nil for none.
	ObjectStore *output.ObjectStoreOptions
	// Extract has the texts of pages extracted; nil for none. It needs Output.Store.
	Extract *output.ExtractOptions

	opened openedOptions
	tests  testOptions
}

// openedOptions are what Run opens, for all rounds of a run.
type openedOptions struct {
	limit  *space.Limit     // holds Limits.DiskBytes
	filled *contents.Filter // the filter of contents
	asker  hook.Asker       // what Hook opens. Tests set it instead.
	last   *lastRound       // nil in tests that open crawls themselves
}

// lastRound is what a round of a run leaves to the next one.
type lastRound struct {
	leases lease.Before
	recent dispatch.Recent
}

// takeRecent returns what the last round has left, for one round.
func (o *openedOptions) takeRecent() (recent dispatch.Recent) {
	if o.last != nil {
		recent, o.last.recent = o.last.recent, dispatch.Recent{}
	}
	return recent
}

// leases tells of the leases of the last round; nil: unknown.
func (o *openedOptions) leases() *lease.Before {
	if o.last == nil {
		return nil
	}
	return &o.last.leases
}

// testOptions are for tests only.
type testOptions struct {
	// reading is called before data of a site are read. Tests let it panic.
	reading func(what string, url []byte)
	// processorsInUse replaces the measurement of the processors; see processorMeter.inUse.
	processorsInUse func(now time.Time) float64
	// hook is called at the places where tests interrupt the program.
	hook func(place string)
	// quarantineBytes replaces quarantineMost; 0: it does not.
	quarantineBytes int64
	// siftLot replaces budgets.SiftLot; 0: it does not.
	siftLot int
	// reads is the latest version that a node of a cluster reads, and writes once all read it; 0: cluster.Version.
	reads int
	// tune changes the plan, so that tests can have smaller stores than any RAM would give.
	tune func(*plan.Plan)
	// tunePolicy changes the policy for failing hosts, so that tests can have shorter back-offs.
	tunePolicy func(*health.Policy)
	// tuneWaits changes the waits after failures that may be ours, so that tests over real sockets can have
	// shorter ones.
	tuneWaits func(*retryWaits)
}

// The groups that stand below the crawl (package options).
type (
	DiskOptions       = options.Disk
	IdentityOptions   = options.Identity
	SignWhen          = options.SignWhen
	AdmissionOptions  = options.Admission
	LinksOptions      = options.Links
	NetworkOptions    = options.Network
	PolitenessOptions = options.Politeness
	HealthOptions     = options.Health
	BudgetsOptions    = options.Budgets
	OrderOptions      = options.Order
	DrumOptions       = options.Drum
	LimitsOptions     = options.Limits
	OutputOptions     = options.Output
)

// ObserveOptions say to whom a running crawl reports, and who controls it by a Control. A Snapshot has its
// figures.
type (
	ObserveOptions = operate.ObserveOptions
	Control        = operate.Control
	Snapshot       = snapshot.Snapshot
)

// Types of some options.
type (
	BudgetPolicy  = options.BudgetPolicy
	BodyCap       = options.BodyCap
	WhenFull      = options.WhenFull
	Known         = options.Known
	Resolver      = options.Resolver
	RenderOptions = render.BrowserOptions
	Fetcher       = options.Fetcher
	Lookup        = resolve.Lookup
	LookupError   = resolve.Error
)

// Values of some options.
const (
	Unlimited        = options.Unlimited
	DefaultRedirects = options.DefaultRedirects
	NoRedirects      = options.NoRedirects
	DefaultBackoff   = options.DefaultBackoff
	MaxSitesAtOnce   = options.MaxSitesAtOnce

	SignOnChallenge = options.SignOnChallenge
	SignAlways      = options.SignAlways
	SignNever       = options.SignNever

	KnownAll  = options.KnownAll
	KnownDue  = options.KnownDue
	KnownSkip = options.KnownSkip

	NoRenderResources = render.NoResources
)

func (o *Options) defaults() {
	for _, group := range []interface{ Defaults() }{&o.Disk, &o.Admission, &o.Links, &o.Network, &o.Politeness,
		&o.Health, &o.Budgets, &o.Drum, &o.Limits, &o.Output, &o.Observe} {
		group.Defaults()
	}
	if o.Render != nil {
		r := *o.Render
		r.Defaults()
		o.Render = &r
	}
}

// rendersParts reports whether the parts of rendered pages are fetched, for their replay.
func (o *Options) rendersParts() bool {
	return o.Render != nil && o.Render.Resources > 0 && o.Output.Store
}

// fetchesParts reports whether parts of any pages are fetched.
func (o *Options) fetchesParts() bool { return o.Links.Assets || o.rendersParts() }

// Validate returns all errors in the options, joined.
func (o *Options) Validate() error {
	var faults []error
	for _, group := range []interface{ Validate() error }{&o.Disk, &o.Identity, &o.Admission, &o.Links, &o.Network,
		&o.Politeness, &o.Health, &o.Order, &o.Output, &o.Observe} {
		faults = append(faults, group.Validate())
	}
	faults = append(faults, o.Cluster.validate(o), fetcher.CheckBodies(o.Network.Accept, o.Network.BodyCaps))
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf("crawl: "+format, args...)) }
	if n := len(o.Limits.References); n > outage.MaxReferences {
		bad("%d references given, want at most %d", n, outage.MaxReferences)
	}
	for _, url := range o.Limits.References {
		if got, err := outage.CheckReference(url); err != nil || got != url {
			bad("reference %q is not a canonical URL", url)
		}
	}
	if o.seedsOnly() && o.Links.Sitemaps {
		bad("strategy %s follows no links, so it does not support sitemaps", o.Order.Strategy)
	}
	if o.walks() {
		if o.Links.Sitemaps || o.Recrawl != nil || o.Render != nil {
			bad("strategy %s does not support sitemaps, recrawls or rendering", o.Order.Strategy)
		}
		opt := o.walkOptions(1)
		faults = append(faults, opt.Validate())
	}
	if _, err := o.strategyOf(o.Order.Lanes, nil); err != nil && (o.Order.Lanes != 0 || len(o.Order.LaneWeights) == 0) {
		bad("%w", err) // weights alone may be those of an existing crawl's lanes
	}
	if scope := o.Admission.Scope; o.Budgets.Parts != state.ByPLDs && scope != "" && scope != state.ScopeAll {
		bad("budgets of %s need scope %s: the others have no budgets", o.Budgets.Parts, state.ScopeAll)
	}
	if o.Budgets.Parts != state.ByPLDs && o.Cluster != nil {
		bad("a cluster does not support budgets of %s: nodes do not send each other the links to them", o.Budgets.Parts)
	}
	if o.Recrawl != nil {
		if err := o.Recrawl.Validate(); err != nil {
			bad("%w", err)
		}
	}
	return errors.Join(faults...)
}

// makePolicy returns the policy of the options for hosts that fail or refuse.
func (o *Options) makePolicy() health.Policy {
	p := health.Defaults()
	p.Backoff, p.BackoffMax = o.Health.Backoff, o.Health.BackoffMax
	p.RetryAfterMax = min(o.Health.RetryAfterMax, health.MaxRetryAfter)
	p.Failures, p.Rests, p.Refusals = o.Health.HostFailures, o.Health.HostRests, o.Health.HostRefusals
	if o.tests.tunePolicy != nil {
		o.tests.tunePolicy(&p)
	}
	return p
}

// lastRun returns the options of this run that the manifest keeps.
func (o *Options) lastRun() *state.LastRun {
	run := &state.LastRun{MaxDepth: o.Limits.MaxDepth, MaxRedirects: o.Links.MaxRedirects,
		BudgetShare: o.budgetShare(), ClusterFile: o.clusterFile(), CrawlLog: o.Output.CrawlLog, Store: o.Output.Store}
	for _, group := range []interface{ Keep(*state.LastRun) }{&o.Identity, &o.Admission, &o.Network, &o.Politeness,
		&o.Health, &o.Budgets} {
		group.Keep(run)
	}
	return run
}
