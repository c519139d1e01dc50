package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/state"
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
func (s *clusterStage) configLines() ([]string, error) {
	o := &s.opt
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
	add("suffix list", s.Suffixes.Digest())
	add("agent", o.Identity.Agent)
	add("contact", o.Identity.Contact)
	add("user agent", o.Identity.UserAgent)
	add("seeds", s.seedsText())
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
	add("bandwidth", s.dispatcher.flagBandwidth().String())
	return append(lines, s.gone.line()...), errors.Join(faults...)
}

// maxConfigLine is the longest value in the configuration; longer ones are given by checksum. A bucket takes
// values of a megabyte.
const maxConfigLine = 4 << 10

// configure computes the configuration of this node. It reads the files of rules.
func (s *clusterStage) configure() error {
	lines, err := s.configLines()
	if err == nil {
		s.config = cluster.NewConfig(lines)
		s.configNow.Store(s.config)
	}
	return err
}

// agree compares the configuration with that of the cluster, or writes it if there is none. An unreachable
// broker is no error: keepConfig tries again later.
func (s *clusterStage) agree(ctx context.Context) error {
	if !s.on() {
		return nil
	}
	if err := s.configure(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agreePatience)
	defer cancel()
	for {
		err := s.compareConfig(ctx)
		if err == nil {
			return s.outs.dropAbandoned()
		}
		if errors.Is(err, state.ErrIncompatible) {
			return err
		}
		if errors.Is(err, cluster.ErrExists) || errors.Is(err, cluster.ErrChanged) { // another node was first
			continue
		}
		if !account.Sleep(ctx, transportRetry) {
			s.opt.Observe.Log.Warn(
				"the configuration will be compared with that of the other nodes when the broker answers", "error", err)
			return s.outs.dropAbandoned()
		}
	}
}

// The time after which a node crawls without a comparison of its configuration if no broker answers, and the
// interval of comparisons.
const (
	agreePatience = 5 * time.Second
	configEvery   = time.Minute
)

// keepConfig compares the configuration at intervals: the broker may lose it, and other nodes may change it.
func (s *clusterStage) keepConfig(ctx context.Context) error {
	for ctx.Err() == nil {
		if s.reloads.Swap(0) > 0 {
			was := s.config
			if err := s.configure(); err != nil {
				s.opt.Observe.Log.Error("the configuration of the cluster is unchanged: the files have errors", "error",
					err)
			}
			s.replacing = s.replacing || s.config.Digest != was.Digest
		}
		every := configEvery
		if err := s.compareConfig(ctx); errors.Is(err, state.ErrIncompatible) {
			return err
		} else if err != nil {
			every = transportRetry
		}
		s.Await(ctx, s.wakeConfig, every)
	}
	return nil
}

// reloaded notes a reload of files of rules.
func (s *clusterStage) reloaded() {
	if s.on() {
		s.reloads.Add(1)
		s.wakeConfig.Raise()
	}
}

// compareConfig compares the configuration with that in the bucket once. It writes a missing one, or replaces
// it if this node reconfigures. Before the first success, a difference is an error; later it is a warning.
func (s *clusterStage) compareConfig(ctx context.Context) error {
	e := s.opt.Cluster.Transport
	v, err := e.Get(ctx, cluster.BucketCrawl, cluster.ConfigKey)
	if errors.Is(err, cluster.ErrNotFound) {
		data, err := s.config.Encode()
		if err == nil {
			_, err = e.Create(ctx, cluster.BucketCrawl, cluster.ConfigKey, data)
		}
		if err == nil {
			s.agreed, s.replacing = true, false
		}
		return err
	}
	if err != nil {
		return err
	}
	other, err := cluster.DecodeConfig(v.Data)
	var missed, ahead bool
	if err == nil {
		if missed, ahead, err = s.checkAbandoned(other); err != nil {
			return err
		}
	}
	switch {
	case err == nil && other.Digest == s.config.Digest:
		s.agreed, s.replacing, s.warned = true, false, ""
		return nil
	case missed && !s.agreed:
		return fmt.Errorf("crawl: the cluster has abandoned nodes %v, this node %v: give it the same --give-up-node; "+
			"an abandoned node cannot return: %w", other.Abandoned(), s.gone.nodes(), state.ErrIncompatible)
	case !missed && (s.replacing || !s.agreed && s.opt.Cluster.Reconfigure || ahead):
		data, err := s.config.Encode()
		if err == nil {
			_, err = e.Update(ctx, cluster.BucketCrawl, cluster.ConfigKey, data, v.Revision)
		}
		if err == nil {
			s.agreed, s.replacing = true, false
			s.opt.Observe.Log.Warn("this node has replaced the configuration of the cluster: give it to all nodes")
		}
		return err
	case err != nil && !s.agreed:
		return fmt.Errorf("crawl: the configuration that another node has written: %w: %w", err, state.ErrIncompatible)
	case err != nil:
		if s.warned != err.Error() {
			s.warned = err.Error()
			s.opt.Observe.Log.Warn("the configuration that another node has written is refused: this node continues "+
				"with its own", "error", err)
		}
		return nil
	case !s.agreed:
		return fmt.Errorf("crawl: the options of this node differ from those of the cluster: %s "+
			"(--cluster-reconfigure makes them those of the cluster; "+
			"give them to all nodes): %w", strings.Join(other.Differ(s.config), "; "), state.ErrIncompatible)
	}
	if s.warned != other.Digest {
		s.warned = other.Digest
		s.opt.Observe.Log.Warn(
			"the nodes have different configurations: reload the rules here or there, or start the nodes again",
			"differences", strings.Join(other.Differ(s.config), "; "))
	}
	return nil
}

// checkAbandoned compares the abandoned nodes of the cluster's configuration with those of this node. missed:
// the cluster has abandoned nodes that this one awaits. ahead: this one has abandoned more, and the broker
// has lost that configuration, or an abandoned node has written its own; then this node replaces it.
func (s *clusterStage) checkAbandoned(other *cluster.Config) (missed, ahead bool, _ error) {
	theirs := other.Abandoned()
	if slices.Contains(theirs, s.node) {
		return false, false, s.gone.err()
	}
	for node, gone := range s.gone.gone {
		in := slices.Contains(theirs, node)
		missed, ahead = missed || in && !gone, ahead || gone && !in && s.outs.boxes[node].Abandoned()
	}
	return missed, ahead && (s.agreed || other.SameBut(s.config, cluster.AbandonedName)), nil
}
