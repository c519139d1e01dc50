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

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/polite"
)

// moment is all that is copied under the exclusive lock.
type moment struct {
	parts    []frozenPart
	accounts state.Accounts
	seeds    state.Seeds
	held     state.Held
	items    []*polite.Item
	delays   []polite.Delay
	hosts    []health.Entry
	jobs     [][]byte
	active   int64
	written  int64 // bytes, known when it has been saved
}

// checkpoint makes a durable manifest of the present moment. One at a time. After an error nothing more is
// checkpointed.
func (c *crawler) checkpoint(clean bool, done string) error {
	c.checkpointMu.Lock()
	defer c.checkpointMu.Unlock()
	if err := c.failure(); err != nil {
		return fmt.Errorf("crawl: no checkpoint after a failed write: %w", err)
	}
	began := time.Now()
	changes := c.changes.Load()
	c.slowest.take()
	m, stats := c.freeze()
	if err := c.saveMoment(m, clean, done); err != nil {
		c.fail(err)
		return err
	}
	stats.Bytes = m.written
	stats.Stall = max(c.slowest.take(), stats.Pause)
	stats.Number, stats.Total, stats.When = c.gen, time.Since(began), time.Now()
	stats.since(c.lastCheckpoint.Load())
	c.lastCheckpoint.Store(&stats)
	c.saved.Store(changes)
	c.opt.Log.Debug("checkpoint", "number", stats.Number, "wait", stats.Wait, "pause", stats.Pause, "stall", stats.Stall,
		"total", stats.Total, "bytes", stats.Bytes)
	return nil
}

// freeze stops all transactions for an instant.
func (c *crawler) freeze() (*moment, CheckpointStats) {
	var stats CheckpointStats
	began := time.Now()
	pausable := c.pausable()
	pauseAll(pausable)
	stats.Wait = time.Since(began)
	c.txLock.Lock()
	locked := time.Now()
	m := &moment{
		accounts: c.acct.copy(),
		seeds:    c.seeds.state,
		held:     c.heldState,
		items:    c.polite.Snapshot(),
		delays:   c.polite.Delays(time.Now()),
		hosts:    c.hosts.Snapshot(),
		jobs:     c.robotsJobs.snapshot(),
		active:   c.activeMillis(),
	}
	for _, s := range c.structures {
		m.parts = append(m.parts, s.freeze())
	}
	c.txLock.Unlock()
	stats.Pause = time.Since(locked)
	for _, p := range pausable {
		p.Resume()
	}
	return m, stats
}

// saveMoment writes what was frozen, makes it durable, names it in the manifest and lets replaced files go.
func (c *crawler) saveMoment(mo *moment, clean bool, done string) error {
	gen := c.gen + 1
	tails, err := disk.CreateTails(c.Set, gen)
	if err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	m := &state.Manifest{Gen: gen, Crawl: c.CrawlID, Time: time.Now().Unix(), Clean: clean, Done: done, Frozen: c.frozen,
		Active: mo.active, Runs: c.runs, Run: c.lastRun, Accounts: mo.accounts, Seeds: mo.seeds, Held: mo.held,
		Parts: make(map[string]json.RawMessage, len(mo.parts))}
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
	sketches, err := c.sketches.encode()
	if err != nil {
		return err
	}
	if m.Sketches, err = tails.Write(0, sketches); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: sketches: %w", gen, err)
	}
	if m.Scope, err = tails.Write(0, admit.DumpKeys(c.links.Sites.Extensions())); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: scope: %w", gen, err)
	}
	if err := tails.Close(); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: %w", gen, err)
	}
	c.testHook("checkpoint")
	for _, set := range []disk.Set{c.Set, c.Out} {
		for _, dir := range set.Paths {
			if err := set.FS.SyncFS(dir); err != nil {
				return fmt.Errorf("crawl: checkpoint %d: sync %s: %w", gen, dir, err)
			}
		}
	}
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	c.testHook("checkpoint")
	if err := c.WriteManifest(data); err != nil {
		return fmt.Errorf("crawl: checkpoint %d: manifest: %w", gen, err)
	}
	c.gen = gen
	c.savedURLs.Store(m.Accounts.Gained())
	c.testHook("checkpoint")
	for _, p := range mo.parts {
		if err := p.commit(); err != nil {
			return err
		}
	}
	if err := disk.RemoveTails(c.Set, func(g uint64) bool { return g == gen }); err != nil {
		return fmt.Errorf("crawl: after checkpoint %d: %w", gen, err)
	}
	c.acct.mu.Lock()
	c.acct.s.Counters[state.CountCheckpoints]++
	c.acct.mu.Unlock()
	mo.written = tails.Bytes() + int64(len(data))
	return nil
}

// firstCheckpoint is when a crawl that did not end in order makes its first checkpoint. A process that dies again and again, sooner
// than CheckpointEvery, would otherwise fetch the same pages for ever.
const firstCheckpoint = 5 * time.Second

// checkpoints makes one every CheckpointEvery, unless nothing has changed; after a crash sooner at first, at intervals that double.
func (c *crawler) checkpoints(ctx context.Context) error {
	wait := c.opt.CheckpointEvery
	if m := c.Manifest; m != nil && !m.Clean {
		wait = min(wait, firstCheckpoint)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			wait = min(2*wait, c.opt.CheckpointEvery)
			t.Reset(wait)
			rolled, err := c.rollOutput(time.Now())
			if err != nil {
				return err
			}
			if !rolled && c.saved.Load() == c.changes.Load() {
				continue
			}
			if err := c.checkpoint(false, ""); err != nil {
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

// maxDiskDepth bounds the directories below each other; state/damaged/<checkpoint>/beast/q7 is the deepest.
const maxDiskDepth = 8

// closedSuffixes end the names of files of output that are never touched again.
var closedSuffixes = [...]string{".warc.gz", ".cdxj", ".jsonl.zst"}

// diskUsed adds up what the files of the crawl take. A large crawl has some thousand files of state and some ten thousand closed files of
// output: of the latter each is looked at once, and after that only its name in the directory, since it may be moved away.
func (c *crawler) diskUsed() (int64, error) {
	var used int64
	closed := make(map[string]int64, len(c.closedFiles))
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		names, err := c.Set.FS.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted since its parent was listed
		}
		if err != nil {
			return fmt.Errorf("crawl: disk in use: %w", err)
		}
		for _, name := range names {
			path := dir + "/" + name
			isClosed := slices.ContainsFunc(closedSuffixes[:], func(s string) bool { return strings.HasSuffix(name, s) })
			if size, known := c.closedFiles[path]; known && isClosed {
				used, closed[path] = used+size, size
				continue
			}
			if !isClosed && depth < maxDiskDepth {
				if _, err := c.Set.FS.List(path); err == nil {
					if err := walk(path, depth+1); err != nil {
						return err
					}
					continue
				}
			}
			size, err := c.Set.FS.Allocated(path)
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
	for _, dir := range c.opt.allDirs() {
		if err := walk(dir, 0); err != nil {
			return 0, err
		}
	}
	c.closedFiles = closed
	return used, nil
}
