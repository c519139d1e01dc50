package crawl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/node"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/internal/objstore"
	"drumbeat/internal/walk"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// moment is the state that is copied under the exclusive lock. The sketches, the keys of --scope and the trap
// scores are not part of it: they are encoded later and may be newer, which costs nothing. The first two only
// grow, and a page that is fetched again after a crash counts twice for the score of its host.
type moment struct {
	parts    []frozenPart
	accounts state.Accounts
	seeds    state.Seeds
	held     state.Held
	items    []*polite.Item
	delays   []polite.Delay
	hosts    []health.Entry
	jobs     [][]byte
	orders   [][]byte
	renders  [][]byte
	walk     *walk.Frozen // nil with other strategies
	uploads  []objstore.Upload
	names    []string      // some that have addresses
	stored   output.Stored // files that are in the object store and that the queue of objects names
	active   int64
	changes  int64 // the last change whose seeds have been fed
	margin   float64
	node     *node.Moment // nil in a crawl of one node
	written  int64        // bytes written; set after it has been saved
}

// checkpointer writes checkpoints. Its goroutine is "checkpoint".
type checkpointer struct {
	*engine
	extraction     *output.Extraction
	node           *node.Node
	operator       *operator
	uploads        *output.Uploads
	structures     []*structure    // all structures on disk
	inRAM          []func(*moment) // copy the state that stages hold in RAM only
	checkpointMu   sync.Mutex      // held during a checkpoint; guards gen
	gen            uint64
	lastCheckpoint atomic.Pointer[CheckpointStats]
	frozen         state.Frozen
	runs           int
	lastRun        *state.LastRun
	saved          atomic.Int64 // value of changes when the last checkpoint began
	savedAt        atomic.Int64 // when the crawl last had the saved state, Unix ns

	output *output.Writer
	space  *space.Keeper
}

// checkpoint writes a durable manifest of the current state. Checkpoints run one at a time. After an error
// no further checkpoint is made.
func (k *checkpointer) checkpoint(clean bool, done string) error {
	var late account.LateLog
	err := k.checkpointQuietly(clean, done, &late)
	late.Tell()
	return err
}

// checkpointQuietly is checkpoint, but leaves its log lines to the caller, who may hold locks.
func (k *checkpointer) checkpointQuietly(clean bool, done string, late *account.LateLog) error {
	k.checkpointMu.Lock()
	defer k.checkpointMu.Unlock()
	if err := k.Failure(); err != nil {
		return fmt.Errorf("crawl: no checkpoint after a failed write: %w", err)
	}
	began := time.Now()
	changes := k.Changes()
	k.TakeSlowest()
	if err := k.node.Flush(); err != nil {
		return err
	}
	m, stats := k.freeze()
	if err := k.saveMoment(m, clean, done); err != nil {
		k.Fail(err)
		return err
	}
	stats.Bytes = m.written
	stats.Stall = max(k.TakeSlowest(), stats.Pause)
	stats.Number, stats.Total, stats.When = k.gen, time.Since(began), time.Now()
	stats.Since(k.lastCheckpoint.Load())
	k.Times.Observe(snapshot.TimeCheckpoint, stats.Total)
	k.Times.Observe(snapshot.TimePause, stats.Pause)
	k.lastCheckpoint.Store(&stats)
	if err := k.uploads.Checkpointed(m.stored); err != nil {
		k.Fail(err)
		return err
	}
	k.extraction.Checkpointed()
	k.node.Checkpointed(k.gen, m.accounts.Counters[state.CountPages], m.node)
	k.operator.checkpointed(m)
	k.saved.Store(changes)
	k.savedAt.Store(began.UnixNano())
	late.Add(k.opt.Observe.Log.Debug, "checkpoint", "number", stats.Number, "wait", stats.Wait, "pause", stats.Pause,
		"stall", stats.Stall, "total", stats.Total, "bytes", stats.Bytes)
	return nil
}

// resume continues from the last manifest (nil for a new crawl) and deletes tails that it does not name.
func (k *checkpointer) resume(m *state.Manifest) error {
	if m != nil {
		k.gen, k.runs = m.Gen, m.Runs
	}
	k.runs++
	k.lastRun = k.opt.lastRun()
	return disk.RemoveTails(k.Set, func(g uint64) bool { return m != nil && g == m.Gen })
}

// openAll opens the structures at the state in a manifest, nil for a new crawl.
func (k *checkpointer) openAll(structures []*structure, m *state.Manifest) error {
	k.structures = structures
	for _, s := range structures {
		if err := s.open(m); err != nil {
			return err
		}
	}
	return nil
}

// closeAll closes the open structures.
func (k *checkpointer) closeAll() error {
	var errs []error
	for _, s := range k.structures {
		if s.close != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

// latest returns the last checkpoint, nil before the first.
func (k *checkpointer) latest() *CheckpointStats { return k.lastCheckpoint.Load() }

// Unsaved reports whether anything has changed since the last checkpoint began.
func (k *checkpointer) Unsaved() bool { return k.saved.Load() != k.Changes() }

// SaveEnd makes the last checkpoint of a run; done says why the crawl is over, "" if it is not.
func (k *checkpointer) SaveEnd(done string) error { return k.checkpoint(true, done) }

// Save makes a checkpoint.
func (k *checkpointer) Save() error { return k.checkpoint(false, "") }

// show adds the figures of checkpoints to a snapshot.
func (k *checkpointer) show(s *Snapshot) {
	if last := k.latest(); last != nil {
		s.Checkpoint = *last
	}
	s.Runs, s.CheckpointEvery = k.runs, k.opt.Disk.CheckpointEvery
	if at := k.savedAt.Load(); at != 0 {
		s.Saved = time.Unix(0, at)
	}
}

// freeze stops all transactions briefly and copies the state.
func (k *checkpointer) freeze() (*moment, CheckpointStats) {
	var stats CheckpointStats
	began := time.Now()
	pausable := k.pausable()
	pauseAll(pausable)
	stats.Wait = time.Since(began)
	k.TxLock.Lock()
	locked := time.Now()
	m := &moment{
		accounts: k.Accounts.Copy(),
		items:    k.polite.Snapshot(),
		delays:   k.polite.Delays(time.Now()),
		active:   k.ActiveMillis(),
	}
	for _, copyTo := range k.inRAM {
		copyTo(m)
	}
	for _, s := range k.structures {
		m.parts = append(m.parts, s.freeze())
	}
	k.TxLock.Unlock()
	stats.Pause = time.Since(locked)
	for _, p := range pausable {
		p.Resume()
	}
	return m, stats
}

// pausable returns the structures that emit.
func (k *checkpointer) pausable() (all []pausable) {
	for _, s := range k.structures {
		if s.pausable != nil {
			all = append(all, s.pausable)
		}
	}
	return all
}

// saveMoment writes the frozen state, makes it durable, names it in the manifest and deletes replaced files.
func (k *checkpointer) saveMoment(mo *moment, clean bool, done string) error {
	gen := k.gen + 1
	waiting := k.space.WaitingBytes()
	tails, err := disk.CreateTails(k.Set, gen)
	if err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	m := &state.Manifest{Gen: gen, Crawl: k.CrawlID, Time: time.Now().Unix(), Clean: clean, Done: done,
		Frozen: k.frozen, Began: k.FirstBegan(), Active: mo.active, Runs: k.runs, Run: k.lastRun,
		Accounts: mo.accounts, Seeds: mo.seeds, Held: mo.held, Changes: mo.changes, Margin: mo.margin,
		Names: mo.names, Store: k.uploads.Place(), Uploads: mo.uploads,
		Parts: make(map[string]json.RawMessage, len(mo.parts))}
	k.node.SaveTo(m, mo.node)
	m.Accounts.Counters[state.CountCheckpoints]++
	for _, p := range mo.parts {
		if m.Parts[p.name], err = p.save(tails); err != nil {
			return err
		}
	}
	if m.RAM, err = tails.Write(0, dumpItems(mo.items)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: URLs in RAM: %w", gen, err)
	}
	if m.Jobs, err = tails.Write(0, state.DumpRecords(mo.jobs)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: robots requests: %w", gen, err)
	}
	if len(mo.renders) > 0 {
		if m.Renders, err = tails.Write(0, state.DumpRecords(mo.renders)); err != nil {
			return fmt.Errorf("crawl: checkpoint %d: pages being rendered: %w", gen, err)
		}
	}
	var delays []byte
	for i := range mo.delays {
		delays = mo.delays[i].Append(delays)
	}
	if m.Delays, err = tails.Write(0, delays); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: delays: %w", gen, err)
	}
	if m.Hosts, err = tails.Write(0, health.DumpHosts(mo.hosts)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: health of hosts: %w", gen, err)
	}
	sketches, err := k.sketches.encode()
	if err != nil {
		return err
	}
	if m.Sketches, err = tails.Write(0, sketches); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: sketches: %w", gen, err)
	}
	if k.traps != nil {
		if m.Traps, err = tails.Write(0, k.traps.AppendHosts(nil)); err != nil {
			return fmt.Errorf("crawl: checkpoint %d: trap scores: %w", gen, err)
		}
	}
	if len(mo.orders) > 0 {
		if m.Orders, err = tails.Write(0, state.DumpRecords(mo.orders)); err != nil {
			return fmt.Errorf("crawl: checkpoint %d: enqueued URLs: %w", gen, err)
		}
	}
	if mo.walk != nil {
		if m.Walk, err = tails.Write(0, mo.walk.Append(nil)); err != nil {
			return fmt.Errorf("crawl: checkpoint %d: random walk: %w", gen, err)
		}
	}
	if m.Scope, err = tails.Write(0, admit.DumpKeys(k.links.Sites.Extensions())); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: scope: %w", gen, err)
	}
	if err := tails.Close(); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	k.Hook("checkpoint")
	dirs := k.Set.Paths
	if k.SeparateOut {
		dirs = slices.Concat(dirs, k.Out.Paths)
	}
	if err := syncAll(k.Set.FS, dirs); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	k.Hook("checkpoint")
	if err := k.WriteManifest(data); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: manifest: %w", gen, err)
	}
	k.gen = gen
	k.space.NoteSaved(&m.Accounts)
	k.Hook("checkpoint")
	for _, p := range mo.parts {
		if err := p.commit(); err != nil {
			return err
		}
	}
	if err := disk.RemoveTails(k.Set, func(g uint64) bool { return g == gen }); err != nil {
		return fmt.Errorf("crawl: after checkpoint %d: %w", gen, err)
	}
	k.Accounts.Do(func(a *state.Accounts) { a.Counters[state.CountCheckpoints]++ })
	mo.written = tails.Bytes() + int64(len(data))
	k.space.NoteCost(tails, int64(len(data)), waiting)
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

// firstCheckpoint is the longest time until the first checkpoint of a run. Without it a process that crashes
// repeatedly within CheckpointEvery would fetch the same pages for ever, and a new crawl that is killed in its first
// minute would begin again.
const firstCheckpoint = 5 * time.Second

// checkpoints makes a checkpoint every CheckpointEvery unless nothing has changed. The intervals of a run start at
// firstCheckpoint and double.
func (k *checkpointer) checkpoints(ctx context.Context) error {
	wait := min(k.opt.Disk.CheckpointEvery, firstCheckpoint)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			wait = min(2*wait, k.opt.Disk.CheckpointEvery)
			t.Reset(wait)
			rolled, err := k.output.Roll(time.Now())
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

func dumpItems(items []*polite.Item) []byte {
	var b []byte
	for _, it := range items {
		if it.Robots {
			continue // a robots.txt request: moment.jobs has it
		}
		b = binary.AppendUvarint(b, uint64(len(it.Rec)))
		b = append(b, it.Rec...)
	}
	return b
}
