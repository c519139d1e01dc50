package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/admit"
	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/internal/sites"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// view is a crawl as one manifest names it, open for reading.
type view struct {
	*state.Reader
	r       *state.Saved
	changed *changes.Settings // what the operator changed; never nil
	run     *state.LastRun    // options of the last run; defaults if the manifest has none
	links   *admit.Policy
	policy  health.Policy
	hosts   health.Table // hosts with failures or refusals
	m       *state.Manifest
	opt     *Options
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

	hostsRead    bool                       // hosts is read
	traps        map[uint64]trapscore.Score // by key of the host; nil until read
	hostDelays   map[uint64]time.Time
	serverDelays map[netip.Addr]time.Time
	scopeFault   string         // why the scope is unknown
	sites        *sites.Set     // settings of sites; nil for none
	siteFault    string         // why they are unknown
	owners       *cluster.Table // of a cluster; nil if there is none, or it is unknown
	vanished     bool           // a file that the manifest names does not exist
	logCut       bool           // the older part of the crawl log was not read
	hurt         []string       // damage found for any answer; a URL that was not found may be there
}

// openExplainView reads the manifest and the states that every answer needs. It neither locks nor writes.
func openExplainView(opt *Options) (*view, error) {
	reader, err := state.OpenReader(opt.FS, opt.Dirs, opt.Out)
	if err != nil {
		return nil, err
	}
	v := &view{Reader: reader, r: reader.Saved, m: reader.Manifest, opt: opt, now: time.Now()}
	if err := v.open(); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *view) open() error {
	m := v.m
	if err := v.states(); err != nil {
		return err
	}
	v.asOf = AsOf{Crawl: m.Crawl, Checkpoint: m.Gen, Time: time.Unix(m.Time, 0).UTC(),
		State: v.Activity(), Done: m.Done}
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
	names, _ := v.r.URLFiles(v.r.Manifest, scannedPlaces[:]) // no error: states has decoded them
	names = append(names, queue.Files(set, state.NameRobotsFetch, v.fetching)...)
	names = append(names, queue.CalendarFiles(set, state.NameRobotsDeferred, v.robotsDeferred)...)
	for node := range v.m.Frozen.Nodes {
		if st := v.outbox(node); st != nil {
			for name, q := range st.Queues(state.OutboxName(node)) {
				names = append(names, queue.Files(set, name, q)...)
			}
		}
	}
	if v.r.Out.Len() > 0 {
		names = append(names, warc.OpenFiles(v.r.WARCFiles(), v.warc)...)
	}
	for _, vol := range v.log.Files.Volumes {
		names = append(names, outfile.OpenFiles(v.logOptions().Files(), vol)...)
	}
	return names
}

func (v *view) logOptions() crawllog.Options { return crawllog.Options{Set: v.r.Set, Prefix: "crawl"} }

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
