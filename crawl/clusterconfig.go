package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
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

// configLines returns the configuration as lines "name: value". They contain checksums of files, not names,
// which may differ between machines.
func (c *crawler) configLines() ([]string, error) {
	o := &c.opt
	var lines []string
	var faults []error
	add := func(name string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			faults = append(faults, fmt.Errorf("crawl: configuration: %s: %w", name, err))
		}
		if len(text) > maxConfigLine {
			text = fmt.Appendf(nil, "%d bytes with the checksum %016x", len(text), xxhash.Sum64(text))
		}
		lines = append(lines, fmt.Sprintf("%s: %s", name, text))
	}
	files := func(name string, list ...string) {
		sums := []string{}
		for _, file := range list {
			data, err := disk.ReadFile(o.Disk.FS, file)
			if err != nil {
				faults = append(faults, fmt.Errorf("crawl: configuration: %s: %w", name, err))
				continue
			}
			sums = append(sums, fmt.Sprintf("%016x (%d bytes)", xxhash.Sum64(data), len(data)))
		}
		add(name, sums)
	}
	add("suffix list", c.Suffixes.Digest())
	add("agent", o.Identity.Agent)
	add("contact", o.Identity.Contact)
	add("user agent", o.Identity.UserAgent)
	add("seeds", c.seeds.text())
	add("scope", o.Admission.Scope)
	files("rules", o.Admission.Rules...)
	files("blacklist", o.Admission.Blacklist...)
	if o.Admission.Sites != "" {
		files("sites", o.Admission.Sites)
	}
	if o.Render != nil {
		files("pages to render", o.Render.Rules...)
	}
	add("networks and ports", o.Network.Flags)
	add("depth", o.Limits.MaxDepth)
	add("URL rules", o.Admission.URLRules)
	add("keep escapes", o.Admission.KeepEscapes)
	add("URL bytes", o.Admission.MaxURLBytes)
	add("redirects", o.Links.MaxRedirects)
	add("link types", o.Links.Rels)
	add("assets, forms, nofollow ignored, sitemaps",
		[]bool{o.Links.Assets, o.Links.Forms, o.Links.IgnoreNofollow, o.Links.Sitemaps})
	add("types", o.Network.Accept)
	add("limits of bodies", o.Network.BodyCaps)
	add("body bytes", []int{o.Network.FetchLimits.BodyBytes, o.Network.FetchLimits.DecodedBytes, o.Links.SitemapBytes})
	add("pages", o.Limits.MaxPages)
	add("pages of a host", o.Health.MaxPagesPerHost)
	add("pages of a PLD", o.Admission.MaxPagesPerPLD)
	add("budget", []any{o.Budgets.Policy, o.Budgets.Default, o.Budgets.Max, o.Budgets.TrapScore})
	add("visits again", o.Recrawl)
	add("seconds without robots.txt", o.Health.RobotsWait.Seconds())
	add("retries", o.Health.Retries)
	add("failures, rests, refusals of a host", []int{o.Health.HostFailures, o.Health.HostRests, o.Health.HostRefusals})
	seconds := func(name string, list ...time.Duration) {
		var all []float64
		for _, d := range list {
			all = append(all, d.Seconds())
		}
		add(name, all)
	}
	seconds("host delay", o.Politeness.HostDelay, o.Politeness.HostDelayMin)
	seconds("server delay", o.Politeness.ServerDelay, o.Politeness.ServerDelayMin)
	seconds("PLD delay", o.Politeness.PLDDelay, o.Politeness.PLDDelayMin)
	seconds("back-off", o.Health.Backoff, o.Health.BackoffMax)
	seconds("longest Crawl-delay", o.Politeness.MaxCrawlDelay)
	add("delay by answers", []any{o.Politeness.HostDelayFactor, o.Politeness.AdaptiveDelay})
	add("network rate, network connections", []any{o.Politeness.NetworkRate, o.Politeness.NetworkConnections})
	add("networks that several nodes visit", []any{"lease", o.Cluster.leaseTTL().Seconds()})
	add("rate", o.Network.Rate.String())
	add("bandwidth", c.dispatcher.flagBandwidth().String())
	return lines, errors.Join(faults...)
}

// maxConfigLine is the longest value in the configuration; longer ones are given by checksum. A bucket takes
// values of a megabyte.
const maxConfigLine = 4 << 10
