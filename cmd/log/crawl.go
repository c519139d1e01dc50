package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
)

const (
	// pollEvery is the time between two looks at the disk with --follow.
	pollEvery = time.Second
	// maxTries bounds the attempts to read a checkpoint that the crawl replaces meanwhile.
	maxTries = 10
	// maxDamage bounds the damage that is printed.
	maxDamage = 100
)

// names are the logs: the name in --log and of the files, and that of the state in the manifest.
var names = map[string]string{"crawl": state.NameCrawlLog, "seeds": state.NameSeedLog, "robots": state.NameRobotsLog}

// crawl is a crawl whose logs are read.
type crawl struct {
	set      disk.Set // those of its directories that were given, the first one first
	fsys     disk.FS  // without files of an object store
	whole    bool     // all directories were given
	id       string
	logs     []string // prefixes
	readers  []*crawllog.Reader
	complain func(text string)

	stamp    string // first line of the manifest: it has its checksum
	states   []*crawllog.State
	level    state.LogLevel // --crawl-log of the last run
	damaged  int
	told     map[string]bool // damage that was printed
	restarts int

	saidAbsent bool
}

// openCrawl finds the crawl and opens its logs; refresh reads them.
func openCrawl(fsys disk.FS, dirs, logs []string) (*crawl, error) {
	match, missing, err := disk.MatchSome(fsys, dirs, state.KindState)
	if err != nil {
		return nil, state.MatchError(err)
	}
	if match.Crawl == "" {
		return nil, state.NoCrawl(dirs[0])
	}
	if len(missing) > 0 && missing[0] == 0 {
		return nil, fmt.Errorf("log: the first directory of crawl %s, which has the logs, is missing: %w", match.Crawl,
			state.ErrIncompatible)
	}
	x := &crawl{set: disk.Set{FS: fsys}, fsys: fsys, whole: len(missing) == 0, id: match.Crawl, told: map[string]bool{}}
	for _, path := range match.Set.Paths {
		if path != "" {
			x.set.Paths = append(x.set.Paths, path)
		}
	}
	given := map[string]bool{}
	for _, name := range logs {
		if given[name] {
			continue
		}
		given[name] = true
		r, err := crawllog.NewReader()
		if err != nil {
			x.close()
			return nil, err
		}
		r.Damaged, r.Rewound = x.damage, func() { x.restarts++ }
		x.logs, x.readers = append(x.logs, name), append(x.readers, r)
	}
	return x, nil
}

func (x *crawl) close() {
	for _, r := range x.readers {
		r.Close()
	}
}

// damage prints damage once.
func (x *crawl) damage(err error) {
	text := term.OneLine(err)
	if x.told[text] || len(x.told) >= maxDamage {
		return
	}
	x.damaged++
	x.told[text] = true
	x.complain("damage: " + text)
	if len(x.told) == maxDamage {
		x.complain("more damage is not printed: drumbeat audit --deep lists all")
	}
}

// refresh makes the lines that are on disk readable.
func (x *crawl) refresh() error {
	for try := 1; ; try++ {
		snapshots, sound, err := x.snapshots()
		if err != nil && (try == maxTries || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		if err == nil && !sound && try < maxTries { // perhaps there is a new checkpoint
			stamp := ""
			stamp, err = state.ManifestStamp(x.set)
			sound = err == nil && stamp == x.stamp
		}
		if err == nil && (sound || try == maxTries) {
			x.sayAbsent(snapshots)
			for i, s := range snapshots {
				x.readers[i].Use(s)
			}
			return nil
		}
	}
}

// sayAbsent says once how many files of the logs are not there.
func (x *crawl) sayAbsent(snapshots []*crawllog.Snapshot) {
	if x.saidAbsent {
		return
	}
	x.saidAbsent = true
	for i, s := range snapshots {
		if s.Absent > 0 {
			x.complain(fmt.Sprintf("%s of the crawl's %s files of the %s log are missing (moved away or lost), "+
				"and their lines with them", humanize.Comma(s.Absent), humanize.Comma(s.Of), x.logs[i]))
		}
	}
}

// snapshots takes a snapshot of each log by the last manifest; sound says that nothing is damaged.
func (x *crawl) snapshots() (list []*crawllog.Snapshot, sound bool, err error) {
	if err := x.readManifest(); err != nil {
		return nil, false, err
	}
	sound = true
	for i, name := range x.logs {
		s, err := crawllog.TakeSnapshot(crawllog.Options{Set: x.set, Prefix: name}, x.states[i])
		if err != nil {
			return nil, false, err
		}
		sound = sound && len(s.Damage) == 0
		list = append(list, s)
	}
	return list, sound, nil
}

// readManifest reads the states of the logs from the last manifest, unless it is the one that was read.
func (x *crawl) readManifest() error {
	stamp, err := state.ManifestStamp(x.set)
	if err != nil || stamp != "" && stamp == x.stamp {
		return err
	}
	saved := state.NewSaved(x.set.FS, x.set.Paths, nil)
	if err := saved.RefuseRepairing(); err != nil {
		return err
	}
	m, _, err := state.ReadManifest(x.set)
	switch {
	case err != nil:
		return err
	case m == nil:
		return fmt.Errorf("log: %s holds a crawl without a checkpoint, so without a log yet: %w", x.set.Paths[0],
			state.ErrIncompatible)
	case m.Crawl != x.id:
		return fmt.Errorf("log: the manifest in %s belongs to crawl %s, not to %s: %w", x.set.Paths[0], m.Crawl, x.id,
			state.ErrIncompatible)
	}
	if x.whole { // else the list of objects cannot be read
		if x.set.FS, err = state.ReadRemote(disk.Set{FS: x.fsys, Paths: x.set.Paths}, m); err != nil {
			return err
		}
	}
	x.states = nil
	for _, name := range x.logs {
		st, err := state.Part[crawllog.State](m, names[name])
		if err != nil {
			return err
		}
		x.states = append(x.states, st)
	}
	if x.level = state.LogErrors; m.Run != nil {
		x.level = m.Run.CrawlLog
	}
	x.stamp = stamp
	return nil
}

// hint says why a log may be empty.
func (x *crawl) hint() string {
	switch x.level {
	case state.LogOff:
		return "; the crawl runs with --crawl-log off"
	case state.LogErrors:
		return "; the crawl runs with --crawl-log errors, so pages that were fetched are not in the log"
	}
	return ""
}

// follow prints wanted lines as the crawl writes them, until ctx ends. onlyNew leaves out those that are there
// now.
func (x *crawl) follow(ctx context.Context, want *filter, onlyNew bool, p *printer) error {
	if held, known := disk.Locked(x.set.FS, x.set.Path(0)); known && !held {
		x.complain("the crawl is not running; its lines follow when it is resumed. Ctrl-C ends this command")
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := x.refresh(); err != nil {
			return err
		}
		if x.restarts > 0 {
			x.restarts = 0
			x.complain("the crawl returned to its last checkpoint, so later lines appear again")
		}
		for _, r := range x.readers {
			fn := p.line
			if first && onlyNew {
				r.SkipCovered()
				fn = func(*crawllog.Fields) error { return nil }
			}
			if err := each(r, want, fn); err != nil {
				return err
			}
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
