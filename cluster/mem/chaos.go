package mem

import (
	"context"
	"fmt"
	"time"

	"drumbeat/cluster"
)

// Chaos describes random events.
type Chaos struct {
	Nodes int           // nodes of the crawl, 0 to Nodes-1
	Every time.Duration // mean time between two events, more than 0
	Away  time.Duration // longest time that the broker or a node is down, or full, more than 0
	Log   func(string)  // if set, receives each event
}

// Chaos makes random events until ctx ends: the broker stops and starts, often with a stream's tail, the last
// changes of a bucket or everything lost; a node is cut off; all streams are full for a time. Several may
// overlap. At the end it repairs all but the losses, and returns.
func (n *Net) Chaos(ctx context.Context, c Chaos) {
	defer func() {
		n.SetFull(false)
		for node := range c.Nodes {
			n.Heal(node)
		}
		n.Start()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(n.random(2 * c.Every)):
		}
		event, undo := n.event(c)
		if c.Log != nil {
			c.Log(event)
		}
		time.AfterFunc(n.random(c.Away), func() {
			if ctx.Err() == nil {
				undo()
			}
		})
	}
}

// random returns a time of 1 ns to at most d.
func (n *Net) random(d time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return 1 + time.Duration(n.rng.Int64N(int64(d)))
}

// event makes one event, and returns the function that ends it.
func (n *Net) event(c Chaos) (text string, undo func()) {
	kind, node := int(n.random(10)), int(n.random(time.Duration(c.Nodes)))-1
	count := int(n.random(20))
	switch kind {
	case 1, 2:
		n.Cut(node)
		return fmt.Sprintf("node %d is cut off", node), func() { n.Heal(node) }
	case 3:
		n.SetFull(true)
		return "streams are full", func() { n.SetFull(false) }
	case 4, 5, 6:
		n.Stop()
		n.LoseTail(node, count)
		return fmt.Sprintf("broker stops, %d messages to node %d are lost", count, node), n.Start
	case 7, 8:
		n.Stop()
		b := cluster.Bucket(count % int(cluster.Buckets))
		n.LoseValues(b, count)
		return fmt.Sprintf("broker stops, %d changes of bucket %d are lost", count, b), n.Start
	case 9:
		n.Stop()
		n.Wipe()
		return "broker stops, all is lost", n.Start
	}
	n.Stop()
	return "broker stops", n.Start
}
