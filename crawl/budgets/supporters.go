package budgets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// With the budget function supporters, the goroutine "supporters" computes the supporters of all PLDs again
// and again, from the last checkpoint, as an export would. It sends what has changed to STAR as updates, and
// then puts the ranks in force. Nothing else depends on a computation that has not ended; a restarted crawl
// begins it again. In a cluster one node computes for all (supportshare.go).

const (
	// supportersShare is how much longer than a computation the time until the next one is, at least. A computation
	// takes one core and a sixth of a disk of 100 MB/s at most, so it takes 5 % of a core and 1 % of that disk.
	supportersShare = 20
	// supportersEvery is the least time between two computations.
	supportersEvery = checkpoint.First
	// supportersDir is the directory in a crawl's first directory where supporters are sorted.
	supportersDir = "supporters-tmp"
	// openTries is how often a computation opens the files of a checkpoint before the crawl makes the next one.
	openTries = 5
)

// errSupportUpdate marks an error of STAR, which is final.
type errSupportUpdate struct{ error }

func (e errSupportUpdate) Unwrap() error { return e.error }

// ComputeSupporters is the goroutine "supporters".
func (b *Stage) ComputeSupporters(ctx context.Context) error {
	end, err := b.share()
	if err != nil {
		return err
	}
	t := supportTimes{}
	for ctx.Err() == nil && err == nil {
		if err = b.giveEdges(ctx); err != nil {
			break
		}
		if wait := b.untilSupporters(&t); wait > 0 {
			b.run.Await(ctx, b.wakeSupporters, wait)
			continue
		}
		err = b.nextSupporters(ctx, &t)
	}
	return errors.Join(err, end())
}

// supportTimes say when the next computation is due.
type supportTimes struct {
	next time.Time
	gen  uint64 // checkpoint that the last one read
	said string // the last warning of another node
}

// untilSupporters returns the time until the next computation.
func (b *Stage) untilSupporters(t *supportTimes) time.Duration {
	last, shared := b.others.Checkpointed(), b.others.Cluster.On()
	if !b.Star.BySupporters() || b.opt.Admission.Scope != state.ScopeAll || last == nil ||
		last.Number == t.gen && !shared || b.others.Cluster.Quiet() {
		return account.WakeAfter
	}
	return time.Until(t.next)
}

// nextSupporters makes a computation, or takes the values of one for all nodes, and puts them in force.
func (b *Stage) nextSupporters(ctx context.Context, t *supportTimes) error {
	began, last := time.Now(), b.others.Checkpointed()
	b.exchange.waited = 0
	r, least, err := b.supporters(ctx)
	var final errSupportUpdate
	var peer *errPeer
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &final):
		return final.error
	case errors.Is(err, star.ErrNoSeeds):
		if b.Star.NumPLDs() > 0 && b.Star.Trusted() == 0 {
			b.opt.Log.Warn("budgets follow in-degree: an earlier release began this crawl, and it did not " +
				"record the PLDs of the seeds")
		}
	case errors.Is(err, star.ErrNoTrusted):
		b.opt.Log.Warn(
			"budgets are unchanged: the crawl has found no PLD of --budget trusted yet")
	case errors.As(err, &peer):
		if t.said != err.Error() {
			t.said = err.Error()
			b.opt.Log.Info("waiting for supporters; budgets are unchanged", "why", err)
		}
		t.next = time.Now().Add(supportPoll)
		return nil
	case err != nil:
		b.opt.Log.Warn("could not compute supporters; budgets are unchanged", "why", err)
	case r == nil || r.Edges == 0: // nothing new; trust would not get beyond the seeds
	default:
		first := b.Star.LastComputed().Time == 0
		if b.Star.Computed(r); first {
			b.Star.Refresh() // BEAST may not move for long
		}
		t.said = ""
		b.opt.Log.Info("computed supporters", "plds", r.PLDs, "edges", r.Edges, "changed", r.Updates,
			"took", time.Since(began))
	}
	t.gen = last.Number
	t.next = time.Now().Add(max(least, supportersShare*(time.Since(began)-b.exchange.waited)))
	return nil
}

// supporters returns the Supports of a computation once they are updates of STAR, and the least time until the next
// one; nil: there is none.
func (b *Stage) supporters(ctx context.Context) (r *star.SupportRanks, least time.Duration, err error) {
	c := b.others.Cluster
	if !c.On() {
		r, err = b.compute(ctx, star.SupportOptions{}, 0)
		return r, supportersEvery, err
	}
	least = supportPoll
	if c.Computes() == c.Self() {
		least = supportShared
		err = b.computeForAll(ctx)
	}
	if err == nil {
		r, err = b.takeValues(ctx)
	}
	return r, least, err
}

// updateSupport returns a function that makes Supports updates of STAR, in transactions.
func (b *Stage) updateSupport(ctx context.Context) func(updates []star.SupportUpdate) error {
	return func(updates []star.SupportUpdate) error {
		for b.Star.ChecksHalfFull() && ctx.Err() == nil {
			b.wakeStar.Raise()
			b.run.Await(ctx, b.wakeSupporters, account.WakeAfter)
		}
		b.run.Hook("supporters")
		err := b.run.Transact(func(*account.Tx) error { return b.Star.SetSupport(updates) })
		if err != nil {
			return errSupportUpdate{err}
		}
		return ctx.Err()
	}
}

// compute makes one computation, with the records of others besides the edges of this node.
func (b *Stage) compute(ctx context.Context, opt star.SupportOptions, records int64) (*star.SupportRanks, error) {
	r, st, err := b.openCheckpoint()
	if err != nil {
		return nil, err
	}
	need := (st.Edges.Keys() + records) * star.SupportBytesPerEdge
	if opt.Whole {
		need += st.Indegree.Keys() * valueRecord
	}
	ctx, release, err := b.space.Borrow(ctx, "the computation of supporters", b.saved.Set.Paths[0], need)
	if err != nil {
		r.Close()
		return nil, err
	}
	defer release()
	defer r.Close() // first: files that only it holds take space
	if t := b.opt.Rules.Trusted.Load(); t != nil {
		opt.Trusted = *t
	}
	if !opt.Whole {
		opt.Update = b.updateSupport(ctx)
	}
	opt.Set, opt.Name, opt.State, opt.FS = r.Set, state.NameStar, st, b.saved.Set.FS
	opt.Dir, opt.RAMBytes, opt.Ranks = b.supportDir(), b.opt.Plan.SupportBytes(), b.opt.Budgets.Ranks
	ranks, err := star.ComputeSupport(ctx, opt)
	if final := (errSupportUpdate{}); err != nil && !errors.As(err, &final) &&
		errors.Is(context.Cause(ctx), space.ErrRecalled) {
		err = space.ErrRecalled
	}
	return ranks, err
}

// openCheckpoint opens the files of STAR that the last checkpoint names, so that they stay readable.
func (b *Stage) openCheckpoint() (*state.Reader, *star.State, error) {
	for range openTries {
		r, err := state.OpenReader(b.opt.FS, b.saved.Set.Paths, b.saved.Out.Paths)
		if err != nil {
			return nil, nil, err
		}
		st, err := state.Part[star.State](r.Manifest, state.NameStar)
		if err == nil && st == nil {
			err = errors.New("the checkpoint has no STAR")
		}
		same := false
		if err == nil {
			r.Pin(starFiles(r.Set, st))
			same, err = r.Same()
		}
		if same {
			return r, st, nil
		}
		if r.Close(); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("crawl: %d times in a row, a new checkpoint replaced the one being opened", openTries)
}

func starFiles(set disk.Set, st *star.State) []string {
	edges, indegree := star.Stores(state.NameStar)
	return append(drum.Files(set, edges, st.Edges), drum.Files(set, indegree, st.Indegree)...)
}

// showSupporters adds the last computation to a snapshot.
func (b *Stage) showSupporters(s *snapshot.Snapshot) {
	if c := b.Star.LastComputed(); c.Time > 0 {
		s.Supporters = time.Unix(c.Time, 0)
		s.SupportersTook = time.Duration(c.Millis) * time.Millisecond
	}
}
