package node

import (
	"context"
	"errors"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// A node that starts after the end of the crawl begins another round. One of the others may have more work,
// and find links for this one. So the node waits for marks that the others write after their start; marks of
// the former end do not count. A node with a large state takes minutes to open it, and operators start nodes
// by hand.
//
// A node for which another one had to wait is started alone. When the others end with it, their marks name
// its term.

// Bounds of the wait for the others.
const (
	rejoinTime = 20 * time.Second // for marks, and for the broker, which may have lost marks
	rejoinMost = time.Hour        // for nodes that do not start; then the crawl ends without them
)

// awaited lists the nodes that have not started again since the crawl was over.
func (e *crawlEnd) awaited() (nodes []int) {
	if e.rejoined.IsZero() || time.Since(e.rejoined) >= rejoinMost {
		return nil
	}
	for node, m := range e.heard.all() {
		if node != e.opt.Node && !e.gone.has(node) && m != nil && m.Done && m.Round < e.round {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// rejoining returns the longest remaining wait for the others, 0 for none. It counts rejoinTime from the last
// connection, after which marks of the others arrive.
func (e *crawlEnd) rejoining() time.Duration {
	if e.rejoined.IsZero() {
		return 0
	}
	st := e.opt.Transport.State()
	if !st.Connected {
		return rejoinTime
	}
	if len(e.awaited()) > 0 {
		return max(time.Millisecond, rejoinMost-time.Since(e.rejoined))
	}
	for node, m := range e.heard.all() {
		if node != e.opt.Node && !e.gone.has(node) && m == nil {
			since := e.rejoined
			if st.Since.After(since) {
				since = st.Since
			}
			return max(0, rejoinTime-time.Since(since))
		}
	}
	return 0
}

// currentTerm returns the node's term.
func (e *crawlEnd) currentTerm() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agreement.term
}

// logAwaited logs the nodes that this one waits for.
func (e *crawlEnd) logAwaited() {
	nodes, now := e.awaited(), time.Now()
	if len(nodes) == 0 || now.Sub(e.awaitLogged) < endLogEvery || now.Sub(e.rejoined) < time.Minute {
		return
	}
	e.awaitLogged = now
	e.opt.Log.Warn("waiting for nodes that have not restarted since the crawl was over: start "+
		"them, or stop this one; nothing is lost",
		"nodes", nodes, "at most", (rejoinMost - now.Sub(e.rejoined)).Round(time.Second))
}

// rejoin makes a node that starts after the end of the crawl take part until all agree again that it is over.
// It returns false if no broker answers within rejoinTime. No goroutine runs yet.
func (e *crawlEnd) rejoin(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, rejoinTime)
	defer cancel()
	var err error
	round := e.round
	for node := 0; node < e.opt.nodes(); {
		var v cluster.Value
		if v, err = e.opt.Transport.Get(limited, cluster.BucketCrawl, cluster.MarkKey(node)); err == nil {
			if m, err := cluster.DecodeMark(v.Key, v.Data, e.opt.nodes()); err != nil {
				e.opt.Log.Error("refused a mark from another node", "node", node, "error", err)
			} else if m.Done {
				round = max(round, m.Round)
			}
		} else if !errors.Is(err, cluster.ErrNotFound) {
			if !account.Sleep(limited, transportRetry) {
				break
			}
			continue
		}
		err = nil
		node++
	}
	if ctx.Err() != nil {
		return false // the crawl stops before its start
	}
	e.round, e.rejoined = round+1, time.Now()
	if err == nil {
		e.opt.Log.Info("the crawl was over: this node rejoins in case another one has more work",
			"longest wait for the others", rejoinMost)
	} else {
		e.opt.Log.Warn("the crawl was over, and the broker does not answer: if another node has more work, "+
			"start this one again when it does", "error", err)
	}
	return err == nil
}
