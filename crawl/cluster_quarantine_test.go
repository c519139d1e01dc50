package crawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/queue"
	"drumbeat/state"
)

// rewriter is the engine of a node whose messages are changed on their way: to the same bytes each time, as a
// resend is.
type rewriter struct {
	*mem.Transport
	change func(to int, h *cluster.Header, msg []byte) []byte // nil: unchanged
	// last says that no message gets through behind the first changed one.
	last bool

	mu      sync.Mutex // guards the fields below
	changed [][]byte   // the messages as they were sent, each once
	seen    map[uint64]bool
	resent  int // how often a changed message was published again
}

func (e *rewriter) Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error {
	h, err := cluster.ReadHeader(data)
	if err == nil {
		e.mu.Lock()
		lost := e.last && len(e.changed) > 0 && !e.seen[h.Number]
		e.mu.Unlock()
		if lost {
			result := make(chan error, 1)
			result <- cluster.ErrFull
			return result
		}
		if changed := e.change(to, &h, data); changed != nil {
			e.mu.Lock()
			if e.seen[h.Number] {
				e.resent++
			} else {
				e.changed = append(e.changed, bytes.Clone(data))
			}
			e.seen[h.Number] = true
			e.mu.Unlock()
			data = changed
		}
	}
	return e.Transport.Publish(ctx, to, from, id, data)
}

// rewrite replaces the records of a message by what edit makes of them, and corrects its length and checksum.
func rewrite(t *testing.T, msg []byte, edit func(raw []byte) []byte) []byte {
	const head, sum = 124, 8
	raw, err := s2.Decode(nil, msg[head:len(msg)-sum])
	if err != nil {
		t.Error(err)
		return msg
	}
	raw = edit(raw)
	out := bytes.Clone(msg[:head])
	binary.LittleEndian.PutUint32(out[head-4:], uint32(len(raw)))
	out = append(out, s2.Encode(nil, raw)...)
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

// damages are the kinds of messages that a node cannot read, though their headers and checksums are right.
var damages = map[string]func(raw []byte) []byte{
	"a kind of record that is not known": func(raw []byte) []byte { return append(raw, 'Z', 3, 1, 2, 3) },
	"a form of link that is not known":   func(raw []byte) []byte { return append(raw, 'L', 3, 0xff, 0xff, 0xff) },
	"an edge without names":              func(raw []byte) []byte { return append(raw, 'E', 1, 0) },
	"a scope of another length":          func(raw []byte) []byte { return append(raw, 'S', 4, 1, 2, 3, 4) },
	"a length beyond the end":            func(raw []byte) []byte { return append(raw, 'L', 0xff, 0x7f) },
	"a link twice":                       func(raw []byte) []byte { return append(raw, raw...) },
}

// TestClusterQuarantine: a message that its receiver cannot read goes into quarantine, whatever it is that
// cannot be read. The pair moves on, nothing is asked for without end, and the cluster ends. The node keeps
// the message over its next start, and a version that reads it takes its links.
func TestClusterQuarantine(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		if testing.Short() && name != "a kind of record that is not known" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { quarantineCluster(t, damage) })
		})
	}
}

func quarantineCluster(t *testing.T, damage func(raw []byte) []byte) {
	web := smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 12, 24, 200, 0, 0
	})
	var e *rewriter
	c := newCluster(t, web, 2, mem.Faults{Delay: 5 * time.Millisecond}, func(node int, o *Options) {
		if o.Disk.CheckpointEvery = 5 * time.Second; node == 0 {
			e = &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{}}
			e.change = func(_ int, h *cluster.Header, msg []byte) []byte {
				if h.Number != 1 {
					return nil
				}
				return rewrite(t, msg, damage)
			}
			o.Cluster.Transport = e
		}
	})
	defer c.close()
	r := c.run(t.Context())
	for node := range r {
		checkBalanced(t, c.options[node].Disk.FS, c.options[node].Disk.Dirs)
		if r[node].Stop != StopDone {
			t.Errorf("node %d stopped: %s", node, r[node].Stop)
		}
	}
	h, err := cluster.ReadHeader(e.changed[0])
	must(t, err)
	pair := &r[1].Snapshot.Cluster.Pairs[0]
	if pair.Quarantined != 1 || pair.RefusedMessages != 0 || pair.Holes > 0 || e.resent > 1 { // 1: at the start
		t.Errorf("%+v; the message was sent again %d times", *pair, e.resent)
	}
	sent, taken := r[0].Snapshot.Count(state.CountLinksSent), r[1].Snapshot.Count(state.CountLinksTaken)
	if lost := sent - taken; lost != h.After.Links.N || lost == 0 {
		t.Errorf("%d links sent, %d taken; the message has %d", sent, taken, h.After.Links.N)
	}
	if rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs }); err != nil || !rep.Balanced() ||
		rep.Above.Records() != 0 {
		t.Errorf("audit of all nodes: %v, %+v", err, rep)
	}
	checkDeep(t, &c.options[1])
	retryQuarantine(t, c.options[1], e.changed[0], h.After.Links.N)
}

// retryQuarantine opens the receiver again, which does not understand the message, or does now.
func retryQuarantine(t *testing.T, o Options, msg []byte, links int64) {
	t.Helper()
	for _, understood := range []bool{false, true} {
		n := openCrawler(t, o)
		q := *n.node.Quarantine()
		if records, _ := q.Len(); records != 1 {
			t.Fatalf("%d messages in quarantine after the end", records)
		}
		if understood {
			understand(t, q, msg)
		}
		before := n.Counter(state.CountLinksTaken)
		must(t, n.node.RetryQuarantine())
		records, _ := q.Len()
		got := n.Counter(state.CountLinksTaken) - before
		if understood && (records != 0 || got != links) ||
			!understood && (records != 1 || got != 0) {
			t.Errorf("understood %v: %d of %d links taken, %d messages left", understood, got, links, records)
		}
		must(t, n.close())
	}
}

// understand replaces the first message in quarantine by the one that was sent: a later version reads it.
func understand(t *testing.T, q *queue.Queue, msg []byte) {
	t.Helper()
	if _, ok, err := q.Peek(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	q.Advance()
	must(t, q.Append(msg))
}

// TestClusterQuarantineFull: a message that finds no room in quarantine waits at its sender, which is told
// so. Nothing of the pair is lost, and it is not asked for without end.
func TestClusterQuarantineFull(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 12, 24, 200, 0, 0
		})
		var e *rewriter
		c := newCluster(t, web, 2, mem.Faults{Delay: 5 * time.Millisecond}, func(node int, o *Options) {
			o.Disk.CheckpointEvery = 5 * time.Second
			if o.tests.quarantineBytes = 1; node == 0 {
				e = &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{}}
				e.change = func(_ int, h *cluster.Header, msg []byte) []byte {
					if h.Number != 1 {
						return nil
					}
					return rewrite(t, msg, damages["a kind of record that is not known"])
				}
				o.Cluster.Transport = e
			}
		})
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		results := make([]*Result, 2)
		for node := range c.options {
			wg.Go(func() {
				var err error
				if results[node], err = Run(ctx, c.options[node]); err != nil {
					t.Errorf("node %d: %v", node, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		pair := &results[1].Snapshot.Cluster.Pairs[0]
		if pair.Quarantined != 0 || pair.RefusedMessages == 0 || pair.Taken != 0 || pair.Holes > 5 || e.resent > 20 {
			t.Errorf("%+v; sent again %d times in two hours", *pair, e.resent)
		}
		if rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs }); err != nil || !rep.Balanced() ||
			rep.Above.Records() == 0 {
			t.Errorf("audit of all nodes: %v, %+v", err, rep)
		}
	})
}

// TestQuarantineGive: the begin of slots that move goes into quarantine if a node cannot read it. A version that reads
// it knows the slots that move here.
func TestQuarantineGive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var e *rewriter
		c := newCluster(t, sizedWeb(t, 12, 24, 400), 2, mem.Faults{}, func(node int, o *Options) {
			if o.Disk.CheckpointEvery = 5 * time.Second; node == 0 {
				e = &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{}, last: true}
				o.Cluster.Transport = e
			}
		})
		defer c.close()
		begun := make(chan struct{}, 1)
		e.change = func(_ int, h *cluster.Header, msg []byte) (changed []byte) {
			rewrite(t, msg, func(raw []byte) []byte { // reads it only
				if bytes.Contains(raw, []byte(`"owners"`)) {
					changed = rewrite(t, msg, damages["a kind of record that is not known"])
				}
				return raw
			})
			if changed != nil {
				select {
				case begun <- struct{}{}:
				default:
				}
			}
			return changed
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var nodes sync.WaitGroup
		for node := range c.options {
			nodes.Go(func() {
				if _, err := c.start(ctx, node, c.options[node]); err != nil {
					t.Error(err)
				}
			})
		}
		before := c.options[0].Cluster.Table
		next, err := before.Give(half(before, 0, 1))
		must(t, err)
		if !c.fetchedAll(ctx, 50) {
			t.Fatal("no 50 pages")
		}
		c.change(ctx, cluster.ChangeGive, before, next, 0)
		select {
		case <-begun:
			time.Sleep(time.Minute) // the taker makes its checkpoint
		case <-ctx.Done():
			t.Error("no slots began to move")
		}
		cancel()
		nodes.Wait()
		n := openCrawler(t, c.options[1])
		q := *n.node.Quarantine()
		if records, _ := q.Len(); records != 1 || n.node.Coming() != 0 {
			t.Fatalf("%d messages in quarantine, %d slots move here", records, n.node.Coming())
		}
		understand(t, q, e.changed[0])
		must(t, n.node.RetryQuarantine())
		records, _ := q.Len()
		if want := len(half(before, 0, 1)); records != 0 || n.node.Coming() != want {
			t.Errorf("%d messages left, %d slots of %d move here", records, n.node.Coming(), want)
		}
		must(t, n.close())
	})
}
