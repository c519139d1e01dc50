package backups

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
	"drumbeat/state"
	"drumbeat/state/backup"
	"drumbeat/state/snapshot"
)

// Options have a running crawl backed up.
type Options struct {
	Place backup.Place
	// Every is the time between the checkpoints of two backups. 0: DefaultEvery.
	Every          time.Duration
	Keep           int   // backups to keep; 0: backup.DefaultKeep
	BytesPerSecond int64 // at which files are read; 0: no bound
	PackBytes      int   // as of package backup
}

// backupRAM is one pack, its list, and the list of the backup before: those of some 10^5 files.
const backupRAM = 48 << 20

// RAM returns what backups need, in bytes.
func (o *Options) RAM() int64 {
	if o == nil {
		return 0
	}
	return backupRAM
}

// DefaultEvery is the default of Options.Every.
const DefaultEvery = 6 * time.Hour

// Waits between attempts, and the time for the list of an attempt that a stop interrupted.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	endTime    = 10 * time.Second
)

// Checkpoints makes checkpoints: of a running crawl, and at the end of a run, where done says why the crawl is over.
type Checkpoints interface {
	Save() error
	SaveEnd(done string) error
}

// Keeper backs a crawl up. Its goroutine is "backup". A nil Options means that it does nothing.
type Keeper struct {
	run         *account.Run
	saved       *state.Saved
	opt         *Options
	log         *slog.Logger
	program     string
	began       time.Time
	holder      *disk.Holder
	table       uint64 // of owners, of this run
	checkpoints Checkpoints
	leaving     func() bool

	mu      sync.Mutex // guards the fields below; a leaf
	backup  *backup.Backup
	wanted  bool        // the next checkpoint is to be pinned
	job     *backup.Job // pinned, not copied yet
	failed  error       // of Pin
	figures snapshot.Backup
	changes int64 // of the run when the last backup began
	// stale says that pages were erased since the last backup, or the table of owners has changed: a node whose backup
	// has another table cannot be replaced.
	stale bool
}

// New returns a Keeper. holder is the file system of the crawl; program is the version of the program.
func New(run *account.Run, saved *state.Saved, opt *Options, holder *disk.Holder, log *slog.Logger,
	program string) *Keeper {
	k := &Keeper{began: time.Now(), run: run, saved: saved, opt: opt, holder: holder, log: log, program: program}
	if opt != nil {
		k.figures.On, k.figures.Place = true, opt.Place.String()
		k.figures.Every = cmp.Or(opt.Every, DefaultEvery)
	}
	return k
}

// Wire gives the Keeper the maker of checkpoints. leaving reports whether URLs of slots leave the node: a node that is
// replaced from a backup of such a moment would send some of them twice, so none is made then.
func (k *Keeper) Wire(c Checkpoints, leaving func() bool) { k.checkpoints, k.leaving = c, leaving }

// Access tries the place at the start of a run, before the crawl writes anything. It returns an error if waiting
// cannot help. m is nil for a new crawl.
func (k *Keeper) Access(ctx context.Context, m *state.Manifest, table uint64) error {
	if k.opt == nil {
		return nil
	}
	k.table = table
	err := k.opt.Place.Check(ctx)
	if err == nil && m != nil && len(m.Lineage) > 0 {
		err = k.open(ctx, m)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.Is(err, objstore.ErrDenied), errors.Is(err, backup.ErrElsewhere), !remote(k.opt.Place):
		return state.Incompatible("crawl: --backup: %w", err)
	}
	k.log.Error("the place of the backups does not answer; it is tried again", "place", k.opt.Place.String(),
		"error", err)
	return nil
}

// remote reports whether a place may come back by itself.
func remote(p backup.Place) bool {
	return strings.HasPrefix(p.String(), objstore.Scheme)
}

// open reads what the place has.
func (k *Keeper) open(ctx context.Context, m *state.Manifest) error {
	b, err := backup.Open(ctx, backup.Options{Place: k.opt.Place, Keep: k.opt.Keep,
		BytesPerSecond: k.opt.BytesPerSecond, PackBytes: k.opt.PackBytes, Program: k.program}, m)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.backup = b
	if last := b.Last(); last != nil {
		k.note(last)
		k.stale = last.Erasures < m.Erasures || last.Table != k.table
	}
	return nil
}

// note notes the newest backup. k.mu must be held.
func (k *Keeper) note(h *backup.Head) {
	k.figures.Number, k.figures.Time, k.figures.Bytes = h.Number, time.Unix(h.Time, 0), h.Bytes
}

// Pin pins a checkpoint if a backup waits for one: its manifest is durable, and no file that it names was removed.
// Errors are those of the backup, not of the crawl.
func (k *Keeper) Pin(m *state.Manifest, data []byte) {
	k.mu.Lock()
	b := k.backup
	wanted := k.wanted && b != nil
	k.mu.Unlock()
	if !wanted {
		return
	}
	files, err := backup.Files(k.saved, m)
	var job *backup.Job
	if err == nil {
		job = b.Plan(m, data, files)
		job.Holds(k.holder.Hold)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted, k.job, k.failed = false, job, err
}

// Run makes backups until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.opt == nil {
		return nil
	}
	wait := time.Duration(0)
	for account.Sleep(ctx, k.due(time.Now(), wait)) {
		if k.leaving() {
			wait = min(k.figures.Every, leavingWait)
			continue
		}
		if !k.changed() {
			wait = min(k.figures.Every, time.Minute)
			continue
		}
		err := k.make(ctx, k.checkpoints.Save)
		if ctx.Err() != nil {
			return nil
		}
		if wait = k.noteAttempt(err, wait); errors.Is(err, backup.ErrElsewhere) {
			return state.Incompatible("crawl: --backup: %w", err)
		}
	}
	return nil
}

// due returns how long the next attempt must wait; retry is the wait after a failure, or 0.
func (k *Keeper) due(now time.Time, retry time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if retry > 0 || k.figures.Number == 0 || k.stale {
		return retry
	}
	return k.figures.Time.Add(k.figures.Every).Sub(now)
}

// changed reports whether the crawl has changed since the last backup of this run.
func (k *Keeper) changed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.figures.Made == 0 || k.changes != k.run.Changes()
}

// leavingWait is how long the next backup waits before it looks again whether URLs leave.
const leavingWait = 5 * time.Second

// noteAttempt logs the result of an attempt, and returns the wait until the next one.
func (k *Keeper) noteAttempt(err error, wait time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.figures.Failing = ""
		return 0
	}
	k.figures.Faults++
	if k.figures.Failing == "" {
		k.log.Error("the backup failed; it is tried again", "place", k.opt.Place.String(), "error", err)
	}
	k.figures.Failing = err.Error()
	return min(max(firstRetry, 2*wait), lastRetry)
}

// make makes one backup, of the checkpoint that save makes.
func (k *Keeper) make(ctx context.Context, save func() error) error {
	changes, began := k.run.Changes(), time.Now()
	job, b, err := k.pinned(ctx, save)
	defer func() { // removals that waited
		if err := k.holder.ReleaseAll(); err != nil {
			k.run.Fail(err)
		}
	}()
	if err != nil || job == nil {
		return err
	}
	h, err := b.Make(ctx, job, k.saved, k.holder.OpenHeld, func(path string) {
		if err := k.holder.Release(path); err != nil {
			k.run.Fail(err)
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
			defer cancel()
			b.Interrupted(end)
		}
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(h)
	k.changes, k.stale = changes, false
	k.figures.Made++
	k.figures.Copied += h.Copied
	k.log.Info("backup", "number", h.Number, "checkpoint", h.Gen, "bytes", human.Bytes(h.Bytes),
		"copied", human.Bytes(h.Copied), "took", time.Since(began).Round(time.Millisecond))
	if left, err := b.Uncleaned(); left > 0 {
		k.log.Error("objects of old backups could not be deleted; the next backup tries again", "objects", left,
			"error", err)
	}
	return nil
}

// pinned has save make a checkpoint that Pin pins.
func (k *Keeper) pinned(ctx context.Context, save func() error) (*backup.Job, *backup.Backup, error) {
	k.mu.Lock()
	b := k.backup
	k.mu.Unlock()
	if b == nil {
		m, _, err := state.ReadManifest(k.saved.Set)
		if err == nil && m != nil {
			err = k.open(ctx, m)
		}
		if err != nil || m == nil {
			return nil, nil, err
		}
	}
	k.mu.Lock()
	k.wanted, k.job, k.failed = true, nil, nil
	k.mu.Unlock()
	err := save()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = false
	if err != nil { // the run ends with it
		return nil, nil, nil
	}
	return k.job, k.backup, k.failed
}

// Behind reports whether a crawl that was over before this run has no backup of its end.
func (k *Keeper) Behind(m *state.Manifest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opt != nil && (k.backup == nil || k.backup.Last() == nil || k.backup.Last().Gen < m.Gen)
}

// Finish makes the last backup of a crawl that is over, after its last checkpoint. done says why it is over; "": it is
// not.
func (k *Keeper) Finish(ctx context.Context, done string) {
	if k.opt == nil || done == "" {
		return
	}
	wait := time.Duration(0)
	for range finalAttempts {
		err := k.make(ctx, func() error { return k.checkpoints.SaveEnd(done) })
		if err == nil || ctx.Err() != nil {
			return
		}
		wait = k.noteAttempt(err, wait)
		account.Sleep(ctx, wait)
	}
	k.log.Error("the last backup of the crawl failed; run drumbeat backup make to make it", "place",
		k.opt.Place.String())
}

// finalAttempts bounds the attempts of the last backup: each has its own attempts for each call.
const finalAttempts = 3

// Show adds the figures to a snapshot.
func (k *Keeper) Show(s *snapshot.Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Backup = k.figures
	if k.backup != nil {
		s.Backup.Total, s.Backup.Done = k.backup.Figures()
	}
	s.Backup.Held = k.holder.Held()
	since := k.figures.Time
	if since.IsZero() {
		since = k.began
	}
	s.Backup.Late = k.opt != nil && time.Since(since) > 2*k.figures.Every &&
		(k.figures.Made == 0 || k.changes != k.run.Changes())
}
