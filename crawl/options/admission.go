package options

import (
	"errors"
	"fmt"

	"drumbeat/internal/urlrule"
	"drumbeat/state"
)

// Admission says with which URLs a crawl begins, and which URLs it takes.
type Admission struct {
	// Seeds is the name of the seed file on Disk.FS, with one URL or host per line. SeedLines holds the lines if
	// Seeds is "".
	Seeds     string
	SeedLines []string
	// Drain fetches queued URLs and queues no new ones. Links are counted as CountLinksDraining.
	Drain bool

	// Scope is the part of the web to which links may lead. Default: state.ScopeAll.
	Scope state.Scope
	// PrivateSuffixes treats private suffixes as public ones, so each name below them is a PLD.
	PrivateSuffixes bool
	// MaxURLBytes is the length of the longest URL. Default: 2083.
	MaxURLBytes int
	// MaxPagesPerPLD limits the URLs of a PLD that enter BEAST, over all runs. Further URLs are refused. 0
	// means no limit.
	MaxPagesPerPLD uint32
	// KeepEscapes keeps percent-escapes as pages spell them, so that /%7Ea and /~a are two URLs. Otherwise
	// both have one spelling (weburl.FoldEscapes). It is fixed when the crawl begins.
	KeepEscapes bool
	// URLRules rewrite or exclude URLs (package urlrule). They may change from run to run.
	URLRules urlrule.Options
	// LinkFilter reports whether a link is taken; nil takes all.
	LinkFilter func(url []byte) bool

	// Rules are files of scope rules on Disk.FS. Blacklist are files of hosts, PLDs and networks to which no
	// request is sent (docs/reference/rules.md). Default: none. Both are read at the start and again for each value
	// from Reload. Files with errors fail the start; later they leave the old rules in force.
	Rules, Blacklist []string
	Reload           <-chan struct{}
	// Sites is a file on Disk.FS with the settings of some sites (package sites, docs/reference/sites.md); ""
	// for none. It is read and read again like Rules. Env returns variables of the environment, which its
	// secrets may name.
	Sites string
	Env   func(name string) (value string, ok bool)
}

// Defaults sets the zero fields.
func (o *Admission) Defaults() {
	setDefault(&o.Scope, state.ScopeAll)
	setDefault(&o.MaxURLBytes, 2083)
}

// Validate returns all errors in the group, joined.
func (o *Admission) Validate() error {
	var faults []error
	switch o.Scope {
	case "", state.ScopeAll, state.ScopePLD, state.ScopeHost:
	default:
		faults = append(faults, fmt.Errorf("crawl: scope %q is not all, pld or host", o.Scope))
	}
	if o.MaxURLBytes < 0 {
		faults = append(faults, fmt.Errorf("crawl: maximum URL length %d is negative", o.MaxURLBytes))
	}
	if _, err := urlrule.New(o.URLRules); err != nil {
		faults = append(faults, fmt.Errorf("crawl: %w", err))
	}
	return errors.Join(faults...)
}

// Keep writes the group into what the manifest keeps of a run.
func (o *Admission) Keep(run *state.LastRun) {
	run.Seeds, run.Scope, run.Drain, run.MaxURLBytes, run.URLRules = o.Seeds, o.Scope, o.Drain,
		o.MaxURLBytes, o.URLRules
	run.Rules, run.Blacklist, run.Sites = o.Rules, o.Blacklist, o.Sites
}
