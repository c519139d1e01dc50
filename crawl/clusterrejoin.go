package crawl

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
func (s *clusterStage) awaited() (nodes []int) {
	if s.rejoined.IsZero() || time.Since(s.rejoined) >= rejoinMost {
		return nil
	}
	for node := range s.heard.marks {
		if m := s.heard.mark(node); node != s.node && !s.gone.gone[node] && m != nil && m.Done && m.Round < s.round {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// rejoining returns the longest remaining wait for the others, 0 for none. It counts rejoinTime from the last
// connection, after which marks of the others arrive.
func (s *clusterStage) rejoining() time.Duration {
	if s.rejoined.IsZero() {
		return 0
	}
	st := s.opt.Cluster.Transport.State()
	if !st.Connected {
		return rejoinTime
	}
	if len(s.awaited()) > 0 {
		return max(time.Millisecond, rejoinMost-time.Since(s.rejoined))
	}
	for node := range s.heard.marks {
		if node != s.node && !s.gone.gone[node] && s.heard.mark(node) == nil {
			since := s.rejoined
			if st.Since.After(since) {
				since = st.Since
			}
			return max(0, rejoinTime-time.Since(since))
		}
	}
	return 0
}

// term returns the node's term.
func (s *clusterStage) term() uint64 {
	s.markMu.Lock()
	defer s.markMu.Unlock()
	return s.agreement.term
}

// logAwaited logs the nodes that this one waits for.
func (s *clusterStage) logAwaited() {
	nodes, now := s.awaited(), time.Now()
	if len(nodes) == 0 || now.Sub(s.awaitLogged) < endLogEvery || now.Sub(s.rejoined) < time.Minute {
		return
	}
	s.awaitLogged = now
	s.opt.Observe.Log.Warn("this node waits for nodes that have not started again since the crawl was over: start "+
		"them, or stop this one; nothing is lost",
		"nodes", nodes, "at most", (rejoinMost - now.Sub(s.rejoined)).Round(time.Second))
}

// rejoin makes a node that starts after the end of the crawl take part until all agree again that it is over.
// It returns false if no broker answers within rejoinTime. No goroutine runs yet.
func (s *clusterStage) rejoin(ctx context.Context) bool {
	if !s.on() || s.Manifest == nil || s.Manifest.Done == "" {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, rejoinTime)
	defer cancel()
	var err error
	round := s.intake.Round
	for node := 0; node < s.nodes; {
		var v cluster.Value
		if v, err = s.opt.Cluster.Transport.Get(limited, cluster.BucketCrawl, cluster.MarkKey(node)); err == nil {
			if m, err := cluster.DecodeMark(v.Key, v.Data, s.nodes); err != nil {
				s.opt.Observe.Log.Error("a mark of another node is refused", "node", node, "error", err)
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
	s.intake.Round, s.rejoined = round+1, time.Now()
	s.round = s.intake.Round
	if err == nil {
		s.opt.Observe.Log.Info("the crawl was over: this node takes part again, in case another one has more work",
			"longest wait for the others", rejoinMost)
	} else {
		s.opt.Observe.Log.Warn("the crawl was over, and the broker does not answer: if another node has more work, "+
			"start this one again when it does", "error", err)
	}
	return err == nil
}
