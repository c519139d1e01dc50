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

// tailed is a Copy of a state in the tail file. now copies it, and returns what encodes it; nil: there is none.
func tailed(what string, at func(*state.Manifest) *disk.Ref, now func() func() ([]byte, error)) checkpoint.Copy {
	return func() checkpoint.Copied {
		encode := now()
		if encode == nil {
			return checkpoint.Copied{}
		}
		return checkpoint.Tail(what, at, encode)
	}
}

// encoded returns what encodes a copy.
func encoded[T any](copied T, encode func(T) []byte) func() ([]byte, error) {
	return func() ([]byte, error) { return encode(copied), nil }
}

// records returns what encodes records; nil for none.
func records(list [][]byte) func() ([]byte, error) {
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
	type m = *state.Manifest
	return []checkpoint.Copy{
		tailed("URLs in RAM", func(m m) *disk.Ref { return &m.RAM }, func() func() ([]byte, error) {
			return encoded(c.polite.Snapshot(), dumpItems)
		}),
		tailed("robots requests", func(m m) *disk.Ref { return &m.Jobs }, func() func() ([]byte, error) {
			return encoded(c.requests.Freeze(), state.DumpRecords)
		}),
		tailed("pages being rendered", func(m m) *disk.Ref { return &m.Renders }, func() func() ([]byte, error) {
			return records(c.render.Freeze())
		}),
		tailed("delays", func(m m) *disk.Ref { return &m.Delays }, func() func() ([]byte, error) {
			return encoded(c.polite.Delays(time.Now()), dumpDelays)
		}),
		tailed("health of hosts", func(m m) *disk.Ref { return &m.Hosts }, func() func() ([]byte, error) {
			return encoded(c.health.Freeze(), health.DumpHosts)
		}),
		tailed("sketches", func(m m) *disk.Ref { return &m.Sketches }, func() func() ([]byte, error) {
			return c.sketches.encode
		}),
		tailed("trap scores", func(m m) *disk.Ref { return &m.Traps }, func() func() ([]byte, error) {
			if c.traps == nil {
				return nil
			}
			return encoded(nil, c.traps.AppendHosts)
		}),
		tailed("enqueued URLs", func(m m) *disk.Ref { return &m.Orders }, func() func() ([]byte, error) {
			return records(c.orders.freeze())
		}),
		tailed("random walk", func(m m) *disk.Ref { return &m.Walk }, func() func() ([]byte, error) {
			walk := c.walk.Freeze()
			if walk == nil {
				return nil
			}
			return encoded(nil, walk.Append)
		}),
		tailed("scope", func(m m) *disk.Ref { return &m.Scope }, func() func() ([]byte, error) {
			return func() ([]byte, error) { return admit.DumpKeys(c.links.Sites.Extensions()), nil }
		}),
		c.inManifest, c.freezeUploads, c.freezeNode, c.operator.Freeze,
	}
}

// inManifest copies the state that the manifest has itself.
func (c *crawler) inManifest() checkpoint.Copied {
	seeds := c.seeds.Freeze()
	held, margin := c.deferrals.freeze()
	names := c.outages.KnownNames()
	return checkpoint.Copied{Save: func(m *state.Manifest, _ *disk.Tails) error {
		m.Seeds, m.Held, m.Margin, m.Names = seeds, held, margin, names
		return nil
	}}
}

// freezeUploads copies the uploads under way. Files that are in the object store leave once a manifest says so, and
// finished ones are found then.
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
		Save: func(m *state.Manifest, _ *disk.Tails) error { c.node.SaveTo(m, mo); return nil },
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
