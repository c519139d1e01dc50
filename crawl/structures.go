package crawl

import (
	"encoding/json"
	"fmt"

	"drumbeat/beast"
	"drumbeat/crawl/pass"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
)

// structure is one structure that the crawl has on disk. The table of structures determines what is opened,
// frozen, saved in a checkpoint, and closed.
type structure struct {
	name     string
	open     func(m *state.Manifest) error
	freeze   func() frozenPart // nil until opened, like close
	close    func() error
	pausable pausable // nil unless it emits
}

// frozenPart is the frozen state of a structure on its way into the manifest (docs/ARCHITECTURE.md,
// "Checkpoints").
type frozenPart struct {
	name   string
	save   func(*disk.Tails) (json.RawMessage, error)
	commit func() error
}

// store is the interface of the structures on disk, with state S and frozen form F.
type store[S any, F frozenStore[S]] interface {
	Freeze() F
	Close() error
}

type frozenStore[S any] interface {
	Save(*disk.Tails) (*S, error)
	Commit() error
}

// row returns a row of the table. open opens the structure at a state, nil for a new one, and row stores it
// at at.
func row[S any, F frozenStore[S], T store[S, F]](name string, at *T, open func(*S) (T, error)) *structure {
	r := &structure{name: name}
	r.open = func(m *state.Manifest) error {
		st, err := state.Part[S](m, name)
		if err != nil {
			return err
		}
		s, err := open(st)
		if err != nil {
			return err
		}
		*at = s
		r.pausable, _ = any(s).(pausable)
		r.close, r.freeze = s.Close, func() frozenPart { return freezePart(name, s.Freeze()) }
		return nil
	}
	return r
}

func freezePart[S any](name string, f frozenStore[S]) frozenPart {
	return frozenPart{
		name: name,
		save: func(t *disk.Tails) (json.RawMessage, error) {
			s, err := f.Save(t)
			if err != nil {
				return nil, fmt.Errorf("crawl: checkpoint of %s: %w", name, err)
			}
			return json.Marshal(s)
		},
		commit: func() error {
			if err := f.Commit(); err != nil {
				return fmt.Errorf("crawl: after checkpoint of %s: %w", name, err)
			}
			return nil
		},
	}
}

// openStructures opens all structures on disk at the state in a manifest, nil for a new crawl.
func (c *crawler) openStructures(m *state.Manifest) error {
	c.budgets.openCache()
	c.seen.openCaches()
	stars, err := c.budgets.starOptions()
	if err != nil {
		return err
	}
	pool := new(queue.Pool)
	queues := func(name string) queue.Options {
		return queue.Options{Set: c.Set, Name: name, BlockBytes: c.plan.QueueBlockBytes, Pool: pool}
	}
	drums := func(name string, at **drum.Drum, opt drum.Options) *structure {
		return row(name, at, func(st *drum.State) (*drum.Drum, error) { return drum.Open(opt, st) })
	}
	fifo := func(name string, at **queue.Queue) *structure {
		return row(name, at, func(st *queue.State) (*queue.Queue, error) { return queue.Open(queues(name), st) })
	}
	calendar := func(name string, at **queue.Calendar) *structure {
		return row(name, at, func(st *queue.CalendarState) (*queue.Calendar, error) {
			return queue.OpenCalendar(queues(name), st)
		})
	}
	log := func(name, prefix string, at **crawllog.Log) *structure {
		return row(name, at, func(st *crawllog.State) (*crawllog.Log, error) {
			return crawllog.Open(crawllog.Options{Set: c.Set, Prefix: prefix, Mode: c.opt.Output.OutMode}, st)
		})
	}
	err = c.checkpointer.openAll(append(c.nodeStructures(queues), []*structure{
		// First, since the emissions of a store may take a second: a checkpoint pauses the others after it.
		drums(state.NameContent, &c.content.Drum, c.content.DrumOptions()),
		drums(state.NameURLSeen, &c.seen.urlSeen, c.seen.seenStore()),
		row(state.NameStar, &c.budgets.star, func(st *star.State) (*star.Star, error) { return star.Open(stars, st) }),
		drums(state.NameNames, &c.seen.names, c.seen.namesStore()),
		row(state.NameBeast, &c.budgets.beast, func(st *beast.State) (*beast.Lanes, error) {
			return beast.OpenLanes(beast.Options{Set: c.Set, Name: state.NameBeast, QueuesMax: c.opt.Budgets.QueuesMax,
				BlockBytes: c.plan.QueueBlockBytes}, turnsOf(c.strategy.Load()), st)
		}),
		drums(state.NameRobotsCache, &c.check.RobotsCache, c.check.RobotsStore()),
		drums(state.NameRobotsRequested, &c.requests.RobotsRequested, c.requests.RequestedStore()),
		fifo(state.NameAwaitRobots, &c.requests.AwaitRobots),
		fifo(state.NameRobotsFetch, &c.requests.RobotsFetch),
		calendar(state.NameRobotsDeferred, &c.requests.RobotsDeferred),
		fifo(state.NameReady, &c.dispatcher.ready),
		fifo(state.NameHeld, &c.deferrals.held),
		fifo(state.NameRender, &c.render.Queue),
		fifo(state.NameOrdered, &c.operator.ordered),
		fifo(state.NameObjects, &c.uploads.Objects),
		fifo(state.NameWalkLog, &c.walk.Log),
		calendar(state.NameDeferred, &c.deferrals.deferred),
		row(state.NameWARC, &c.output.WARC, func(st *warc.State) (*warc.Writer, error) {
			return warc.Open(c.output.WARCOptions(), st)
		}),
		log(state.NameCrawlLog, "crawl", &c.output.CrawlLog),
		log(state.NameSeedLog, "seeds", &c.output.SeedLog),
		log(state.NameRobotsLog, "robots", &c.output.RobotsLog),
	}...), m)
	if err != nil {
		return err
	}
	c.seen.openMerger()
	c.budgets.openMerger()
	c.passes.SetMergers([]*pass.Merger{c.seen.merges, c.budgets.merges, c.check.OpenMerger(),
		c.requests.OpenMerger()})
	return c.content.Open(m)
}
