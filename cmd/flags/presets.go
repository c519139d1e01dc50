package flags

import (
	"slices"

	"github.com/alecthomas/kong"
)

// presetValue is a flag of a preset and its value, as on the command line.
type presetValue struct{ flag, value string }

// presets are the values of --preset. Only own-site changes a politeness flag, within OwnSiteDelay and
// OwnSiteRate; a test checks this. A command takes those flags that it has.
var presets = map[string][]presetValue{
	// Breadth: scope, budgets and delays are the defaults, which are the paper's.
	"survey": {
		{"store", "none"},      // the result is the link structure and the outcomes, not the pages
		{"crawl-log", "all"},   // so every outcome is in the log, since no WARC file has it
		{"max-body", "512KiB"}, // less RAM and traffic; links further down are lost
	},
	// Everything that a site shows, for replay. WARC is the default.
	"archive": {
		{"accept", "*/*"},              // bodies of all types
		{"skip-extensions", "none"},    // links to all types
		{"sitemaps", "true"},           // pages without links to them
		{"follow", "alternate,assets"}, // also scripts and style sheets, without which a page cannot be shown
		{"max-body", "20MiB"},          // most documents and images; video is cut and marked
		{"timeout", "5m"},              // such a body takes longer than the default allows
		{"crawl-log", "all"},           // also what was refused, and why
	},
	// All pages of one or a few given sites.
	"site": siteValues,
	// The same, on a server of the operator's own.
	// The same, on a server of the operator's own. The first of two values of a flag counts.
	"own-site": slices.Concat([]presetValue{
		{"follow", "alternate,assets"}, // the report then knows broken images
		{"host-delay", OwnSiteDelay + ",min=" + OwnSiteLeast},
		{"adaptive-delay", "true"}, // from the one to the other, as the answers allow
		{"pld-delay", OwnSiteLeast},
		{"server-delay", OwnSiteLeast},
		{"network-rate", OwnSiteRate},
		{"host-delay-factor", "2"}, // a slow server gets two thirds of the time to itself
		{"content-seen", "record"}, // the owner learns of equal pages,
		{"simhash", "true"},        // and of nearly equal ones
	}, siteValues),
}

// siteValues turn budgets off, since --scope host does, and find pages without links. The traps' limits
// (--guards) stay.
var siteValues = []presetValue{
	{"scope", "host"},
	{"sitemaps", "true"},
	{"follow", "alternate"},
	{"linger", "10m"},    // give a site that restarts time to come back
	{"crawl-log", "all"}, // one site's log is small, and explain then knows every URL
}

// The bounds of own-site: requests per second to a host or address follow from the delay.
const (
	OwnSiteDelay = "200ms" // at first, and after each sign of strain
	OwnSiteLeast = "50ms"
	OwnSiteRate  = "20" // requests per second to a network
)

// unless names a flag that, if another source than the preset sets it, keeps a value of a preset out: a delay without
// a range has nothing to adapt.
var unless = map[string]string{"adaptive-delay": "host-delay"}

// loadPreset takes the values of a preset. The parser refuses an unknown name later.
func (s *Settings) loadPreset(command *kong.Node, name string) {
	for _, v := range presets[name] {
		if other := flagNamed(command, unless[v.flag]); other != nil && s.from[other.Value] != "preset "+name {
			continue
		}
		if flag := flagNamed(command, v.flag); flag != nil {
			s.set(flag, v.value, "preset "+name)
		}
	}
}
