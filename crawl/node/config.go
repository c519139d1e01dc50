package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// configKeeper compares the configuration of this node with that of the cluster. Its goroutine is "config".
// reloaded and digest are safe for concurrent use; the rest belongs to that goroutine, and before it to that of the
// start.
type configKeeper struct {
	run     *account.Run
	opt     *Options
	gone    *abandoned
	lines   func() ([]string, error) // the configuration of this node; it reads the files of rules
	dropped func(node int) bool      // the outbox for an abandoned node has dropped its records

	config            *cluster.Config
	agreed, replacing bool         // compared successfully; this node writes its own
	warned            string       // digest of the last configuration with a warning
	reloads           atomic.Int64 // reloads of rules that config lacks
	wake              account.Signal
	now               atomic.Pointer[cluster.Config] // config, for other goroutines
}

// configure computes the configuration of this node. It reads the files of rules.
func (k *configKeeper) configure() error {
	lines, err := k.lines()
	if err == nil {
		k.config = cluster.NewConfig(append(lines, k.gone.line()...))
		k.now.Store(k.config)
	}
	return err
}

// agree compares the configuration with that of the cluster, or writes it if there is none. An unreachable
// broker is no error: keep tries again later.
func (k *configKeeper) agree(ctx context.Context) error {
	if err := k.configure(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agreePatience)
	defer cancel()
	for {
		err := k.compare(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, state.ErrIncompatible) {
			return err
		}
		if errors.Is(err, cluster.ErrExists) || errors.Is(err, cluster.ErrChanged) { // another node was first
			continue
		}
		if !account.Sleep(ctx, transportRetry) {
			k.opt.Log.Warn(
				"the configuration will be compared with that of the other nodes when the broker answers", "error", err)
			return nil
		}
	}
}

// The time after which a node crawls without a comparison of its configuration if no broker answers, and the
// interval of comparisons.
const (
	agreePatience = 5 * time.Second
	configEvery   = time.Minute
)

// keep compares the configuration at intervals: the broker may lose it, and other nodes may change it.
func (k *configKeeper) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		if k.reloads.Swap(0) > 0 {
			was := k.config
			if err := k.configure(); err != nil {
				k.opt.Log.Error("the configuration of the cluster is unchanged: the files have errors", "error",
					err)
			}
			k.replacing = k.replacing || k.config.Digest != was.Digest
		}
		every := configEvery
		if err := k.compare(ctx); errors.Is(err, state.ErrIncompatible) {
			return err
		} else if err != nil {
			every = transportRetry
		}
		k.run.Await(ctx, k.wake, every)
	}
	return nil
}

// reloaded notes a reload of files of rules.
func (k *configKeeper) reloaded() {
	k.reloads.Add(1)
	k.wake.Raise()
}

// compare compares the configuration with that in the bucket once. It writes a missing one, or replaces
// it if this node reconfigures. Before the first success, a difference is an error; later it is a warning.
func (k *configKeeper) compare(ctx context.Context) error {
	e := k.opt.Transport
	v, err := e.Get(ctx, cluster.BucketCrawl, cluster.ConfigKey)
	if errors.Is(err, cluster.ErrNotFound) {
		data, err := k.config.Encode()
		if err == nil {
			_, err = e.Create(ctx, cluster.BucketCrawl, cluster.ConfigKey, data)
		}
		if err == nil {
			k.agreed, k.replacing = true, false
		}
		return err
	}
	if err != nil {
		return err
	}
	other, err := cluster.DecodeConfig(v.Data)
	var missed, ahead bool
	if err == nil {
		if missed, ahead, err = k.checkAbandoned(other); err != nil {
			return err
		}
	}
	switch {
	case err == nil && other.Digest == k.config.Digest:
		k.agreed, k.replacing, k.warned = true, false, ""
		return nil
	case missed && !k.agreed:
		return fmt.Errorf("crawl: the cluster has abandoned nodes %v, this node %v: give it the same --give-up-node; "+
			"an abandoned node cannot return: %w", other.Abandoned(), k.gone.nodes(), state.ErrIncompatible)
	case !missed && (k.replacing || !k.agreed && k.opt.Reconfigure || ahead):
		data, err := k.config.Encode()
		if err == nil {
			_, err = e.Update(ctx, cluster.BucketCrawl, cluster.ConfigKey, data, v.Revision)
		}
		if err == nil {
			k.agreed, k.replacing = true, false
			k.opt.Log.Warn("this node has replaced the configuration of the cluster: give it to all nodes")
		}
		return err
	case err != nil && !k.agreed:
		return fmt.Errorf("crawl: the configuration that another node has written: %w: %w", err, state.ErrIncompatible)
	case err != nil:
		if k.warned != err.Error() {
			k.warned = err.Error()
			k.opt.Log.Warn("refused the configuration of another node: this node continues "+
				"with its own", "error", err)
		}
		return nil
	case !k.agreed:
		return fmt.Errorf("crawl: the options of this node differ from those of the cluster: %s "+
			"(limits without a flag follow from --ram and --disk, so give all nodes the same ones; "+
			"--cluster-reconfigure makes the options of this node the cluster's): %w",
			strings.Join(other.Differ(k.config), "; "), state.ErrIncompatible)
	}
	if k.warned != other.Digest {
		k.warned = other.Digest
		k.opt.Log.Warn(
			"the nodes have different configurations: reload the rules here or there, or start the nodes again",
			"differences", strings.Join(other.Differ(k.config), "; "))
	}
	return nil
}

// checkAbandoned compares the abandoned nodes of the cluster's configuration with those of this node. missed:
// the cluster has abandoned nodes that this one awaits. ahead: this one has abandoned more, and the broker
// has lost that configuration, or an abandoned node has written its own; then this node replaces it.
func (k *configKeeper) checkAbandoned(other *cluster.Config) (missed, ahead bool, _ error) {
	theirs := other.Abandoned()
	if slices.Contains(theirs, k.opt.Node) {
		return false, false, k.gone.err()
	}
	for node, gone := range k.gone.flags() {
		if k.gone.left[node] { // the table says so
			continue
		}
		in := slices.Contains(theirs, node)
		missed, ahead = missed || in && !gone, ahead || gone && !in && k.dropped(node)
	}
	return missed, ahead && (k.agreed || other.SameBut(k.config, cluster.AbandonedName)), nil
}

// digest returns the digest of the configuration; "" before there is one.
func (k *configKeeper) digest() string {
	if config := k.now.Load(); config != nil {
		return config.Digest
	}
	return ""
}
