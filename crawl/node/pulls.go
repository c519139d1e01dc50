package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// written is a mark of this node that the others may have, whole and as its head.
type written struct{ whole, head *cluster.Mark }

// wholeMost is a number of nodes that programs from before cluster.PairsVersion do not exceed: the broker had no room
// for whole marks of more. So in a larger cluster a node whose mark is not known is of a later version.
const wholeMost = 588

// apart reports whether this node writes its mark as a head and pairs: all nodes read that.
func (s *marks) apart() bool {
	if s.opt.reads() < cluster.PairsVersion {
		return false
	}
	t := s.tables
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, reads := range t.reads {
		known := reads > 0 || len(t.reads) <= wholeMost
		if known && reads < cluster.PairsVersion && node != s.opt.Node && !s.gone.has(node) {
			return false
		}
	}
	return true
}

// pulls are the heads that wait for the entries of this node. Its methods are safe for concurrent use.
type pulls struct {
	wake account.Signal

	mu    sync.Mutex // guards the fields below
	wants map[int]pull
	taken []uint64 // by node: hash of the last head whose mark was taken
	// By node: until when older marks may still come from the broker, because an answer was newer than the head.
	ahead []time.Time
}

type pull struct {
	head *cluster.Mark
	hash uint64 // of its value
}

func newPulls(nodes int) pulls {
	return pulls{wake: account.NewSignal(), wants: map[int]pull{}, taken: make([]uint64, nodes),
		ahead: make([]time.Time, nodes)}
}

// add notes a head. One that is equal to the last taken one tells nothing.
func (p *pulls) add(head *cluster.Mark, hash uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[head.Node] == hash {
		delete(p.wants, head.Node)
		return
	}
	p.wants[head.Node] = pull{head, hash}
	p.wake.Raise()
}

func (p *pulls) all() (list []pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, want := range p.wants {
		list = append(list, want)
	}
	return list
}

// done notes that a head has got its entries, unless a later one came meanwhile. taken says that the mark was taken.
func (p *pulls) done(is pull, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	node := is.head.Node
	if p.wants[node].head == is.head {
		delete(p.wants, node)
	}
	p.taken[node] = 0
	if taken {
		p.taken[node] = is.hash
	}
}

// drop forgets the head of a node that waits: a whole mark has followed it.
func (p *pulls) drop(node int) {
	p.mu.Lock()
	delete(p.wants, node)
	p.taken[node] = 0
	p.mu.Unlock()
}

// wanted reports whether a head of a node waits.
func (p *pulls) wanted(node int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wants[node].head != nil
}

// noteAhead notes that a mark of a node is newer than the head that has asked for it.
func (p *pulls) noteAhead(node int) {
	p.mu.Lock()
	p.ahead[node] = time.Now().Add(account.WakeAfter)
	p.mu.Unlock()
}

// isAhead reports whether older marks of a node than the last one may still come.
func (p *pulls) isAhead(node int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.ahead[node])
}

// forget forgets the last head of a node that was replaced.
func (p *pulls) forget(node int) {
	p.mu.Lock()
	p.taken[node] = 0
	p.mu.Unlock()
}

// Bounds of questions for entries.
const (
	pullsAtOnce = 16
	// An answer comes from RAM. A node that does not give it soon hangs, or is cut off, and the broker has its entries.
	pullWait = 2 * time.Second
)

// pull gets the entries for the heads that this node has read, and answers the questions of other nodes for theirs.
func (s *marks) pull(ctx context.Context) error {
	if s.opt.reads() >= cluster.PairsVersion {
		stop, err := s.opt.Transport.Answer(cluster.MarkKind, s.answer)
		if err != nil {
			return err
		}
		defer stop()
	}
	for ctx.Err() == nil {
		list := s.pulls.all()
		if len(list) == 0 {
			s.run.Await(ctx, s.pulls.wake, account.WakeAfter)
			continue
		}
		missed, errs := make([]bool, len(list)), make([]error, len(list))
		var running sync.WaitGroup
		places := make(chan struct{}, pullsAtOnce)
		for i, want := range list {
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				m := s.entries(ctx, want.head)
				if missed[i] = m == nil; m == nil {
					return
				}
				if want.head.Before(m) {
					s.pulls.noteAhead(m.Node)
				}
				errs[i] = s.take(m, func() bool { return s.pulls.wanted(m.Node) })
				s.pulls.done(want, s.heard.mark(m.Node) == m)
			})
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if slices.Contains(missed, true) {
			account.Sleep(ctx, transportRetry)
		}
	}
	return nil
}

// answer answers another node with the head of this node's mark, and its entry.
func (s *marks) answer(_ context.Context, from int, _ []byte) []byte {
	w := s.written.Load()
	if w == nil {
		return nil
	}
	m, p := *w.head, w.whole.With(from)
	m.Pair = &p
	data, err := m.Encode()
	if err != nil {
		return nil // the asking node reads the value instead
	}
	return data
}

// entries returns a head with the entry of this node; nil: it is not known yet. If this node has abandoned others than
// the node of the head, or has begun after the end of the crawl, the sums of the head do not tell it whether the crawl
// is over, and it gets all entries.
func (s *marks) entries(ctx context.Context, head *cluster.Mark) *cluster.Mark {
	nodes, whole := s.opt.nodes(), !s.end.rejoined.IsZero() || !head.AbandonsAs(s.gone.has)
	if !whole {
		limited, cancel := context.WithTimeout(ctx, pullWait)
		data, err := s.opt.Transport.Ask(limited, head.Node, cluster.MarkKind, nil)
		cancel()
		if err == nil {
			m, err := cluster.DecodeMark(cluster.MarkKey(head.Node), data, nodes)
			if err == nil && m.Pair != nil && !m.Before(head) { // it may be newer than the head
				m.Revision = head.Revision
				return m
			}
		}
	}
	v, err := s.opt.Transport.Get(ctx, cluster.BucketCrawl, cluster.PairsKey(head.Node))
	if err != nil {
		return nil
	}
	m, err := cluster.DecodePairs(head.Node, v.Data, nodes)
	if err != nil {
		if s.doubts.refuse(head.Node, logUnreadable, true) {
			s.opt.Log.Error("refused the entries of another node's mark", "node", head.Node, "error", err)
		}
		return nil
	}
	return m.Joined(head, s.opt.Node, whole)
}
