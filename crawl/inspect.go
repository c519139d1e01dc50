package crawl

import (
	"drumbeat/crawl/figures"
	"drumbeat/crawl/plan"
	"drumbeat/drum"
	"drumbeat/state"
)

// inspect returns the state of the structures on disk.
func (c *crawler) inspect() *figures.Structures {
	edges, indegree := c.budgets.Star.Stats()
	p := &c.plan
	inForce := c.strategy.Load()
	s := &figures.Structures{Beast: c.budgets.Beast.Stats(), Lanes: c.budgets.Beast.LaneStats(),
		Spread: c.budgets.Beast.Queues(), Priority: inForce.Name, Weights: inForce.Weights}
	type drumOf struct {
		name  string
		stats drum.Stats
		plan  plan.DrumPlan
	}
	drums := []drumOf{
		{state.NameURLSeen, c.seen.URLSeen.Stats(), p.URLSeen}, {figures.PartEdges, edges, p.Edges},
		{figures.PartIndegree, indegree, p.Indegree},
		{state.NameRobotsCache, c.check.RobotsCache.Stats(), p.RobotsCache},
		{state.NameRobotsRequested, c.requests.RobotsRequested.Stats(), p.RobotsRequested},
		{state.NameNames, c.seen.Names.Stats(), p.Names}, {state.NameContent, c.content.Drum.Stats(), p.Content},
	}
	if d := c.budgets.HostLinks; d != nil {
		drums = append(drums, drumOf{state.NameHostLinks, d.Stats(), p.HostLinks})
	}
	for _, d := range drums {
		info := figures.DrumInfo{Name: d.name, Stats: d.stats, Buckets: d.plan.Buckets,
			Running: d.stats.SealedBuckets > 0}
		if n := float64(d.stats.Merged); n > 0 {
			info.TupleIO, info.PredictedIO = float64(d.stats.IOBytes()-d.stats.IntakeBytes-d.stats.SealedBytes)/n,
				d.stats.PredictedIO/n
		}
		// Its model knows the texts.
		if check := c.seen.Measured(); check != nil && d.name == state.NameURLSeen {
			info.TupleIO, info.PredictedIO = check.Bytes, check.Predicted
		}
		s.Drums = append(s.Drums, info)
	}
	for _, q := range []struct {
		name string
		q    interface {
			Len() (int64, int64)
			DiskBytes() int64
		}
	}{
		{state.NameAwaitRobots, c.requests.AwaitRobots}, {state.NameRobotsFetch, c.requests.RobotsFetch},
		{"robotsdeferred", c.requests.RobotsDeferred}, {state.NameReady, c.dispatcher.Ready},
		{"deferred", c.deferrals.Deferred}, {state.NameHeld, c.deferrals.Held},
		{state.NameRender, c.render.Queue}, {state.NameOrdered, c.operator.Ordered},
		{state.NameObjects, c.uploads.Objects}, {state.NameWalkLog, c.walk.Log},
	} {
		records, bytes := q.q.Len()
		s.Queues = append(s.Queues,
			figures.QueueInfo{Name: q.name, Records: records, Bytes: bytes, DiskBytes: q.q.DiskBytes()})
	}
	if c.node.On() {
		q := *c.node.Quarantine()
		records, bytes := q.Len()
		s.Queues = append(s.Queues,
			figures.QueueInfo{Name: state.NameQuarantine, Records: records, Bytes: bytes, DiskBytes: q.DiskBytes()})
	}
	return s
}
