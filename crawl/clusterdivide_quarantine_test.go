package crawl

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/state"
)

// hasHanded reports whether records have a URL that the owner of a divided PLD hands out.
func hasHanded(raw []byte) bool {
	for len(raw) > 1 {
		n, size := binary.Uvarint(raw[1:])
		if raw[0] == 'C' {
			return true
		}
		raw = raw[1+size+int(n):]
	}
	return false
}

// TestDivideQuarantine: a message with URLs that the owner of a divided PLD hands out, which the visitor cannot read,
// goes into quarantine. The pair moves on, and the accounts say what waits there. A version that reads it fetches the
// URLs.
func TestDivideQuarantine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var e []*rewriter
		c, _, owner := dividedCluster(t, 2, nil, func(_ int, o *Options) {
			o.Disk.CheckpointEvery = 5 * time.Second
			e = append(e, &rewriter{Transport: o.Cluster.Transport.(*mem.Transport), seen: map[uint64]bool{},
				change: func(int, *cluster.Header, []byte) []byte { return nil }})
			o.Cluster.Transport = e[len(e)-1]
		})
		defer c.close()
		first := uint64(0)
		e[owner].change = func(_ int, h *cluster.Header, msg []byte) []byte {
			rewrite(t, msg, func(raw []byte) []byte { // reads it only
				if first == 0 && hasHanded(raw) {
					first = h.Number
				}
				return raw
			})
			if h.Number != first {
				return nil
			}
			return asVersion(msg, later)
		}
		r := c.run(t.Context())
		h, err := cluster.ReadHeader(e[owner].changed[0])
		must(t, err)
		visitor := 1 - owner
		pair := &r[visitor].Snapshot.Cluster.Pairs[0]
		if pair.Quarantined != 1 || pair.RefusedMessages != 0 || pair.Holes > 0 || e[owner].resent > 1 {
			t.Errorf("%+v; the message was sent again %d times", *pair, e[owner].resent)
		}
		sent, taken := r[owner].Snapshot.Count(state.CountLinksSent), r[visitor].Snapshot.Count(state.CountLinksTaken)
		if sent-taken != h.After.Links.N-h.Before.Links.N || sent == taken {
			t.Errorf("%d links sent, %d taken; the message has %d", sent, taken, h.After.Links.N-h.Before.Links.N)
		}
		for node := range c.options {
			checkDeep(t, &c.options[node])
		}
		rep, err := c.audit(c.options[0].Disk.FS, true)
		if err != nil || !rep.Balanced() || rep.Above.Records() != 0 || rep.Nodes[visitor].Cluster.Quarantined != 1 {
			t.Errorf("audit of all nodes: %v, %+v", err, rep)
		}
		ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
		defer cancel()
		var ended sync.WaitGroup
		for node := range c.options {
			o := c.options[node]
			o.tests.reads = later
			ended.Go(func() {
				var err error
				if r[node], err = Run(ctx, o); err != nil && !errors.Is(err, state.ErrFinished) {
					t.Errorf("node %d: %v", node, err)
				}
			})
		}
		ended.Wait()
		c.check(r)
		for node := range c.options {
			checkDeep(t, &c.options[node])
		}
	})
}
