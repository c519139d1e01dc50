package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// The configuration that all nodes of a cluster share: the options that decide which URLs are fetched, how
// politely, and the meaning of keys. The first node writes it as text into the bucket of the crawl. A node
// with another configuration refuses to start.
//
// The operator reloads rules on each node. The first reloaded node writes the new text. The others warn of
// the difference until they are reloaded, and a node that starts later compares with the new text. After its
// start, a node with other options warns and continues.
//
// Nodes of two versions of the program have the same text while their options have the same values, so that a
// cluster can be upgraded node by node, and continues with the text at the broker. So an option that a version adds
// has a line only if it differs from its default, as "sites" does; a field that comes into a value is left out of its
// JSON while it is zero; the line of an option that goes stays, with its former default. cmd's
// TestClusterConfigGolden has the text of the first version.

// configText collects the lines "name: value" of a configuration.
type configText struct {
	fs     disk.FS
	lines  []string
	faults []error
}

func (t *configText) add(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		t.faults = append(t.faults, fmt.Errorf("crawl: configuration: %s: %w", name, err))
	}
	if len(text) > maxConfigLine {
		text = fmt.Appendf(nil, "%d bytes with the checksum %016x", len(text), xxhash.Sum64(text))
	}
	t.lines = append(t.lines, fmt.Sprintf("%s: %s", name, text))
}

// files adds the checksums of files, not their names, which may differ between machines.
func (t *configText) files(name string, list ...string) {
	sums := []string{}
	for _, file := range list {
		data, err := disk.ReadFile(t.fs, file)
		if err != nil {
			t.faults = append(t.faults, fmt.Errorf("crawl: configuration: %s: %w", name, err))
			continue
		}
		sums = append(sums, fmt.Sprintf("%016x (%d bytes)", xxhash.Sum64(data), len(data)))
	}
	t.add(name, sums)
}

func (t *configText) seconds(name string, list ...time.Duration) {
	var all []float64
	for _, d := range list {
		all = append(all, d.Seconds())
	}
	t.add(name, all)
}

// configLines returns the configuration as lines "name: value".
func (c *crawler) configLines() ([]string, error) {
	o := &c.opt
	t := &configText{fs: o.Disk.FS}
	t.add("suffix list", c.Suffixes.Digest())
	t.add("agent", o.Identity.Agent)
	t.add("contact", o.Identity.Contact)
	t.add("user agent", unversioned(&o.Identity))
	t.add("seeds", c.seeds.Text())
	t.add("scope", o.Admission.Scope)
	t.files("rules", o.Admission.Rules...)
	t.files("blacklist", o.Admission.Blacklist...)
	if o.Admission.Sites != "" {
		t.files("sites", o.Admission.Sites)
	}
	if o.Render != nil {
		t.files("pages to render", o.Render.Rules...)
		t.add("limits of rendered pages",
			[]int64{int64(o.Render.Requests), int64(o.Render.Resources), o.Render.PageBytes})
	}
	t.add("networks and ports", o.Network.Flags)
	t.add("depth", o.Limits.MaxDepth)
	t.add("URL rules", o.Admission.URLRules)
	t.add("keep escapes", o.Admission.KeepEscapes)
	t.add("URL bytes", o.Admission.MaxURLBytes)
	t.add("redirects", o.Links.MaxRedirects)
	t.add("link types", o.Links.Rels)
	t.add("assets, forms, nofollow ignored, sitemaps",
		[]bool{o.Links.Assets, o.Links.Forms, o.Links.IgnoreNofollow, o.Links.Sitemaps})
	t.add("types", o.Network.Accept)
	t.add("limits of bodies", o.Network.BodyCaps)
	t.add("body bytes",
		[]int{o.Network.FetchLimits.BodyBytes, o.Network.FetchLimits.DecodedBytes, o.Links.SitemapBytes})
	t.add("pages", o.Limits.MaxPages)
	t.add("pages of a host", o.Health.MaxPagesPerHost)
	t.add("pages of a PLD", o.Admission.MaxPagesPerPLD)
	t.add("budget", []any{o.Budgets.Policy, o.Budgets.Default, o.Budgets.Max, o.Budgets.TrapScore})
	if o.Budgets.Trusted != "" {
		t.files("trusted PLDs", o.Budgets.Trusted)
	}
	t.add("visits again", o.Recrawl)
	if o.walks() {
		w := o.walkOptions(0)
		t.add("random walk", []any{w.Walkers, w.URLs, w.Jump})
	}
	t.add("seconds without robots.txt", o.Health.RobotsWait.Seconds())
	t.add("retries", o.Health.Retries)
	t.add("failures, back-offs, refusals of a host",
		[]int{o.Health.HostFailures, o.Health.HostRests, o.Health.HostRefusals})
	t.seconds("host delay", o.Politeness.HostDelay, o.Politeness.HostDelayMin)
	t.seconds("server delay", o.Politeness.ServerDelay, o.Politeness.ServerDelayMin)
	t.seconds("PLD delay", o.Politeness.PLDDelay, o.Politeness.PLDDelayMin)
	t.seconds("back-off", o.Health.Backoff, o.Health.BackoffMax)
	t.seconds("longest Retry-After", o.Health.RetryAfterMax)
	t.seconds("longest Crawl-delay", o.Politeness.MaxCrawlDelay)
	t.add("delay by answers", []any{o.Politeness.HostDelayFactor, o.Politeness.AdaptiveDelay})
	t.add("network rate, network connections", []any{o.Politeness.NetworkRate, o.Politeness.NetworkConnections})
	t.add("networks that several nodes visit", []any{"lease", o.Cluster.leaseTTL().Seconds()})
	t.add("rate", o.Network.Rate.String())
	t.add("bandwidth", c.limits.FlagBandwidth().String())
	return t.lines, errors.Join(t.faults...)
}

// unversioned returns the User-Agent header. In the default one, the version is that of the program that wrote the
// first configurations, whatever this one is.
func unversioned(o *IdentityOptions) string {
	rest, ok := strings.CutPrefix(o.UserAgent, o.Agent+"/"+o.Version+" ")
	if !ok || o.Version == "" {
		return o.UserAgent // of --user-agent
	}
	return o.Agent + "/0.1.0-devel " + rest
}

// maxConfigLine is the longest value in the configuration; longer ones are given by checksum. A bucket takes
// values of a megabyte.
const maxConfigLine = 4 << 10
