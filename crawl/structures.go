package crawl

import (
	"encoding/json"
	"fmt"

	"drumbeat/beast"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/warc"
)

// structure is a row of the table of all that a crawl has on disk: by it they are opened, frozen, saved in a checkpoint, and closed.
type structure struct {
	name   string
	open   func(m *state.Manifest) error
	freeze func() frozenPart // nil until it is open, as close is
	close  func() error
}

// A frozenPart is a structure's state of one moment on its way into the manifest (disk package comment, "Checkpoints").
type frozenPart struct {
	name   string
	save   func(*disk.Tails) (json.RawMessage, error)
	commit func() error
}

// store is what each structure on disk offers, with its state S and its frozen form F.
type store[S any, F frozenStore[S]] interface {
	Freeze() F
	Close() error
}

type frozenStore[S any] interface {
	Save(*disk.Tails) (*S, error)
	Commit() error
}

// row makes a row: at is where the structure is kept, open opens it at a state, nil for a new one.
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

// openStructures opens all that the crawl has on disk at the state that a manifest names, nil for a new crawl.
func (r *ring) openStructures(m *state.Manifest) error {
	r.recentEdges = drum.NewRAMCache(r.plan.EdgeCacheBytes)
	r.recentNames = drum.NewRAMCache(r.plan.NameCacheBytes)
	stars, err := r.starOptions()
	if err != nil {
		return err
	}
	pool := new(queue.Pool)
	queues := func(name string) queue.Options {
		return queue.Options{Set: r.Set, Name: name, BlockBytes: r.plan.QueueBlockBytes, Pool: pool}
	}
	drums := func(name string, at **drum.Drum, opt drum.Options) *structure {
		return row(name, at, func(st *drum.State) (*drum.Drum, error) { return drum.Open(opt, st) })
	}
	fifo := func(name string, at **queue.Queue) *structure {
		return row(name, at, func(st *queue.State) (*queue.Queue, error) { return queue.Open(queues(name), st) })
	}
	calendar := func(name string, at **queue.Calendar) *structure {
		return row(name, at, func(st *queue.CalendarState) (*queue.Calendar, error) { return queue.OpenCalendar(queues(name), st) })
	}
	log := func(name, prefix string, at **crawllog.Log) *structure {
		return row(name, at, func(st *crawllog.State) (*crawllog.Log, error) {
			return crawllog.Open(crawllog.Options{Set: r.Set, Prefix: prefix, Mode: r.opt.OutMode}, st)
		})
	}
	r.structures = []*structure{
		drums(state.NameURLSeen, &r.urlSeen, r.seenStore()),
		row(state.NameStar, &r.star, func(st *star.State) (*star.Star, error) { return star.Open(stars, st) }),
		drums(state.NameNames, &r.names, r.namesStore()),
		row(state.NameBeast, &r.beast, func(st *beast.State) (*beast.Beast, error) {
			return beast.Open(beast.Options{Set: r.Set, Name: state.NameBeast, QueuesMax: r.opt.QueuesMax, BlockBytes: r.plan.QueueBlockBytes}, st)
		}),
		drums(state.NameRobotsCache, &r.robotsCache, r.robotsStore()),
		drums(state.NameRobotsRequested, &r.robotsRequested, r.requestedStore()),
		fifo(state.NameAwaitRobots, &r.awaitRobots),
		fifo(state.NameRobotsFetch, &r.robotsFetch),
		calendar(state.NameRobotsLater, &r.robotsLater),
		fifo(state.NameReady, &r.ready),
		fifo(state.NameHeld, &r.held),
		calendar(state.NameLater, &r.later),
		row(state.NameWARC, &r.warc, func(st *warc.State) (*warc.Writer, error) { return warc.Open(r.warcOptions(), st) }),
		log(state.NameCrawlLog, "crawl", &r.crawlLog),
		log(state.NameSeedLog, "seeds", &r.seedLog),
		log(state.NameRobotsLog, "robots", &r.robotsLog),
	}
	for _, s := range r.structures {
		if err := s.open(m); err != nil {
			return err
		}
	}
	return nil
}
