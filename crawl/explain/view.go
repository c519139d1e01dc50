package explain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"syscall"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/admit"
	"drumbeat/crawl/changes"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// view is a crawl as one manifest names it, open for reading.
type view struct {
	r       *state.Saved
	changed *changes.Settings // what the operator changed; never nil
	run     *state.LastRun    // options of the last run; defaults if the manifest has none
	links   *admit.Policy
	policy  health.Policy
	hosts   health.Table // hosts with failures or refusals
	m       *state.Manifest
	opt     *Options
	pins    *pinnedFS
	asOf    AsOf
	now     time.Time

	seen, cache, requested          *drum.State
	star                            *star.State
	beast                           *beast.State
	awaiting, fetching, ready, held *queue.State
	contents                        *drum.State
	deferred, robotsDeferred        *queue.CalendarState
	warc                            *warc.State
	log                             *crawllog.State

	hostsRead    bool // hosts is read
	hostDelays   map[uint64]time.Time
	serverDelays map[netip.Addr]time.Time
	scopeFault   string   // why the scope is unknown
	vanished     bool     // a file that the manifest names does not exist
	logCut       bool     // the older part of the crawl log was not read
	hurt         []string // damage found for any answer; a URL that was not found may be there
}

// openExplainView reads the manifest and the states that every answer needs. It neither locks nor writes.
func openExplainView(opt *Options) (*view, error) {
	pins := &pinnedFS{FS: opt.FS, files: map[string]disk.File{}}
	r := state.NewSaved(pins, opt.Dirs, opt.Dirs)
	match, err := disk.MatchIdentities(r.Meter, opt.Dirs, state.KindState)
	if err != nil {
		return nil, state.MatchError(err)
	}
	if match.Set.Len() == 0 {
		return nil, fmt.Errorf("crawl: %s holds no crawl: %w", opt.Dirs[0], state.ErrIncompatible)
	}
	r.Set, r.Out, r.CrawlID = match.Set, match.Set, match.Crawl
	if err := r.RefuseRepairing(); err != nil {
		return nil, err
	}
	m, _, err := state.ReadManifest(r.Set)
	if err == nil && m == nil {
		err = fmt.Errorf("crawl: %s holds a crawl without a checkpoint: nothing to explain yet: %w",
			opt.Dirs[0], state.ErrIncompatible)
	}
	if err == nil {
		err = r.Take(match, m, opt.Out)
	}
	if err != nil {
		return nil, err
	}
	v := &view{r: r, m: m, opt: opt, pins: pins, now: time.Now()}
	if err := v.open(); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *view) open() error {
	r, m := v.r, v.m
	if err := r.OpenSuffixes(m.Frozen.Private, true); err != nil {
		return err
	}
	if got := r.Suffixes.Digest(); got != m.Frozen.Suffixes {
		return fmt.Errorf("crawl: the suffix list in %s has digest %s, want %s: %w",
			r.Set.Path(0, state.SuffixesName), got, m.Frozen.Suffixes, state.ErrIncompatible)
	}
	if err := v.states(); err != nil {
		return err
	}
	v.asOf = AsOf{Crawl: m.Crawl, Checkpoint: m.Gen, Time: time.Unix(m.Time, 0).UTC(), State: v.state(), Done: m.Done}
	v.asOf.AgeSeconds = max(0, v.now.Sub(v.asOf.Time).Seconds())
	return v.useLastRun()
}

// states decodes the states of all structures.
func (v *view) states() error {
	m := v.m
	return errors.Join(
		stateInto(m, state.NameURLSeen, &v.seen), stateInto(m, state.NameRobotsCache, &v.cache),
		stateInto(m, state.NameRobotsRequested, &v.requested), stateInto(m, state.NameStar, &v.star),
		stateInto(m, state.NameBeast, &v.beast), stateInto(m, state.NameAwaitRobots, &v.awaiting),
		stateInto(m, state.NameRobotsFetch, &v.fetching), stateInto(m, state.NameReady, &v.ready),
		stateInto(m, state.NameDeferred, &v.deferred), stateInto(m, state.NameHeld, &v.held),
		stateInto(m, state.NameContent, &v.contents),
		stateInto(m, state.NameRobotsDeferred, &v.robotsDeferred), stateInto(m, state.NameWARC, &v.warc),
		stateInto(m, state.NameCrawlLog, &v.log))
}

func stateInto[S any](m *state.Manifest, name string, at **S) error {
	s, err := state.Part[S](m, name)
	if err == nil && s == nil {
		err = fmt.Errorf("crawl: the manifest has no state of %s: %w", name, state.ErrIncompatible)
	}
	*at = s
	return err
}

// state returns a value of AsOf.State.
func (v *view) state() string {
	all := true
	for _, dir := range v.r.Set.Paths {
		held, known := disk.Locked(v.opt.FS, dir)
		if held {
			return StateRunning
		}
		all = all && known
	}
	switch {
	case v.m.Done != "":
		return stateFinished
	case v.m.Clean:
		return stateStopped
	case !all:
		return stateUnknown
	}
	return stateInterrupted
}

// same reports whether the manifest is still the last one.
func (v *view) same() (bool, error) {
	m, _, err := state.ReadManifest(v.r.Set)
	if err != nil {
		return false, err
	}
	return m != nil && m.Gen == v.m.Gen && m.Crawl == v.m.Crawl, nil
}

func (v *view) close() { v.pins.close() }

// pin opens files so that they stay readable after the crawl deletes them. It ignores files that it can't
// open; the code that reads them reports the error.
func (v *view) pin(names []string) {
	for dir := range v.r.Set.Paths {
		names = append(names, disk.TailPath(v.r.Set, dir, v.m.Gen))
	}
	for _, name := range names {
		if !v.pins.pin(name) {
			return
		}
	}
}

// keyFiles returns the names of the files that lookups of the keys read.
func (v *view) keyFiles(urls, origins, plds []drum.Key) []string {
	_, indegree := star.Stores(state.NameStar)
	names := drum.KeyFiles(v.r.Set, state.NameURLSeen, v.seen, urls)
	names = append(names, drum.KeyFiles(v.r.Set, state.NameRobotsCache, v.cache, origins)...)
	names = append(names, drum.KeyFiles(v.r.Set, state.NameRobotsRequested, v.requested, origins)...)
	if v.star.Indegree != nil {
		names = append(names, drum.KeyFiles(v.r.Set, indegree, v.star.Indegree, plds)...)
	}
	return names
}

// scannedFiles returns the names of the open files of queues, logs and indexes.
func (v *view) scannedFiles() []string {
	set := v.r.Set
	names := queue.Files(set, state.NameReady, v.ready)
	names = append(names, queue.Files(set, state.NameAwaitRobots, v.awaiting)...)
	names = append(names, queue.Files(set, state.NameHeld, v.held)...)
	if v.contents != nil {
		names = append(names, drum.Files(set, state.NameContent, v.contents)...)
	}
	names = append(names, queue.Files(set, state.NameRobotsFetch, v.fetching)...)
	names = append(names, queue.CalendarFiles(set, state.NameRobotsDeferred, v.robotsDeferred)...)
	names = append(names, queue.CalendarFiles(set, state.NameDeferred, v.deferred)...)
	logs := *v.seen
	logs.Parts, logs.Inputs = nil, nil
	if logs.Unstreamed > 0 {
		names = append(names, drum.Files(set, state.NameURLSeen, &logs)...)
	}
	if v.r.Out.Len() > 0 {
		for _, vol := range v.warc.Files.Volumes {
			names = append(names, outfile.OpenFiles(v.r.WARCFiles().Files(), vol)...)
		}
	}
	for _, vol := range v.log.Files.Volumes {
		names = append(names, outfile.OpenFiles(v.logOptions().Files(), vol)...)
	}
	return append(names, beast.Files(set, state.NameBeast, v.beast)...)
}

func (v *view) logOptions() crawllog.Options {
	return crawllog.Options{Set: v.r.Set, Prefix: "crawl"}
}

// readDelays reads the back-offs in the checkpoint, once.
func (v *view) readDelays() error {
	if v.hostDelays != nil {
		return nil
	}
	v.hostDelays, v.serverDelays = map[uint64]time.Time{}, map[netip.Addr]time.Time{}
	data, err := disk.ReadTail(v.r.Set, v.m.Delays)
	if err != nil {
		return err
	}
	for ; len(data) >= polite.DelayBytes; data = data[polite.DelayBytes:] {
		var d polite.Delay
		if err := d.Decode(data[:polite.DelayBytes]); err != nil {
			return fmt.Errorf("crawl: delays of the checkpoint: %w", err)
		}
		if d.Server.IsValid() {
			v.serverDelays[d.Server] = d.Until
		} else {
			v.hostDelays[d.Host] = d.Until
		}
	}
	return nil
}

// delaysOf returns the back-offs of a host and its servers that have not ended.
func (v *view) delaysOf(host string, addrs []string) (list []DelayReport, err error) {
	if err := v.readDelays(); err != nil {
		return nil, err
	}
	add := func(who string, until time.Time) {
		if until.After(v.now) {
			list = append(list, DelayReport{Who: who, Until: until.UTC()})
		}
	}
	add("host "+host, v.hostDelays[v.r.HostKey([]byte(host))])
	for _, text := range addrs {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if addr.Is6() {
			if net, err := addr.Prefix(64); err == nil {
				addr = net.Addr()
			}
		}
		add("server "+text, v.serverDelays[addr])
	}
	return list, nil
}

// maxPinned limits the files that are kept open. Files beyond it are opened when they are read.
const maxPinned = 8192

var errReadOnly = errors.New("crawl: explain writes nothing")

// pinnedFS is a read-only FS. A pinned file stays readable after it is removed or renamed.
type pinnedFS struct {
	disk.FS
	files map[string]disk.File
}

// pin opens a file and keeps it open. It returns false when no more files can be pinned.
func (p *pinnedFS) pin(name string) bool {
	if p.files[name] != nil {
		return true
	}
	if len(p.files) >= maxPinned {
		return false
	}
	f, err := p.FS.OpenRead(name)
	if err == nil {
		p.files[name] = f
		return true
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		n := 0
		for name, f := range p.files { // leave descriptors for the files that are opened later
			if n++; n > pinSpare {
				break
			}
			f.Close() // read only
			delete(p.files, name)
		}
		return false
	}
	return true
}

// pinSpare is the number of descriptors to leave: more than the files that are read at once.
const pinSpare = 16

func (p *pinnedFS) close() {
	for _, f := range p.files {
		f.Close() // read only
	}
	p.files = nil
}

// pinnedFile is a file whose Close does nothing.
type pinnedFile struct{ disk.File }

func (pinnedFile) Close() error { return nil }

// OpenRead implements disk.FS.
func (p *pinnedFS) OpenRead(name string) (disk.File, error) {
	if f := p.files[name]; f != nil {
		return pinnedFile{f}, nil
	}
	return p.FS.OpenRead(name)
}

// Size implements disk.FS.
func (p *pinnedFS) Size(name string) (int64, error) {
	if f := p.files[name]; f != nil {
		return f.Size()
	}
	return p.FS.Size(name)
}

func readOnly(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: errReadOnly} }

// Create implements disk.FS; like all methods that change files it fails.
func (p *pinnedFS) Create(name string) (disk.File, error) { return nil, readOnly("create", name) }

// Open implements disk.FS.
func (p *pinnedFS) Open(name string) (disk.File, error) { return nil, readOnly("open", name) }

// Remove implements disk.FS.
func (p *pinnedFS) Remove(name string) error { return readOnly("remove", name) }

// Rename implements disk.FS.
func (p *pinnedFS) Rename(_, to string) error { return readOnly("rename", to) }

// MkdirAll implements disk.FS.
func (p *pinnedFS) MkdirAll(name string) error { return readOnly("mkdir", name) }

// SyncDir implements disk.FS.
func (p *pinnedFS) SyncDir(dir string) error { return readOnly("sync", dir) }

// SyncFS implements disk.FS.
func (p *pinnedFS) SyncFS(dir string) error { return readOnly("sync", dir) }

// Lock implements disk.FS.
func (p *pinnedFS) Lock(dir string) (io.Closer, error) { return nil, readOnly("lock", dir) }
