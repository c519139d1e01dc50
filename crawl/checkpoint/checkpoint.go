package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Options are the options of a Maker.
type Options struct {
	Log   *slog.Logger
	Every time.Duration
}

// Others are the stages that a Maker calls.
type Others struct {
	// RAM copies what the stages hold in RAM only. The order is that of the tail file.
	RAM []Copy
	// Flush ends what must be complete before the moment of a checkpoint.
	Flush func() error
	// Saved is called when a manifest is durable, before the files that it does not name are deleted.
	Saved func(m *state.Manifest, data []byte)
	// Roll gives output files their final names if it is time. It reports whether a checkpoint is due for
	// them.
	Roll func(now time.Time) (bool, error)
}

// moment is the state that is copied under the exclusive lock.
type moment struct {
	parts    []frozenPart
	ram      []Copied
	accounts state.Accounts
	active   int64
	written  int64 // bytes written; set after it has been saved
}

// Maker makes checkpoints. Its goroutine is "checkpoint".
type Maker struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	space  *space.Keeper
	others Others

	structures []*Structure
	mu         sync.Mutex // held during a checkpoint; guards gen
	gen        uint64
	last       atomic.Pointer[snapshot.CheckpointStats]
	frozen     state.Frozen
	lineage    state.Manifest // Lineage, Erasures and Restored only
	runs       int
	lastRun    *state.LastRun
	changes    atomic.Int64 // account.Run.Changes when the last checkpoint began
	savedAt    atomic.Int64 // when the crawl last had the saved state, Unix ns
}

// New returns a Maker. Wire must give it the stages before a checkpoint.
func New(run *account.Run, saved *state.Saved, opt Options, keeper *space.Keeper) *Maker {
	return &Maker{run: run, saved: saved, opt: opt, space: keeper}
}

// Wire gives the Maker the stages that it calls.
func (k *Maker) Wire(others Others) { k.others = others }

// checkpoint writes a durable manifest of the current state. Checkpoints run one at a time. After an error
// no further checkpoint is made.
func (k *Maker) checkpoint(clean bool, done string) error {
	var late account.LateLog
	err := k.checkpointQuietly(clean, done, &late)
	late.Tell()
	return err
}

// checkpointQuietly is checkpoint, but leaves its log lines to the caller.
func (k *Maker) checkpointQuietly(clean bool, done string, late *account.LateLog) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.run.Failure(); err != nil {
		return fmt.Errorf("crawl: no checkpoint after a failed write: %w", err)
	}
	began := time.Now()
	changes := k.run.Changes()
	k.run.TakeSlowest()
	if err := k.others.Flush(); err != nil {
		return err
	}
	mo, stats := k.freeze()
	m, err := k.saveMoment(mo, clean, done)
	if err != nil {
		k.run.Fail(err)
		return err
	}
	stats.Bytes = mo.written
	stats.Stall = max(k.run.TakeSlowest(), stats.Pause)
	stats.Number, stats.Total, stats.When = k.gen, time.Since(began), time.Now()
	stats.Since(k.last.Load())
	k.run.Times.Observe(snapshot.TimeCheckpoint, stats.Total)
	k.run.Times.Observe(snapshot.TimePause, stats.Pause)
	k.last.Store(&stats)
	for _, c := range mo.ram {
		if c.Durable == nil {
			continue
		}
		if err := c.Durable(m); err != nil {
			k.run.Fail(err)
			return err
		}
	}
	k.changes.Store(changes)
	k.savedAt.Store(began.UnixNano())
	late.Add(k.opt.Log.Debug, "checkpoint", "number", stats.Number, "wait", stats.Wait, "pause", stats.Pause,
		"stall", stats.Stall, "total", stats.Total, "bytes", stats.Bytes)
	return nil
}

// Resume continues from the last manifest (nil for a new crawl) and deletes tails that it does not name.
// The next manifests have the settings that are fixed for the crawl, and what is kept of the options of
// this run.
func (k *Maker) Resume(m *state.Manifest, frozen state.Frozen, run *state.LastRun) error {
	if m != nil {
		k.gen, k.runs = m.Gen, m.Runs
		k.lineage = state.Manifest{Lineage: m.Lineage, Erasures: m.Erasures, Restored: m.Restored}
	}
	if len(k.lineage.Lineage) == 0 {
		name, err := state.RandomLineage()
		if err != nil {
			return err
		}
		k.lineage.NewLineage(name)
	}
	k.runs++
	k.frozen, k.lastRun = frozen, run
	return disk.RemoveTails(k.saved.Set, func(g uint64) bool { return m != nil && g == m.Gen })
}

// OpenAll opens the structures at the state in a manifest, nil for a new crawl.
func (k *Maker) OpenAll(structures []*Structure, m *state.Manifest) error {
	k.structures = structures
	for _, s := range structures {
		if err := s.open(m); err != nil {
			return err
		}
	}
	return nil
}

// CloseAll closes the open structures.
func (k *Maker) CloseAll() error {
	var errs []error
	for _, s := range k.structures {
		if s.close != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

// Structures returns the names of the structures, in their order.
func (k *Maker) Structures() (names []string) {
	for _, s := range k.structures {
		names = append(names, s.Name)
	}
	return names
}

// Latest returns the last checkpoint, nil before the first.
func (k *Maker) Latest() *snapshot.CheckpointStats { return k.last.Load() }

// Unsaved reports whether anything has changed since the last checkpoint began.
func (k *Maker) Unsaved() bool { return k.changes.Load() != k.run.Changes() }

// SaveEnd makes the last checkpoint of a run; done says why the crawl is over, "" if it is not.
func (k *Maker) SaveEnd(done string) error { return k.checkpoint(true, done) }

// Save makes a checkpoint.
func (k *Maker) Save() error { return k.checkpoint(false, "") }

// SaveQuietly is Save, but leaves its log lines to the caller, who may hold locks.
func (k *Maker) SaveQuietly(late *account.LateLog) error { return k.checkpointQuietly(false, "", late) }

// Show adds the figures of checkpoints to a snapshot.
func (k *Maker) Show(s *snapshot.Snapshot) {
	if last := k.Latest(); last != nil {
		s.Checkpoint = *last
	}
	s.Runs, s.CheckpointEvery = k.runs, k.opt.Every
	if at := k.savedAt.Load(); at != 0 {
		s.Saved = time.Unix(0, at)
	}
}

// freeze stops all transactions briefly and copies the state.
func (k *Maker) freeze() (*moment, snapshot.CheckpointStats) {
	var stats snapshot.CheckpointStats
	began := time.Now()
	pausable := k.pausable()
	pauseAll(pausable)
	stats.Wait = time.Since(began)
	k.run.TxLock.Lock()
	locked := time.Now()
	m := &moment{accounts: k.run.Accounts.Copy(), active: k.run.ActiveMillis()}
	for _, c := range k.others.RAM {
		m.ram = append(m.ram, c())
	}
	for _, s := range k.structures {
		m.parts = append(m.parts, s.freeze())
	}
	k.run.TxLock.Unlock()
	stats.Pause = time.Since(locked)
	for _, p := range pausable {
		p.Resume()
	}
	return m, stats
}

// pausable returns the structures that emit.
func (k *Maker) pausable() (all []pausable) {
	for _, s := range k.structures {
		if s.pausable != nil {
			all = append(all, s.pausable)
		}
	}
	return all
}

// saveMoment writes the frozen state, makes it durable, names it in the manifest and deletes replaced files.
func (k *Maker) saveMoment(mo *moment, clean bool, done string) (*state.Manifest, error) {
	gen := k.gen + 1
	waiting := k.space.WaitingBytes()
	tails, err := disk.CreateTails(k.saved.Set, gen)
	if err != nil {
		return nil, fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	m := &state.Manifest{Gen: gen, Crawl: k.saved.CrawlID, Time: time.Now().Unix(), Clean: clean, Done: done,
		Frozen: k.frozen, Began: k.run.FirstBegan(), Active: mo.active, Runs: k.runs, Run: k.lastRun,
		Lineage: k.lineage.Lineage, Erasures: k.lineage.Erasures, Restored: k.lineage.Restored,
		Accounts: mo.accounts, Parts: make(map[string]json.RawMessage, len(mo.parts))}
	m.Accounts.Counters[state.CountCheckpoints]++
	if err := mo.save(m, tails); err != nil {
		return nil, err
	}
	k.run.Hook("checkpoint")
	dirs := k.saved.Set.Paths
	if k.saved.SeparateOut {
		dirs = slices.Concat(dirs, k.saved.Out.Paths)
	}
	if err := syncAll(k.saved.Set.FS, dirs); err != nil {
		return nil, fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	data, err := state.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	k.run.Hook("checkpoint")
	if err := k.saved.WriteManifest(data); err != nil {
		return nil, fmt.Errorf("crawl: checkpoint %d: manifest: %w", gen, err)
	}
	k.gen = gen
	k.space.NoteSaved(&m.Accounts)
	if k.others.Saved != nil {
		k.others.Saved(m, data)
	}
	k.run.Hook("checkpoint")
	for _, p := range mo.parts {
		if err := p.commit(); err != nil {
			return nil, err
		}
	}
	if err := disk.RemoveTails(k.saved.Set, func(g uint64) bool { return g == gen }); err != nil {
		return nil, fmt.Errorf("crawl: after checkpoint %d: %w", gen, err)
	}
	k.run.Accounts.Do(func(a *state.Accounts) { a.Counters[state.CountCheckpoints]++ })
	mo.written = tails.Bytes() + int64(len(data))
	k.space.NoteCost(tails, int64(len(data)), waiting)
	return m, nil
}

// save writes the frozen state, and names it in a manifest.
func (mo *moment) save(m *state.Manifest, tails *disk.Tails) (err error) {
	for _, p := range mo.parts {
		if m.Parts[p.name], err = p.save(tails); err != nil {
			return err
		}
	}
	for _, c := range mo.ram {
		if c.Save == nil {
			continue
		}
		if err := c.Save(m, tails); err != nil {
			return err
		}
	}
	if err := tails.Close(); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", m.Gen, err)
	}
	return nil
}

// syncAll makes everything in dirs durable. The directories are usually on different disks, which write at
// the same time: the slowest disk sets the time, not their sum.
func syncAll(fsys disk.FS, dirs []string) error {
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	for i, dir := range dirs {
		wg.Go(func() {
			if err := fsys.SyncFS(dir); err != nil {
				errs[i] = fmt.Errorf("sync %s: %w", dir, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// First is the longest time until the first checkpoint of a run. Without it a process that crashes
// repeatedly within Options.Every would fetch the same pages for ever, and a new crawl that is killed in
// its first minute would begin again.
const First = 5 * time.Second

// Run makes a checkpoint every Options.Every unless nothing has changed. The intervals of a run start at
// First and double.
func (k *Maker) Run(ctx context.Context) error {
	wait := min(k.opt.Every, First)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			wait = min(2*wait, k.opt.Every)
			t.Reset(wait)
			rolled, err := k.others.Roll(time.Now())
			if err != nil {
				return err
			}
			if !rolled && !k.Unsaved() {
				k.savedAt.Store(time.Now().UnixNano())
				continue
			}
			if err := k.checkpoint(false, ""); err != nil {
				return err
			}
		}
	}
}
