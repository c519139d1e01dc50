package crawl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/polite"
)

// A frozenPart is a structure's state of one moment on its way into the manifest (disk package comment, "Checkpoints").
type frozenPart struct {
	name   string
	save   func(*disk.Tails) (json.RawMessage, error)
	commit func() error
}

// freezer is what each structure on disk offers.
type freezer[S any] interface {
	Save(*disk.Tails) (*S, error)
	Commit() error
}

func freezePart[S any](name string, f freezer[S]) frozenPart {
	return frozenPart{
		name: name,
		save: func(t *disk.Tails) (json.RawMessage, error) {
			s, err := f.Save(t)
			if err != nil {
				return nil, fmt.Errorf("crawl: checkpoint of %s: %w", name, err)
			}
			return json.Marshal(s)
		},
		commit: func() error {
			if err := f.Commit(); err != nil {
				return fmt.Errorf("crawl: after checkpoint of %s: %w", name, err)
			}
			return nil
		},
	}
}

// moment is all that is copied under the exclusive lock.
type moment struct {
	parts    []frozenPart
	accounts accountsState
	seeds    seedState
	held     heldState
	items    []*polite.Item
	delays   []polite.Delay
	hosts    []hostEntry
	jobs     [][]byte
	active   int64
	written  int64 // bytes, known when it has been saved
}

// checkpoint makes a durable manifest of the present moment. One at a time. After an error nothing more is
// checkpointed.
func (r *ring) checkpoint(clean bool, done string) error {
	r.checkpointMu.Lock()
	defer r.checkpointMu.Unlock()
	if err := r.failure(); err != nil {
		return fmt.Errorf("crawl: no checkpoint after a failed write: %w", err)
	}
	began := time.Now()
	changes := r.changes.Load()
	r.slowest.take()
	m, stats := r.freeze()
	if err := r.saveMoment(m, clean, done); err != nil {
		r.fail(err)
		return err
	}
	stats.Bytes = m.written
	stats.Stall = max(r.slowest.take(), stats.Pause)
	stats.Number, stats.Total, stats.When = r.gen, time.Since(began), time.Now()
	stats.since(r.lastCheckpoint.Load())
	r.lastCheckpoint.Store(&stats)
	r.saved.Store(changes)
	r.opt.Log.Debug("checkpoint", "number", stats.Number, "wait", stats.Wait, "pause", stats.Pause, "stall", stats.Stall,
		"total", stats.Total, "bytes", stats.Bytes)
	return nil
}

// freeze stops all steps for an instant.
func (r *ring) freeze() (*moment, CheckpointStats) {
	var stats CheckpointStats
	began := time.Now()
	pausable := r.pausable()
	pauseAll(pausable)
	stats.Wait = time.Since(began)
	r.step.Lock()
	locked := time.Now()
	m := &moment{
		accounts: r.acct.copy(),
		seeds:    r.seeds.state,
		held:     r.heldState,
		items:    r.polite.Snapshot(),
		delays:   r.polite.Delays(time.Now()),
		hosts:    r.hosts.snapshot(),
		jobs:     r.robotsJobs.snapshot(),
		active:   r.activeMillis(),
		parts: []frozenPart{
			freezePart(nameURLSeen, r.urlSeen.Freeze()),
			freezePart(nameStar, r.star.Freeze()),
			freezePart(nameNames, r.names.Freeze()),
			freezePart(nameBeast, r.beast.Freeze()),
			freezePart(nameRobotsCache, r.robotsCache.Freeze()),
			freezePart(nameRobotsRequested, r.robotsRequested.Freeze()),
			freezePart(nameAwaitRobots, r.awaitRobots.Freeze()),
			freezePart(nameRobotsFetch, r.robotsFetch.Freeze()),
			freezePart(nameRobotsLater, r.robotsLater.Freeze()),
			freezePart(nameReady, r.ready.Freeze()),
			freezePart(nameHeld, r.held.Freeze()),
			freezePart(nameLater, r.later.Freeze()),
			freezePart(nameWARC, r.warc.Freeze()),
			freezePart(nameCrawlLog, r.crawlLog.Freeze()),
			freezePart(nameSeedLog, r.seedLog.Freeze()),
			freezePart(nameRobotsLog, r.robotsLog.Freeze()),
		},
	}
	r.step.Unlock()
	stats.Pause = time.Since(locked)
	for _, p := range pausable {
		p.Resume()
	}
	return m, stats
}

// saveMoment writes what was frozen, makes it durable, names it in the manifest and lets replaced files go.
func (r *ring) saveMoment(mo *moment, clean bool, done string) error {
	gen := r.gen + 1
	tails, err := disk.CreateTails(r.set, gen)
	if err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	m := &manifest{Gen: gen, Crawl: r.crawlID, Time: time.Now().Unix(), Clean: clean, Done: done, Frozen: r.frozen,
		Active: mo.active, Runs: r.runs, Run: r.noted, Accounts: mo.accounts, Seeds: mo.seeds, Held: mo.held,
		Parts: make(map[string]json.RawMessage, len(mo.parts))}
	m.Accounts.Counters[CountCheckpoints]++
	for _, p := range mo.parts {
		if m.Parts[p.name], err = p.save(tails); err != nil {
			return err
		}
	}
	if m.RAM, err = tails.Write(0, dumpItems(mo.items)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: URLs in RAM: %w", gen, err)
	}
	if m.Jobs, err = tails.Write(0, dumpRecords(mo.jobs)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: robots requests: %w", gen, err)
	}
	var delays []byte
	for i := range mo.delays {
		delays = mo.delays[i].Append(delays)
	}
	if m.Delays, err = tails.Write(0, delays); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: delays: %w", gen, err)
	}
	if m.Hosts, err = tails.Write(0, dumpHosts(mo.hosts)); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: health of hosts: %w", gen, err)
	}
	sketches, err := r.sketches.encode()
	if err != nil {
		return err
	}
	if m.Sketches, err = tails.Write(0, sketches); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: sketches: %w", gen, err)
	}
	if m.Scope, err = tails.Write(0, dumpKeys(r.scope.extensions())); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: scope: %w", gen, err)
	}
	if err := tails.Close(); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	r.at("checkpoint")
	for _, set := range []disk.Set{r.set, r.out} {
		for _, dir := range set.Paths {
			if err := set.FS.SyncFS(dir); err != nil {
				return fmt.Errorf("crawl: checkpoint %d: sync %s: %w", gen, dir, err)
			}
		}
	}
	data, err := encodeManifest(m)
	if err != nil {
		return err
	}
	r.at("checkpoint")
	if err := r.writeManifest(data); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: manifest: %w", gen, err)
	}
	r.gen = gen
	r.savedURLs.Store(m.Accounts.saved())
	r.at("checkpoint")
	for _, p := range mo.parts {
		if err := p.commit(); err != nil {
			return err
		}
	}
	if err := disk.RemoveTails(r.set, func(g uint64) bool { return g == gen }); err != nil {
		return fmt.Errorf("crawl: after checkpoint %d: %w", gen, err)
	}
	r.acct.mu.Lock()
	r.acct.s.Counters[CountCheckpoints]++
	r.acct.mu.Unlock()
	mo.written = tails.Bytes() + int64(len(data))
	return nil
}

// firstCheckpoint is when a crawl that did not end in order makes its first checkpoint. A process that dies again and again, sooner
// than CheckpointEvery, would otherwise fetch the same pages for ever.
const firstCheckpoint = 5 * time.Second

// checkpoints makes one every CheckpointEvery, unless nothing has changed; after a crash sooner at first, at intervals that double.
func (r *ring) checkpoints(ctx context.Context) error {
	wait := r.opt.CheckpointEvery
	if m := r.manifest; m != nil && !m.Clean {
		wait = min(wait, firstCheckpoint)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			wait = min(2*wait, r.opt.CheckpointEvery)
			t.Reset(wait)
			rolled, err := r.rollOutput(time.Now())
			if err != nil {
				return err
			}
			if !rolled && r.saved.Load() == r.changes.Load() {
				continue
			}
			if err := r.checkpoint(false, ""); err != nil {
				return err
			}
		}
	}
}

func dumpItems(items []*polite.Item) []byte {
	var b []byte
	for _, it := range items {
		if it.Robots {
			continue // a robots request: its job is dumped
		}
		b = binary.AppendUvarint(b, uint64(len(it.Rec)))
		b = append(b, it.Rec...)
	}
	return b
}

func dumpRecords(recs [][]byte) []byte {
	var b []byte
	for _, rec := range recs {
		b = binary.AppendUvarint(b, uint64(len(rec)))
		b = append(b, rec...)
	}
	return b
}

// eachRecord calls f for the records of a dump.
func eachRecord(path string, b []byte, f func(rec []byte) error) error {
	off := 0
	for off < len(b) {
		n, w := binary.Uvarint(b[off:])
		if w <= 0 || n > uint64(len(b)-off-w) {
			return &disk.CorruptError{Path: path, Offset: int64(off), Want: "a record", Got: "a length beyond the end"}
		}
		off += w
		if err := f(b[off : off+int(n)]); err != nil {
			return err
		}
		off += int(n)
	}
	return nil
}

// maxDiskDepth bounds the directories below each other; state/damaged/<checkpoint>/beast/q7 is the deepest.
const maxDiskDepth = 8

// closedSuffixes end the names of files of output that are never touched again.
var closedSuffixes = [...]string{".warc.gz", ".cdxj", ".jsonl.zst"}

// diskUsed adds up what the files of the crawl take. A large crawl has some thousand files of state and some ten thousand closed files of
// output: of the latter each is looked at once, and after that only its name in the directory, since it may be moved away.
func (r *ring) diskUsed() (int64, error) {
	var used int64
	closed := make(map[string]int64, len(r.closedFiles))
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		names, err := r.set.FS.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted since its parent was listed
		}
		if err != nil {
			return fmt.Errorf("crawl: disk in use: %w", err)
		}
		for _, name := range names {
			path := dir + "/" + name
			isClosed := slices.ContainsFunc(closedSuffixes[:], func(s string) bool { return strings.HasSuffix(name, s) })
			if size, known := r.closedFiles[path]; known && isClosed {
				used, closed[path] = used+size, size
				continue
			}
			if !isClosed && depth < maxDiskDepth {
				if _, err := r.set.FS.List(path); err == nil {
					if err := walk(path, depth+1); err != nil {
						return err
					}
					continue
				}
			}
			size, err := r.set.FS.Allocated(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("crawl: disk in use: %w", err)
			}
			if used += size; isClosed {
				closed[path] = size
			}
		}
		return nil
	}
	for _, dir := range r.opt.allDirs() {
		if err := walk(dir, 0); err != nil {
			return 0, err
		}
	}
	r.closedFiles = closed
	return used, nil
}
