package crawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/state"
)

// configCluster is two nodes with a blacklist on each one's disk.
func configCluster(t *testing.T) *testCluster {
	web := sizedWeb(t, 10, 20, 200)
	c := newCluster(t, web, 2, mem.Faults{}, func(_ int, o *Options) {
		o.Admission.Blacklist = []string{"blacklist"}
		o.Cluster.LeaseTTL = lease.LeastTTL
		o.Identity.Version, o.Identity.UserAgent = "0.1.0-devel", "drumbeat/0.1.0-devel (+a@example.org)"
	})
	for node := range c.options {
		c.blacklist(node, "- host none.test\n")
	}
	return c
}

// blacklist writes the blacklist of a node.
func (c *testCluster) blacklist(node int, text string) {
	c.t.Helper()
	if err := disk.WriteFileAtomic(c.options[node].Disk.FS, "blacklist", []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// shared returns the lines of the configuration in the bucket.
func (c *testCluster) shared() []string {
	c.t.Helper()
	v, err := c.engines[0].Get(c.t.Context(), cluster.BucketCrawl, cluster.ConfigKey)
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := cluster.DecodeConfig(v.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	return config.Lines
}

// clusterConfigCases are the cases of TestClusterConfig.
var clusterConfigCases = map[string]func(o *Options){
	"depth is 3 here, ":           func(o *Options) { o.Limits.MaxDepth = 3 },
	"networks that several nodes": func(o *Options) { o.Cluster.LeaseTTL = DefaultLeaseTTL },
	"agent is ":                   func(o *Options) { o.Identity.Agent = "other" },
	"user agent is ":              func(o *Options) { o.Identity.UserAgent = "drumbeat/2 (+a@example.org)" },
	"server delay is ":            func(o *Options) { o.Politeness.ServerDelay++ },
	"network rate":                func(o *Options) { o.Politeness.NetworkRate = 7 },
	"seeds is ": func(o *Options) {
		o.Admission.SeedLines, o.Admission.Seeds = []string{"http://other.test/"}, ""
	},
	"pages is 5 here, 0 there": func(o *Options) { o.Limits.MaxPages = 5 },
	"blacklist is [] here, [":  func(o *Options) { o.Admission.Blacklist = nil },
	"sites is [":               func(o *Options) { o.Admission.Sites = "blacklist" },
	"URL rules is ":            func(o *Options) { o.Admission.URLRules.MaxPathDepth = 3 },
	"limits of bodies is [{\"Type\"": func(o *Options) {
		o.Network.BodyCaps = []BodyCap{{Type: "text/html", Bytes: 70_000}}
	},
}

// TestClusterConfig: a node with other options, seeds or rules than the first one is refused, and its error
// names what differs. Names of files, and the program's version, do not matter. A node that is told to replaces the
// configuration.
func TestClusterConfig(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := configCluster(t)
		defer c.close()
		o := c.options[0]
		o.Limits.MaxTime = time.Minute
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for want, change := range clusterConfigCases {
			o := c.options[1]
			of := *o.Cluster
			o.Cluster = &of
			change(&o)
			if o.Admission.Sites != "" {
				c.blacklist(1, "")
			}
			_, err := Run(t.Context(), o)
			if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			c.blacklist(1, "- host none.test\n")
		}
		n := len(c.web.Log().Snapshot().Fetches)
		o = c.options[1]
		o.Admission.Blacklist = []string{"another"}
		must(t, disk.WriteFileAtomic(o.Disk.FS, "another", []byte("- host none.test\n")))
		o.Identity.Version, o.Identity.UserAgent = "0.7.0", "drumbeat/0.7.0 (+a@example.org)"
		o.Limits.MaxTime = time.Minute
		if _, err := Run(t.Context(), o); err != nil {
			t.Error("another name of a file and version of the program: ", err)
		}
		if len(c.web.Log().Snapshot().Fetches) == n {
			t.Error("the node has fetched nothing")
		}
		for node := range c.options {
			c.options[node].Limits.MaxDepth = 4
		}
		c.options[1].Cluster.Reconfigure = true
		o = c.options[1]
		o.Limits.MaxTime = 2 * time.Minute
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		if text := strings.Join(c.shared(), "\n"); !strings.Contains(text, "depth: 4\n") {
			t.Errorf("the configuration is %s", text)
		}
		for node, r := range c.run(t.Context()) {
			if r.Stop != StopDone {
				t.Errorf("node %d: %s", node, r.Stop)
			}
		}
	})
}

// TestClusterConfigShare: the nodes of an older release may have shared networks by rates, not by leases. A
// node of this one does not join them: it says what differs, and replaces the configuration if it is told to.
func TestClusterConfigShare(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := configCluster(t)
		defer c.close()
		for node := range c.options {
			c.options[node].Limits.MaxTime = time.Minute
		}
		if _, err := Run(t.Context(), c.options[0]); err != nil {
			t.Fatal(err)
		}
		lines := c.shared()
		at := slices.Index(lines, `networks that several nodes visit: ["lease",3]`)
		if at < 0 {
			t.Fatalf("the configuration is %q", lines)
		}
		lines[at] = `networks that several nodes visit: ["share",3]`
		old, err := cluster.NewConfig(lines).Encode()
		must(t, err)
		if _, err := c.engines[0].Put(t.Context(), cluster.BucketCrawl, cluster.ConfigKey, old); err != nil {
			t.Fatal(err)
		}
		want := `networks that several nodes visit is ["lease",3] here, ["share",3] there`
		_, err = Run(t.Context(), c.options[1])
		if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		c.options[1].Cluster.Reconfigure = true
		if _, err := Run(t.Context(), c.options[1]); err != nil {
			t.Error(err)
		}
		if !slices.Contains(c.shared(), `networks that several nodes visit: ["lease",3]`) {
			t.Errorf("the configuration is %q", c.shared())
		}
	})
}

// TestClusterConfigAway: a node that starts while the broker is away crawls, and stops once the broker says
// that its options differ. A configuration that the broker loses is written again.
func TestClusterConfigAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := configCluster(t)
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := Run(ctx, c.options[0]); first <- err }()
		account.Sleep(ctx, 10*time.Second)
		want := strings.Join(c.shared(), "\n")
		must(t, c.engines[0].Delete(ctx, cluster.BucketCrawl, cluster.ConfigKey, 0))
		account.Sleep(ctx, 2*time.Minute) // it is compared each minute
		if got := strings.Join(c.shared(), "\n"); got != want {
			t.Errorf("the configuration is %s\n\nwas %s", got, want)
		}
		c.net.Cut(1)
		o := c.options[1]
		o.Limits.MaxDepth = 3
		second := make(chan error, 1)
		before := time.Now()
		go func() { _, err := Run(t.Context(), o); second <- err }()
		account.Sleep(ctx, time.Minute)
		select {
		case err := <-second:
			t.Fatalf("it has ended without the broker: %v", err)
		default:
		}
		c.net.Heal(1)
		if err := <-second; !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), "depth") {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
		cancel()
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestClusterConfigReload: the first node whose rules are reloaded writes the new configuration. A node with
// the old rules continues; one that starts with them is refused.
func TestClusterConfigReload(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := configCluster(t)
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		reload := make(chan struct{})
		c.options[0].Admission.Reload = reload
		for node := range c.options {
			o := c.options[node]
			go func() { _, err := Run(ctx, o); ended <- err }()
		}
		account.Sleep(ctx, 2*time.Second)
		before := strings.Join(c.shared(), "\n")
		c.blacklist(0, "- host other.test\n")
		reload <- struct{}{}
		account.Sleep(ctx, 2*time.Second)
		if after := strings.Join(c.shared(), "\n"); after == before {
			t.Error("the configuration has not changed")
		}
		select {
		case err := <-ended:
			t.Fatalf("a node has ended: %v", err)
		default:
		}
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if _, err := Run(t.Context(), c.options[1]); !errors.Is(err, state.ErrIncompatible) {
			t.Errorf("a node with the old blacklist: %v", err)
		}
		c.blacklist(1, "- host other.test\n")
		for node, r := range c.run(t.Context()) {
			if r.Stop != StopDone {
				t.Errorf("node %d: %s", node, r.Stop)
			}
		}
	})
}

// TestClusterConfigDamaged: nodes that have agreed continue when the shared configuration becomes one that
// they cannot read.
func TestClusterConfigDamaged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := configCluster(t)
		defer c.close()
		for node := range c.options { // they compare once a minute
			c.options[node].Politeness.HostDelay, c.options[node].Politeness.HostDelayMin = 20*time.Second,
				20*time.Second
		}
		damaged := make(chan error, 1)
		go func() {
			time.Sleep(5 * time.Second)
			v, err := c.engines[0].Get(t.Context(), cluster.BucketCrawl, cluster.ConfigKey)
			if err == nil {
				_, err = c.engines[0].Update(t.Context(), cluster.BucketCrawl, cluster.ConfigKey,
					[]byte("{"), v.Revision)
			}
			damaged <- err
		}()
		for node, r := range c.run(t.Context()) {
			if r.Stop != StopDone {
				t.Errorf("node %d: %v", node, r.Stop)
			}
		}
		if err := <-damaged; err != nil {
			t.Error(err)
		}
	})
}
