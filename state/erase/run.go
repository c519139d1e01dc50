package erase

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
	"drumbeat/internal/scope"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	"drumbeat/state/repair"
	"drumbeat/warc"
)

// Options describe an erasure.
type Options struct {
	FS disk.FS // nil: the machine's
	// Dirs are all directories of the crawl, Out its output directories if it has separate ones.
	Dirs, Out []string
	// Also are files and directories outside of the crawl, such as exports.
	Also []string
	// Waiting carries out the requests that wait, in one pass, and has no Source, Reason, Hide and DryRun. Otherwise
	// they are carried out before the source, except for a DryRun.
	Waiting  bool
	Source   Source
	Reason   string // required, one line
	Hide     bool   // keep no target in the record
	DryRun   bool
	RAMBytes int64 // for sorting and the buffers of stores; 0: 256 MiB
	Now      func() time.Time
	// OpenStore opens the object store of a crawl that has one; nil: by S3.
	OpenStore func(objstore.Place) (objstore.Bucket, error)
	// Progress, if set, is called with each step.
	Progress func(step string)
}

const (
	defaultRAM = 256 << 20
	maxReason  = 1000 // bytes
	// spareBytes is left free on a disk beside the largest file that is rewritten.
	spareBytes = 64 << 20
)

// Report is the result of Run.
type Report struct {
	Finished *Record // an interrupted erasure that was finished first
	Waited   *Record // the erasure of requests that waited
	Served   int     // their number
	Record   *Record // nil if the interrupted erasure was the one of the request, and for Waiting
	Dry      bool
	// Left is what the object store keeps of this erasure and earlier ones: each Run that erases tries again to
	// delete it.
	Left []Left
}

// run is the state of one Run.
type run struct {
	opt      *Options
	r        *state.Saved
	m        *state.Manifest
	source   Source
	requests []Request // that waited, if they are the source
	t        *Targets
	tables   []*cluster.Table // those in which PLDs are divided
	j        *journal
	volumes  []volume  // in which something changes
	sub      string    // directory of the work files of a WACZ, with a slash
	bodies   *workFile // open while WARC files are rewritten
	remote   *store    // nil without an object store
}

func (o *Options) defaults() {
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if o.RAMBytes == 0 {
		o.RAMBytes = defaultRAM
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Run erases, or finishes an interrupted erasure and then erases, unless it was the same. The package comment
// has the protocol.
func Run(opt Options) (rep *Report, err error) {
	opt.defaults()
	if !opt.Waiting {
		if opt.Reason, err = oneLine(opt.Reason); err != nil {
			return nil, err
		}
	}
	x := &run{opt: &opt}
	defer func() {
		if x.r != nil {
			err = errors.Join(x.storeError(err), x.r.Unlock())
		}
		err = explained(err)
	}()
	if err := x.open(); err != nil {
		return nil, x.refusedWaiting(err)
	}
	rep = &Report{Dry: opt.DryRun}
	if x.j, err = readJournal(x.r.Set); err != nil {
		return nil, err
	}
	if x.j != nil {
		if opt.DryRun {
			return nil, fmt.Errorf("erase: %w", state.ErrErasing)
		}
		if err := x.resume(); err != nil {
			return nil, err
		}
		rep.Finished = &x.j.Record
	}
	if x.remote != nil && !opt.DryRun {
		if err := x.remote.clearLeft(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err == nil {
			var all []Record
			all, err = Records(x.r.Set)
			rep.Left = LeftOf(all)
		}
	}()
	if !opt.DryRun {
		if rep.Waited, err = x.serveWaiting(); err != nil {
			return nil, err
		}
		rep.Served = len(x.requests)
	}
	if opt.Waiting {
		return rep, nil
	}
	x.source, x.requests = opt.Source, nil
	if err := x.plan(rep.Finished); err != nil {
		return nil, errors.Join(err, x.abandon(err))
	}
	if x.j == nil { // it was the same
		return rep, x.abandon(nil)
	}
	rep.Record = &x.j.Record
	if opt.DryRun {
		return rep, x.abandon(nil)
	}
	return rep, x.carryOut()
}

// storeError returns the error for which the store could not be read in place of what a reader made of it, and says
// whether the erasure has begun.
func (x *run) storeError(err error) error {
	var from *StoreError
	if err == nil {
		return nil
	}
	if remote := x.r.RemoteFailed(); !errors.As(err, &from) && remote != nil {
		from = &StoreError{Place: x.m.Store.String(), Err: remote}
		err = from
	}
	if from != nil {
		from.Begun = x.j != nil && x.j.Phase != ""
	}
	return err
}

// serveWaiting carries out the requests that wait, in one pass. If that is refused, they keep waiting, with the
// reason.
func (x *run) serveWaiting() (*Record, error) {
	if any, err := x.takeRequests(); err != nil || !any {
		return nil, err
	}
	if err := x.plan(nil); err != nil {
		return nil, errors.Join(x.refusedWaiting(err), x.abandon(err))
	}
	done := &x.j.Record
	return done, x.carryOut()
}

// refusedWaiting keeps an error that has changed nothing with the requests that wait.
func (x *run) refusedWaiting(why error) error {
	if x.r == nil {
		return why
	}
	space, from := (*SpaceError)(nil), (*StoreError)(nil)
	if why = x.storeError(why); !IsRefused(why) && !errors.As(why, &space) && !errors.As(why, &from) {
		return why
	}
	all, err := Requests(x.r.Set)
	for i := range all {
		all[i].Error = strings.TrimPrefix(why.Error(), "erase: ")
		err = errors.Join(err, all[i].write(x.r.Set))
	}
	return errors.Join(why, errUnchanged, err)
}

// ChangedNothing reports whether an error of Run leaves the crawl as it was, so that it may run.
func ChangedNothing(err error) bool { return errors.Is(err, errUnchanged) }

var errUnchanged = errors.New("nothing was erased")

// explained adds what a full disk means.
func explained(err error) error {
	if space := (*SpaceError)(nil); errors.As(err, &space) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("erase: the disk is full: make room, and run the command again: it continues: %w", err)
	}
	return err
}

// open locks the crawl and reads its manifest, also in the middle of an erasure.
func (x *run) open() error {
	o := &audit.Options{FS: x.opt.FS, Dirs: x.opt.Dirs, Out: x.opt.Out, Repairing: true, Remote: audit.RemoteRead,
		OpenStore: x.opt.OpenStore}
	var err error
	x.r, x.m, err = audit.Open(o)
	if err != nil {
		return err
	}
	if x.r.RefuseErasing() == nil {
		if err := x.r.RefuseRepairing(); err != nil {
			return err
		}
	}
	switch {
	case x.r.SeparateOut && x.r.Out.Len() == 0:
		return fmt.Errorf("erase: the output is in separate directories: give them with --out: %w",
			state.ErrIncompatible)
	}
	if len(x.m.Next) > 0 {
		return refused("slots of another node are on their way to this one: first run the node until they are here")
	}
	if err := Unknown(&x.m.Frozen); err != nil {
		return err
	}
	for i := range x.r.Set.Paths {
		dir := x.r.Set.Path(i, "state", state.DamagedDir)
		files, err := repair.FilesIn(x.r.Set.FS, dir, true)
		if len(files) > 0 && err == nil && x.r.RefuseErasing() == nil {
			return refused("%s has files that a repair has replaced, perhaps with pages to erase: delete it first", dir)
		}
	}
	if x.tables, err = x.m.DividedTables(); err != nil {
		return err
	}
	if err := x.r.OpenSuffixes(x.m.Frozen.Private, true); err != nil {
		return err
	}
	if got := x.r.Suffixes.Digest(); got != x.m.Frozen.Suffixes {
		return fmt.Errorf("erase: the suffix list in %s has digest %s, want %s: %w",
			x.r.Set.Path(0, state.SuffixesName), got, x.m.Frozen.Suffixes, state.ErrIncompatible)
	}
	return x.openStore()
}

// Unknown returns a *RequestError for kinds of crawls that Run does not know.
func Unknown(f *state.Frozen) error {
	if f.Walk {
		return refused("the crawl is a random walk: erase cannot change its log of URLs; delete the crawl instead")
	}
	return nil
}

// work returns the path of a work file.
func (x *run) work(name string) string { return x.r.Set.Path(0, state.EraseDir, x.sub+name) }

// write writes the journal, durably. From the first time on, the erasure is under way.
func (x *run) write(phase string) error {
	x.j.Phase = phase
	data, err := state.Seal(journalMagic, x.j)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(x.r.Set.FS, x.r.Set.Path(0, state.EraseName), data)
}

// abandon removes the work files of an erasure that has no journal, unless the error stands for the death of
// the process.
func (x *run) abandon(why error) error {
	if errors.Is(why, disk.ErrCrashed) {
		return nil
	}
	if _, err := x.r.Set.FS.Size(x.r.Set.Path(0, state.EraseName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return x.removeWork()
}

// removeWork removes the work files.
func (x *run) removeWork() error {
	return repair.RemoveTree(x.r.Set.FS, x.r.Set.Path(0, state.EraseDir))
}

// ready checks the store, and tidies the crawl.
func (x *run) ready() error {
	if x.remote != nil {
		if err := x.remote.check(); err != nil {
			return err
		}
	}
	if x.opt.DryRun {
		return nil
	}
	return x.tidy()
}

// resume finishes an interrupted erasure.
func (x *run) resume() error {
	x.opt.Progress("finish an interrupted erasure")
	// If it was killed while it replaced its journal, the new one may not be durable yet. What the old one needs must
	// not go before.
	if err := repair.SyncAll(x.r); err != nil {
		return err
	}
	if x.j.Phase != phaseDone {
		if err := x.loadPlan(); err != nil {
			return err
		}
	}
	return x.carryOut()
}

// carryOut does what the journal says that is left.
func (x *run) carryOut() error {
	if x.j.Phase == phasePlanned {
		x.opt.Progress("rewrite WARC files")
		if err := x.rewriteWARC(); err != nil {
			return err
		}
		if err := x.write(phaseWARC); err != nil {
			return err
		}
	}
	if x.j.Phase == phaseWARC {
		x.opt.Progress("rewrite outputs")
		if err := x.rewriteOutputs(); err != nil {
			return err
		}
		x.opt.Progress("rewrite logs and queues")
		if err := x.changeState(); err != nil {
			return err
		}
		if err := x.write(phaseState); err != nil {
			return err
		}
	}
	if x.j.Phase == phaseState {
		if x.remote != nil {
			x.opt.Progress("delete old objects")
			if err := x.remote.purge(); err != nil {
				return err
			}
		}
		if err := x.conclude(); err != nil {
			return err
		}
		if err := x.write(phaseDone); err != nil {
			return err
		}
	}
	err := x.removeWork()
	if err == nil {
		err = x.r.Set.FS.SyncFS(x.r.Set.Path(0)) // they name the targets
	}
	if err != nil {
		return err
	}
	name := x.r.Set.Path(0, state.EraseName)
	if err := x.r.Set.FS.Remove(name); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return x.r.Set.FS.SyncDir(path.Dir(name))
}

// changeState rewrites the logs, and replaces the state of the crawl.
func (x *run) changeState() error {
	if x.m.Gen == x.j.Gen { // not yet, or a crash interrupted the commit
		prepared := false
		for _, name := range []string{state.MoveName, state.JournalName} {
			if _, err := x.r.Set.FS.Size(x.r.Set.Path(0, name)); err == nil {
				prepared = true
			}
		}
		if !prepared {
			if err := x.prepareState(); err != nil {
				return err
			}
		}
	}
	if err := repair.Commit(x.r); err != nil {
		return err
	}
	m, _, err := state.ReadManifest(x.r.Set)
	if err == nil && (m == nil || m.Gen != x.j.Gen+1) {
		err = errors.New("BUG: erase: another manifest than the one of the erasure")
	}
	if err != nil {
		return err
	}
	x.m = m
	return x.renewStore()
}

// conclude adds the rules to the blacklist, and writes the record of the erasure.
func (x *run) conclude() error {
	if err := x.bar(); err != nil {
		return err
	}
	set := x.r.Set
	resolver := x.resolver()
	if err := changes.DropLines(set.FS, set.Path(0, state.ChangesName),
		func(line string) bool { return x.seedGoes(resolver, []byte(line)) }); err != nil {
		return err
	}
	if err := x.blankLists(); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if err := set.FS.MkdirAll(set.Path(0, state.ErasedDir)); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if err := set.FS.SyncDir(set.Path(0)); err != nil { // with a directory that a power cut loses its files are lost
		return fmt.Errorf("erase: %w", err)
	}
	for work, suffix := range map[string]string{"keys": state.ErasedKeys, "asked": state.AskedKeys} {
		name := recordName(set, x.j.Number, suffix)
		_, err := set.FS.Size(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = set.FS.Rename(x.work(work), name)
		}
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	x.j.Ended = x.opt.Now().UTC().Truncate(time.Second)
	if len(x.j.Requests) > 0 {
		return x.concludeRequests()
	}
	return writeRecord(set, &x.j.Record) // it also makes the name of the file of keys durable
}

// bar adds the hosts and PLDs to the crawl's own blacklist. URLs need no rule: URLseen has them.
func (x *run) bar() error {
	return x.withRules(func(j *changes.Journal, c changes.Change) error {
		if _, err := j.Append(c, x.opt.Now()); err != nil {
			return fmt.Errorf("erase: block the hosts: %w", err)
		}
		return nil
	})
}

// mayBar refuses hosts and PLDs for which the blacklist has no room, before anything is changed.
func (x *run) mayBar() error {
	return x.withRules(func(j *changes.Journal, c changes.Change) error {
		err := j.Fits(c)
		if full := (*changes.FullError)(nil); changes.IsRefused(err) || errors.As(err, &full) {
			return refused("the crawl's own blacklist has no room for %s: %v",
				human.Counted(len(x.t.Names), "host or PLD", "hosts and PLDs"), err)
		}
		return err
	})
}

// withRules calls fn with the journal of changes and the change that adds the rules that it lacks, if there are any.
func (x *run) withRules(fn func(j *changes.Journal, c changes.Change) error) (err error) {
	if len(x.t.Names) == 0 {
		return nil
	}
	j, err := changes.Open(x.r.Set.FS, x.r.Set.Path(0, state.ChangesName), x.m.Changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	has, ordered := map[string]bool{}, j.Settings().Orders
	for _, rule := range j.Settings().Blocked {
		has[rule] = true
	}
	c := changes.Change{Op: changes.OpBlock, Who: "erase", Stamp: x.orderStamp()}
	if len(ordered)+len(x.t.Names) > cluster.MaxOrders {
		c.Stamp = 0
	}
	for _, rule := range x.t.Names {
		if x.j.Hidden {
			kind, name, _ := strings.Cut(strings.TrimPrefix(rule, "- "), " ")
			rule = "- " + kind + " " + scope.Digest([]byte(name))
		}
		if !has[rule] || c.Stamp != 0 && ordered[rule].Stamp == 0 {
			c.Rules = append(c.Rules, rule)
		}
	}
	if len(c.Rules) == 0 {
		return nil
	}
	if len(c.Rules) == 1 {
		c.Rule, c.Rules = c.Rules[0], nil
	}
	return fn(j, c)
}

// orderStamp returns the Stamp of the rules if all nodes of a cluster carry out the requests, else 0.
func (x *run) orderStamp() (stamp int64) {
	for i := range x.j.Requests {
		r := &x.j.Requests[i]
		if r.Order == "" {
			return 0
		}
		stamp = max(stamp, r.Time.UnixMilli())
	}
	return stamp
}

// warcState returns the state of the WARC files.
func (x *run) warcState() (*warc.State, error) {
	st, err := state.Part[warc.State](x.m, state.NameWARC)
	if err == nil && st == nil {
		st = &warc.State{}
	}
	return st, err
}
