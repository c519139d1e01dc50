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
// begins it again.

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
	var next time.Time
	var gen uint64 // checkpoint that the last computation read
	for ctx.Err() == nil {
		last := b.others.Checkpointed()
		wait := time.Until(next)
		if !b.Star.BySupporters() || b.opt.Admission.Scope != state.ScopeAll || last == nil || last.Number == gen {
			wait = account.WakeAfter
		}
		if wait > 0 {
			b.run.Await(ctx, b.wakeSupporters, wait)
			continue
		}
		began := time.Now()
		r, err := b.supporters(ctx)
		var final errSupportUpdate
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
		case err != nil:
			b.opt.Log.Warn("could not compute supporters; budgets are unchanged", "why", err)
		case r.Edges == 0: // trust would not get beyond the seeds
		default:
			first := b.Star.LastComputed().Time == 0
			if b.Star.Computed(r); first {
				b.Star.Refresh() // BEAST may not move for long
			}
			b.opt.Log.Info("computed supporters", "plds", r.PLDs, "edges", r.Edges, "changed", r.Updates,
				"took", time.Since(began))
		}
		gen = last.Number
		next = time.Now().Add(max(supportersEvery, supportersShare*time.Since(began)))
	}
	return nil
}

// supporters makes one computation.
func (b *Stage) supporters(ctx context.Context) (*star.SupportRanks, error) {
	r, st, err := b.openCheckpoint()
	if err != nil {
		return nil, err
	}
	ctx, release, err := b.space.Borrow(ctx, "the computation of supporters", b.saved.Set.Paths[0],
		st.Edges.Keys()*star.SupportBytesPerEdge)
	if err != nil {
		r.Close()
		return nil, err
	}
	defer release()
	defer r.Close() // first: files that only it holds take space
	var trusted []uint64
	if t := b.opt.Rules.Trusted.Load(); t != nil {
		trusted = *t
	}
	ranks, err := star.ComputeSupport(ctx,
		star.SupportOptions{Trusted: trusted, Set: r.Set, Name: state.NameStar, State: st, FS: b.saved.Set.FS,
			Dir: b.saved.Set.Path(0, supportersDir), RAMBytes: b.opt.Plan.SupportBytes(), Ranks: b.rankLimit(),
			Update: func(updates []star.SupportUpdate) error {
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
			}})
	if final := (errSupportUpdate{}); err != nil && !errors.As(err, &final) &&
		errors.Is(context.Cause(ctx), space.ErrRecalled) {
		err = space.ErrRecalled
	}
	return ranks, err
}

// rankLimit returns the number of ranks that the budget functions of this run may use.
func (b *Stage) rankLimit() int { return b.opt.Budgets.Ranks }

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
