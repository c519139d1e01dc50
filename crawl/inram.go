package crawl

import (
	"encoding/binary"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/checkpoint"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/state"
)

// encoded returns what encodes a copy.
func encoded[T any](copied T, encode func(T) []byte) checkpoint.Encode {
	return func() ([]byte, error) { return encode(copied), nil }
}

// records returns what encodes records; nil for none.
func records(list [][]byte) checkpoint.Encode {
	if len(list) == 0 {
		return nil
	}
	return encoded(list, state.DumpRecords)
}

// inRAM returns what copies the state that the stages hold in RAM only, in the order of the tail file. The
// sketches, the keys of --scope and the trap scores are encoded after the moment of the checkpoint and may be
// newer, which costs nothing. The first two only grow, and a page that is fetched again after a crash counts
// twice for the score of its host.
func (c *crawler) inRAM() []checkpoint.Copy {
	type (
		m      = *state.Manifest
		ref    = *disk.Ref
		encode = checkpoint.Encode
	)
	tail := checkpoint.Tail
	return []checkpoint.Copy{
		tail("URLs in RAM", func(m m) ref { return &m.RAM },
			func() encode { return encoded(c.polite.Snapshot(), dumpItems) }),
		tail("robots requests", func(m m) ref { return &m.Jobs },
			func() encode { return encoded(c.requests.Freeze(), state.DumpRecords) }),
		tail("pages being rendered", func(m m) ref { return &m.Renders },
			func() encode { return records(c.render.Freeze()) }),
		tail("delays", func(m m) ref { return &m.Delays },
			func() encode { return encoded(c.polite.Delays(time.Now()), dumpDelays) }),
		tail("health of hosts", func(m m) ref { return &m.Hosts },
			func() encode { return encoded(c.health.Freeze(), health.DumpHosts) }),
		tail("sketches", func(m m) ref { return &m.Sketches }, func() encode { return c.sketches.Encode }),
		tail("trap scores", func(m m) ref { return &m.Traps }, func() encode {
			if c.traps == nil {
				return nil
			}
			return encoded(nil, c.traps.AppendHosts)
		}),
		tail("loads of slots", func(m m) ref { return &m.Loads }, func() encode {
			if l := c.Accounts.Loads(); l != nil {
				return encoded(nil, l.Append)
			}
			return nil
		}),
		tail("enqueued URLs", func(m m) ref { return &m.Orders },
			func() encode { return records(c.orders.Freeze()) }),
		tail("random walk", func(m m) ref { return &m.Walk }, func() encode {
			if walk := c.walk.Freeze(); walk != nil {
				return encoded(nil, walk.Append)
			}
			return nil
		}),
		tail("scope", func(m m) ref { return &m.Scope }, func() encode {
			return func() ([]byte, error) { return admit.DumpKeys(c.links.Sites.Extensions()), nil }
		}),
		c.inManifest, c.freezeUploads, c.freezeNode, c.operator.Freeze,
	}
}

// inManifest copies the state that the manifest has itself.
func (c *crawler) inManifest() checkpoint.Copied {
	seeds, watched := c.seeds.Freeze(), c.watched.state
	held, margin := c.deferrals.Freeze()
	names := c.outages.KnownNames()
	return checkpoint.Copied{Save: func(m *state.Manifest, _ *disk.Tails) error {
		m.Seeds, m.Watch, m.Held, m.Margin, m.Names = seeds, watched, held, margin, names
		return nil
	}}
}

// freezeUploads copies the uploads under way. Files that are in the object store leave once a manifest says
// so, and finished ones are found then.
func (c *crawler) freezeUploads() checkpoint.Copied {
	under, stored := c.uploads.Freeze()
	return checkpoint.Copied{
		Save: func(m *state.Manifest, _ *disk.Tails) error {
			m.Store, m.Uploads = c.uploads.Place(), under
			return nil
		},
		Durable: func(*state.Manifest) error {
			if err := c.uploads.Checkpointed(stored); err != nil {
				return err
			}
			c.extraction.Checkpointed()
			return nil
		},
	}
}

// freezeNode copies the state of a node of a cluster, which tells the others of durable checkpoints.
func (c *crawler) freezeNode() checkpoint.Copied {
	mo := c.node.Freeze()
	return checkpoint.Copied{
		Save: func(m *state.Manifest, _ *disk.Tails) error { return c.node.SaveTo(m, mo) },
		Durable: func(m *state.Manifest) error {
			c.node.Checkpointed(m.Gen, m.Accounts.Counters[state.CountPages], mo)
			return nil
		},
	}
}

// dumpItems encodes the URLs in RAM.
func dumpItems(items []*polite.Item) (b []byte) {
	for _, it := range items {
		if it.Robots {
			continue // a robots.txt request: Manifest.Jobs has it
		}
		b = binary.AppendUvarint(b, uint64(len(it.Rec)))
		b = append(b, it.Rec...)
	}
	return b
}

func dumpDelays(delays []polite.Delay) (b []byte) {
	for i := range delays {
		b = delays[i].Append(b)
	}
	return b
}
