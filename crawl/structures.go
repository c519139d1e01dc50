package crawl

import (
	"drumbeat/admit"
	"drumbeat/beast"
	"drumbeat/crawl/budgets"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/pass"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
)

// openStructures opens all structures on disk at the state in a manifest, nil for a new crawl.
func (c *crawler) openStructures(m *state.Manifest) error {
	c.budgets.OpenCache()
	c.seen.OpenCaches()
	stars, err := c.starOptions()
	if err != nil {
		return err
	}
	pool := new(queue.Pool)
	queues := func(name string) queue.Options {
		return queue.Options{Set: c.Set, Name: name, BlockBytes: c.plan.QueueBlockBytes, Pool: pool}
	}
	drums := func(name string, at **drum.Drum, opt drum.Options) *checkpoint.Structure {
		return checkpoint.Row(name, at, func(st *drum.State) (*drum.Drum, error) { return drum.Open(opt, st) })
	}
	fifo := func(name string, at **queue.Queue) *checkpoint.Structure {
		return checkpoint.Row(name, at, func(st *queue.State) (*queue.Queue, error) {
			return queue.Open(queues(name), st)
		})
	}
	calendar := func(name string, at **queue.Calendar) *checkpoint.Structure {
		return checkpoint.Row(name, at, func(st *queue.CalendarState) (*queue.Calendar, error) {
			return queue.OpenCalendar(queues(name), st)
		})
	}
	log := func(name, prefix string, at **crawllog.Log) *checkpoint.Structure {
		return checkpoint.Row(name, at, func(st *crawllog.State) (*crawllog.Log, error) {
			return crawllog.Open(crawllog.Options{Set: c.Set, Prefix: prefix, Mode: c.opt.Output.OutMode}, st)
		})
	}
	err = c.checkpointer.OpenAll(append(c.structuresOf(queues), []*checkpoint.Structure{
		// First, since the emissions of a store may take a second: a checkpoint pauses the others after it.
		drums(state.NameContent, &c.content.Drum, c.content.DrumOptions()),
		drums(state.NameURLSeen, &c.seen.URLSeen, c.seen.SeenStore()),
		checkpoint.Row(state.NameStar, &c.budgets.Star, func(st *star.State) (*star.Star, error) {
			return star.Open(stars, st)
		}),
		drums(state.NameNames, &c.seen.Names, c.seen.NamesStore()),
		checkpoint.Row(state.NameBeast, &c.budgets.Beast, func(st *beast.State) (*beast.Lanes, error) {
			return beast.OpenLanes(beast.Options{Set: c.Set, Name: state.NameBeast, QueuesMax: c.opt.Budgets.QueuesMax,
				BlockBytes: c.plan.QueueBlockBytes}, budgets.TurnsOf(c.strategy.Load()), st)
		}),
		drums(state.NameRobotsCache, &c.check.RobotsCache, c.check.RobotsStore()),
		drums(state.NameRobotsRequested, &c.requests.RobotsRequested, c.requests.RequestedStore()),
		fifo(state.NameAwaitRobots, &c.requests.AwaitRobots),
		fifo(state.NameRobotsFetch, &c.requests.RobotsFetch),
		calendar(state.NameRobotsDeferred, &c.requests.RobotsDeferred),
		fifo(state.NameReady, &c.dispatcher.Ready),
		fifo(state.NameHeld, &c.deferrals.Held),
		fifo(state.NameRender, &c.render.Queue),
		fifo(state.NameOrdered, &c.operator.Ordered),
		fifo(state.NameObjects, &c.uploads.Objects),
		fifo(state.NameWalkLog, &c.walk.Log),
		calendar(state.NameDeferred, &c.deferrals.Deferred),
		checkpoint.Row(state.NameWARC, &c.output.WARC, func(st *warc.State) (*warc.Writer, error) {
			return warc.Open(c.output.WARCOptions(), st)
		}),
		log(state.NameCrawlLog, "crawl", &c.output.CrawlLog),
		log(state.NameSeedLog, "seeds", &c.output.SeedLog),
		log(state.NameRobotsLog, "robots", &c.output.RobotsLog),
	}...), m)
	if err != nil {
		return err
	}
	c.passes.SetMergers([]*pass.Merger{c.seen.OpenMerger(), c.budgets.OpenMerger(), c.check.OpenMerger(),
		c.requests.OpenMerger()})
	return c.openContents(m)
}

// structuresOf returns the structures that depend on the options.
func (c *crawler) structuresOf(queues func(name string) queue.Options) []*checkpoint.Structure {
	list := c.nodeStructures(queues)
	if c.opt.Budgets.Parts != state.ByPLDs {
		list = append(list, checkpoint.Row(state.NameHostLinks, &c.budgets.HostLinks, c.budgets.OpenHostLinks))
	}
	return list
}

// starOptions returns the options of STAR, with the prior in-degrees.
func (c *crawler) starOptions() (star.Options, error) {
	opt, err := c.budgets.StarOptions()
	if err == nil {
		opt.Priors, _, err = admit.ReadRanks(c.opt.Disk.FS, c.opt.Budgets.DomainRanks, c.PLDKey)
	}
	return opt, err
}
