package crawl

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// falseMarks are marks of node 1 of three that cannot be true, or that must not make others drop or believe anything.
var falseMarks = map[string]func(m *cluster.Mark){
	"more taken than was sent": func(m *cluster.Mark) {
		for i := range m.Taken {
			m.Taken[i].Number += 1000
		}
	},
	"more records than were sent": func(m *cluster.Mark) {
		for i := range m.Taken {
			m.Taken[i].Totals.Links.N += 1000
		}
	},
	"other records":      func(m *cluster.Mark) { m.Taken[0].Totals.Links.Lo++ },
	"more dropped":       func(m *cluster.Mark) { m.Gone[0] += 1000 },
	"another life":       func(m *cluster.Mark) { m.Incarnation++ },
	"another table":      func(m *cluster.Mark) { m.Table++ },
	"moved slots":        func(m *cluster.Mark) { m.Moves, m.Table = m.Moves+1, m.Table+1 },
	"all given up":       func(m *cluster.Mark) { m.Abandoned = []int{0, 2} },
	"a late checkpoint":  func(m *cluster.Mark) { m.Checkpoint = math.MaxUint64 },
	"an old checkpoint":  func(m *cluster.Mark) { m.Checkpoint = 0 },
	"a late round":       func(m *cluster.Mark) { m.Round = 1 << 62 },
	"negative records":   func(m *cluster.Mark) { m.Out[0] = -1 },
	"too few nodes":      func(m *cluster.Mark) { m.Taken = m.Taken[:2] },
	"the mark of a node": func(m *cluster.Mark) { m.Node = 0 },
}

// TestClusterForgedMark: one false mark of a node, of whatever kind, is refused, counted and told. All nodes
// end as without it, and nothing is lost.
func TestClusterForgedMark(t *testing.T) {
	t.Parallel()
	for name, forge := range falseMarks {
		if testing.Short() && name != "more taken than was sent" && name != "a late checkpoint" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := smallWeb(t, func(o *simweb.Options) {
					o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 12, 24, 300, 0, 0
				})
				c := newCluster(t, web, 3, mem.Faults{Delay: 5 * time.Millisecond},
					func(_ int, o *Options) { o.Disk.CheckpointEvery = 10 * time.Second })
				defer c.close()
				forged := make(chan bool, 1)
				go func() { forged <- forgeMark(t.Context(), c, forge) }()
				results := c.run(t.Context())
				if !<-forged {
					t.Fatal("no mark was forged")
				}
				c.check(results)
				refused := int64(0)
				for _, node := range []int{0, 2} {
					for _, p := range results[node].Snapshot.Cluster.Pairs {
						refused += p.RefusedMarks
					}
				}
				if refused == 0 {
					t.Error("no node has refused a mark")
				}
			})
		})
	}
}

// forgeMark changes the mark of node 1 once, when it has taken something of node 0 and dropped something for it.
func forgeMark(ctx context.Context, c *testCluster, forge func(m *cluster.Mark)) bool {
	e := c.engines[2]
	for account.Sleep(ctx, 100*time.Millisecond) {
		v, err := e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(1))
		if err != nil {
			continue
		}
		m, err := cluster.DecodeMark(v.Key, v.Data, 3)
		if err != nil || m.Taken[0].Number == 0 {
			continue
		}
		forge(m)
		data, err := m.Encode()
		if err == nil {
			_, err = e.Put(ctx, cluster.BucketCrawl, cluster.MarkKey(1), data)
		}
		return err == nil
	}
	return false
}

// TestClusterDoubts: an error about another node is final once that node has shown it three times and for a
// minute and a half, with nothing plausible between. The same mark seen again, after a new connection, does
// not count.
func TestClusterDoubts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		d := newDoubts(slog.Default(), 2)
		again := func(want bool, revision uint64, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if final, _ := d.note(1, doubtMark, revision); final != want {
				t.Errorf("final: %v, want %v", final, want)
			}
		}
		again(false, 1, 0)
		again(false, 1, time.Hour)
		again(false, 1, time.Hour)
		again(false, 2, 0)
		again(true, 3, 0)
		d.clear(1, doubtMark)
		again(false, 4, time.Hour)
		again(false, 5, time.Second)
		again(false, 6, time.Second)
		again(true, 7, doubtFor)
		d.refuse(-1, logUnreadable, true) // of no node: not counted
		d.refuse(2, logUnreadable, true)
		if marks, messages := d.counts(1); marks+messages != 0 {
			t.Errorf("%d marks and %d messages were refused", marks, messages)
		}
	})
}

// TestClusterForgedMessage: a message that disagrees with those before it is refused and counted, and does
// not stop the node. If it comes again and again, with none that is right between, the node ends.
func TestClusterForgedMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 10, 20, 100, 0 })
		var good [][]byte
		c := newCluster(t, web, 2, mem.Faults{}, func(node int, o *Options) {
			if node == 0 {
				e := &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{}}
				e.change = func(_ int, h *cluster.Header, msg []byte) []byte {
					if int(h.Number) == len(good)+1 {
						good = append(good, append([]byte(nil), msg...))
					}
					return nil
				}
				o.Cluster.Transport = e
			}
		})
		defer c.close()
		c.run(t.Context())
		n := openCrawler(t, c.options[1])
		defer n.close()
		s := n.cluster
		last := s.intake.Taken[0]
		s.intake.Taken[0] = cluster.Taken{}
		h, err := cluster.ReadHeader(good[0])
		if err != nil || last.Number == 0 {
			t.Fatal(err, last)
		}
		bad := append([]byte(nil), good[0]...)
		bad[24]++ // of the totals before it
		binary.LittleEndian.PutUint64(bad[len(bad)-8:], xxhash.Sum64(bad[:len(bad)-8]))
		take := func(data []byte) error { return s.take(&cluster.Message{Seq: 1, From: 0, Data: data}) }
		for range 3 {
			if err := take(bad); err != nil {
				t.Fatalf("one false message: %v", err)
			}
		}
		if err := take(good[0]); err != nil || s.intake.Taken[0].Totals != h.After {
			t.Fatalf("the true message after it: %v, taken %+v", err, s.intake.Taken[0])
		}
		if _, messages := s.doubts.counts(0); messages != 3 {
			t.Errorf("%d messages were refused", messages)
		}
		s.intake.Taken[0] = cluster.Taken{}
		for try := 0; err == nil && try < 10; try++ {
			err = take(bad)
			time.Sleep(doubtFor / 3)
		}
		var back *cluster.SetBackError
		if !errors.As(err, &back) || s.Counter(state.CountLinksTaken) == 0 {
			t.Errorf("a false message again and again: %v", err)
		}
	})
}
