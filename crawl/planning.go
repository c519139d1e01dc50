package crawl

import (
	"errors"
	"slices"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/plan"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
)

// Plan divides RAM and disk among the structures.
type Plan = plan.Plan

// MakePlan divides RAM and disk according to the options. It sets their defaults.
func MakePlan(o *Options) (plan.Plan, error) {
	o.defaults()
	return plan.Make(plan.Options{RAMBytes: o.Limits.RAMBytes, DiskBytes: o.Limits.DiskBytes, LeastDisk: o.leastDisk(),
		Dirs: o.Disk.Dirs, AllDirs: len(o.allDirs()), Connections: o.Network.Connections,
		CompressorBytes: warc.CompressorBytes(o.Output.WARCFormat, o.Output.WARCLevel),
		HookProcs:       hook.Procs(o.opened.asker, o.Hook), HookRAM: hook.RAM(o.opened.asker, o.Hook),
		RenderRAM: o.Render.RAM(o.nodes()), ExtractRAM: o.extractRAM(), BackupRAM: o.Backup.RAM(),
		SupportersRAM: o.supportersRAM(),
		BrokerRAM:     o.Limits.BrokerRAM, Nodes: o.nodes(), Walks: o.walks(), TrapScore: o.Budgets.TrapScore,
		Parts: o.Budgets.Parts, Lanes: o.newLanes(), QueuesMax: o.Budgets.QueuesMax,
		QueueBlockBytes: o.Budgets.QueueBlockBytes,
		LeastStock:      o.leastStock(), ContentSeen: o.Output.ContentSeen, CrawlLog: o.Output.CrawlLog,
		Store: o.Output.Store, KeepFree: o.Disk.KeepFree, CheckpointEvery: o.Disk.CheckpointEvery,
		DrumBufferBytes: o.Drum.BufferBytes, DrumChunkBytes: o.Drum.ChunkBytes, DrumBuckets: o.Drum.Buckets,
		DrumWorkers: o.Drum.Workers, DrumBucketBytes: o.Drum.BucketBytes, DrumDiskBytes: o.Drum.DiskBytes,
		CacheRAMBytes: o.Drum.CacheRAMBytes})
}

// CheckStores returns the errors that opening the stores of a plan would return. It detects invalid flags
// before any directory is created.
func (o *Options) CheckStores(plan *Plan) error {
	c := newCrawler(*o)
	c.plan = *plan
	stars, err := c.budgets.StarOptions()
	if err != nil {
		return err
	}
	queues := beast.Options{Set: c.Set, QueuesMax: o.Budgets.QueuesMax}
	return errors.Join(c.seen.SeenStore().Check(), c.check.RobotsStore().Check(), c.requests.RequestedStore().Check(),
		c.seen.NamesStore().Check(), c.content.DrumOptions().Check(), stars.Budgets.Validate(), queues.Validate())
}

// PlannedCluster describes a cluster of equal nodes for a plan. It cannot crawl.
func PlannedCluster(nodes int) (*Cluster, error) {
	t, err := cluster.NewTable(slices.Repeat([]float64{1}, nodes))
	if err != nil {
		return nil, err
	}
	return &Cluster{Table: t}, nil
}

// nodes returns the number of nodes of the crawl.
func (o *Options) nodes() int {
	if o.Cluster == nil {
		return 1
	}
	return o.Cluster.Table.Nodes()
}

// budgetShare returns the share of all PLDs that this node has; 0 if there is one node.
func (o *Options) budgetShare() float64 {
	if o.Cluster == nil {
		return 0
	}
	return float64(o.Cluster.Table.Share(o.Cluster.Node)) / cluster.Slots
}

// supportersRAM returns the least of the Go heap that a computation of supporters takes, 0 if the flags
// need none.
func (o *Options) supportersRAM() int64 {
	if string(o.Budgets.Policy) != star.Supporters.String() || o.Admission.Scope != state.ScopeAll {
		return 0
	}
	return star.LeastSupportRAM + star.MostVoteBytes
}
