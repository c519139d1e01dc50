package crawl

import (
	"context"
	"errors"
	"time"

	"drumbeat/exchange"
)

// A node that starts after the end of the crawl begins another round. One of the others may have more work, and find links for this
// one. So it waits until it has the marks that they write when they start, too: those of the end do not count. Nodes with large
// states open them for minutes, and operators start them by hand.
//
// A node that another one had to wait for is started alone. When the others end with it, their marks name its term.

// Bounds of the wait for the others.
const (
	rejoinTime = 20 * time.Second // for marks, and for the broker: it may have lost the former
	rejoinMost = time.Hour        // for nodes that do not start. Then the crawl ends without them, as it did before
)

// awaited lists the nodes that have not started again since the crawl was over.
func (s *clusterStage) awaited() (nodes []int) {
	if s.rejoined.IsZero() || time.Since(s.rejoined) >= rejoinMost {
		return nil
	}
	for node := range s.marks {
		if m := s.marks[node].Load(); node != s.node && !s.abandoned[node] && m != nil && m.Done && m.Round < s.round {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// rejoining returns how long the node still waits for the others at most, 0 if it does not. It counts rejoinTime from the last
// connection: marks of the others come after it.
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
	for node := range s.marks {
		if node != s.node && !s.abandoned[node] && s.marks[node].Load() == nil {
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

// logAwaited tells which nodes this one waits for.
func (s *clusterStage) logAwaited() {
	nodes, now := s.awaited(), time.Now()
	if len(nodes) == 0 || now.Sub(s.awaitLogged) < endLogEvery || now.Sub(s.rejoined) < time.Minute {
		return
	}
	s.awaitLogged = now
	s.opt.Log.Warn("this node waits for nodes that have not started again since the crawl was over: start them, or stop this one; nothing is lost",
		"nodes", nodes, "at most", (rejoinMost - now.Sub(s.rejoined)).Round(time.Second))
}

// rejoin makes a node that starts after the end of the crawl take part again until all agree that it is over. It returns false if
// no broker answers within rejoinTime. No goroutine runs yet.
func (s *clusterStage) rejoin(ctx context.Context) bool {
	if !s.on() || s.Manifest == nil || s.Manifest.Done == "" {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, rejoinTime)
	defer cancel()
	var err error
	round := s.intake.Round
	for node := 0; node < s.nodes; {
		var v exchange.Value
		if v, err = s.opt.Cluster.Transport.Get(limited, exchange.BucketCrawl, exchange.MarkKey(node)); err == nil {
			if m, err := exchange.DecodeMark(v.Key, v.Data, s.nodes); err != nil {
				s.opt.Log.Error("a mark of another node is refused", "node", node, "error", err)
			} else if m.Done {
				round = max(round, m.Round)
			}
		} else if !errors.Is(err, exchange.ErrNotFound) {
			if !sleep(limited, transportRetry) {
				break
			}
			continue
		}
		err = nil
		node++
	}
	if ctx.Err() != nil {
		return false // the crawl stops before it started
	}
	s.intake.Round, s.rejoined = round+1, time.Now()
	s.round = s.intake.Round
	if err == nil {
		s.opt.Log.Info("the crawl was over: this node takes part again, in case another one has more work", "until all have started, at most", rejoinMost)
	} else {
		s.opt.Log.Warn("the crawl was over, and the broker does not answer: if another node has more work, start this one again when it does", "error", err)
	}
	return err == nil
}
