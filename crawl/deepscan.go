package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/health"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/weburl"
)

// scanState reads every structure but the cache of URLseen.
func (x *deepAudit) scanState() error {
	for _, f := range []func() error{x.scanTexts, x.scanStar, x.scanNames, x.scanBeast, x.scanRobots, x.scanQueues, x.scanCalendars,
		x.scanRAM, x.scanIdentity} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// scanTexts reads what of URLseen isn't its cache.
func (x *deepAudit) scanTexts() error {
	x.begin(nameURLSeen)
	st, err := statePart[drum.State](x.m, nameURLSeen)
	if err != nil || st == nil {
		return err
	}
	rest := *st
	rest.Parts = nil
	found, err := drum.ScanState(x.r.set, nameURLSeen, &rest, drum.Scan{
		Text: func(aux []byte, unique bool) error {
			if unique {
				_, err := x.record(PlaceUnstreamed, aux)
				return err
			}
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil {
				return x.damage(fmt.Errorf("a record that can't be read: %w", err))
			}
			return nil
		},
		Damaged: x.damage,
	})
	x.lost(max(found.LostUniques, found.LostTexts))
	x.lostTexts = found.LostTexts
	return err
}

// scanSeen reads the cache of URLseen.
func (x *deepAudit) scanSeen(entry func(drum.Key, []byte) error) error {
	st, err := statePart[drum.State](x.m, nameURLSeen)
	if err != nil || st == nil {
		return err
	}
	cache := *st
	cache.Inputs, cache.Logs, cache.Uniques, cache.Buffered, cache.Unstreamed = nil, nil, nil, nil, 0
	found, err := drum.ScanState(x.r.set, nameURLSeen, &cache, drum.Scan{Entry: entry, Damaged: x.damage})
	x.row.Records += found.Entries
	x.lost(found.LostEntries)
	return err
}

func (x *deepAudit) scanStar() error {
	st, err := statePart[star.State](x.m, nameStar)
	if err != nil || st == nil {
		return err
	}
	edges, indegree := star.Stores(nameStar)
	for _, s := range []struct {
		name string
		st   *drum.State
		scan drum.Scan
	}{
		{edges, st.Edges, drum.Scan{Tuple: x.edgeTuple}},
		{indegree, st.Indegree, drum.Scan{Tuple: x.starTuple}},
	} {
		x.begin(s.name)
		s.scan.Damaged = x.damage
		if s.st == nil {
			return fmt.Errorf("crawl: manifest: %s has no state", s.name)
		}
		found, err := drum.ScanState(x.r.set, s.name, s.st, s.scan)
		if err != nil {
			return err
		}
		x.row.Records += found.Entries + found.Tuples
		x.lost(found.LostEntries + found.LostTuples)
	}
	x.begin(nameStar)
	return x.scanRef(st.Ranking)
}

func (x *deepAudit) scanNames() error {
	x.begin(nameNames)
	st, err := statePart[drum.State](x.m, nameNames)
	if err != nil || st == nil {
		return err
	}
	name := func(key drum.Key, value []byte) error {
		if _, _, err := checkName(x.r.hasher, key, value); err != nil {
			return x.damage(err)
		}
		return nil
	}
	found, err := drum.ScanState(x.r.set, nameNames, st, drum.Scan{
		Entry:   func(key drum.Key, value []byte) error { x.names.Add(uint64(key)); return name(key, value) },
		Tuple:   func(t drum.Tuple) error { return name(t.Key, t.Value) },
		Damaged: x.damage,
	})
	x.row.Records += found.Entries + found.Tuples
	x.lost(found.LostEntries + found.LostTuples)
	return err
}

// scanRef verifies a string of a tail file.
func (x *deepAudit) scanRef(ref disk.Ref) error {
	if _, err := disk.ReadTail(x.r.set, ref); err != nil {
		return x.damage(err)
	}
	return nil
}

// edgeTuple takes an edge that waits.
func (x *deepAudit) edgeTuple(t drum.Tuple) error {
	if len(t.Value) != star.EdgeBytes {
		return x.damage(fmt.Errorf("an edge of %d bytes waits in STAR, want %d", len(t.Value), star.EdgeBytes))
	}
	return nil
}

// starTuple takes a tuple that waits for STAR: a check carries a URL, of the PLD that is its key.
func (x *deepAudit) starTuple(t drum.Tuple) error {
	if t.Op&drum.Check == 0 {
		return nil
	}
	rec, err := x.record(PlaceStar, t.Aux)
	x.row.Records-- // counted with the tuples
	if err != nil || len(rec.URL) == 0 {
		return err
	}
	if want := x.r.pldKey(weburl.Split(rec.URL).Host); want != uint64(t.Key) {
		return x.damage(fmt.Errorf("%s waits under the key of another PLD, %x: want %x", rec.URL, t.Key, want))
	}
	return nil
}

func (x *deepAudit) scanBeast() error {
	x.begin(nameBeast)
	st, err := statePart[beast.State](x.m, nameBeast)
	if err != nil {
		return err
	}
	lost, lostFailed, err := beast.Scan(x.r.set, nameBeast, st, func(n beast.Number, rec []byte) error {
		p := PlaceBeast
		if n == beast.Failed {
			p = PlaceFailed
		}
		_, err := x.record(p, rec)
		return err
	}, x.damage)
	x.lost(lost + lostFailed)
	return err
}

// scanRobots reads RobotsCache and RobotsRequested.
func (x *deepAudit) scanRobots() error {
	x.begin(nameRobotsCache)
	st, err := statePart[drum.State](x.m, nameRobotsCache)
	if err != nil {
		return err
	}
	if st != nil {
		found, err := drum.ScanState(x.r.set, nameRobotsCache, st, drum.Scan{
			Entry: x.robotsEntry, Tuple: x.robotsTuple, Damaged: x.damage,
		})
		if err != nil {
			return err
		}
		x.row.Records += found.Entries + found.Tuples
		x.lost(found.LostEntries + found.LostTuples)
	}
	x.begin(nameRobotsRequested)
	if st, err = statePart[drum.State](x.m, nameRobotsRequested); err != nil || st == nil {
		return err
	}
	found, err := drum.ScanState(x.r.set, nameRobotsRequested, st, drum.Scan{
		Tuple: func(t drum.Tuple) error { return x.job(t.Aux, t.Key) }, Damaged: x.damage,
	})
	x.row.Records += found.Entries + found.Tuples
	x.lost(found.LostEntries + found.LostTuples)
	return err
}

func (x *deepAudit) robotsEntry(key drum.Key, value []byte) error {
	var h robots.HostData
	if err := h.Decode(value); err != nil {
		return x.damage(fmt.Errorf("the host data of origin %x can't be read: %w", key, err))
	}
	return nil
}

// robotsTuple takes a tuple that waits for RobotsCache: a check carries a URL, of the origin that is its key.
func (x *deepAudit) robotsTuple(t drum.Tuple) error {
	if t.Op != drum.Check {
		if _, err := decodeUpdate(t.Value); err != nil {
			return x.damage(fmt.Errorf("an update of origin %x can't be read: %w", t.Key, err))
		}
		return nil
	}
	rec, err := x.record(PlaceRobotsCheck, t.Value)
	x.row.Records-- // counted with the tuples
	if err != nil || len(rec.URL) == 0 {
		return err
	}
	if want := x.r.hasher.OriginKey(weburl.Origin(rec.URL)); want != uint64(t.Key) {
		return x.damage(fmt.Errorf("%s waits under the key of another origin, %x: want %x", rec.URL, t.Key, want))
	}
	return nil
}

// job takes a robots request; key, if not 0, must be that of its origin.
func (x *deepAudit) job(data []byte, key drum.Key) error {
	var job robotsJob
	if err := job.decode(data); err != nil {
		return x.damage(err)
	}
	if want := x.r.hasher.OriginKey(job.Origin); key != 0 && want != uint64(key) {
		return x.damage(fmt.Errorf("a request for %s waits under another key, %x: want %x", job.Origin, key, want))
	}
	return nil
}

// urlQueues are the queues of URLs, and the place that each of them is.
var urlQueues = [...]struct {
	name  string
	place Place
}{{nameAwaitRobots, PlaceAwaitRobots}, {nameReady, PlaceReady}, {nameHeld, PlaceHeld}}

func (x *deepAudit) scanQueues() error {
	scan := func(name string, fn func(rec []byte) error) error {
		x.begin(name)
		st, err := statePart[queue.State](x.m, name)
		if err != nil || st == nil {
			return err
		}
		lost, err := queue.Scan(x.r.set, name, st, fn, x.damage)
		x.lost(lost)
		return err
	}
	for _, q := range urlQueues {
		if err := scan(q.name, func(rec []byte) error { _, err := x.record(q.place, rec); return err }); err != nil {
			return err
		}
	}
	return scan(nameRobotsFetch, func(rec []byte) error { x.row.Records++; return x.job(rec, 0) })
}

func (x *deepAudit) scanCalendars() error {
	for _, c := range []struct {
		name string
		fn   func(rec []byte) error
	}{
		{nameLater, func(rec []byte) error { _, err := x.record(PlaceLater, rec); return err }},
		{nameRobotsLater, func(rec []byte) error { x.row.Records++; return x.job(rec, 0) }},
	} {
		x.begin(c.name)
		st, err := statePart[queue.CalendarState](x.m, c.name)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		lost, err := queue.ScanCalendar(x.r.set, c.name, st, func(_ int64, rec []byte) error { return c.fn(rec) }, x.damage)
		x.lost(lost)
		if err != nil {
			return err
		}
	}
	return nil
}

// The strings of the manifest's own, as structures.
const (
	nameRAM      = "ram"
	nameJobs     = "jobs"
	nameDelays   = "delays"
	nameHosts    = "hosts"
	nameSketches = "sketches"
	nameScope    = "scope"
	nameIdentity = "identity" // manifest and secret, with their copies
)

// scanRAM reads what was in RAM at the checkpoint.
func (x *deepAudit) scanRAM() error {
	x.begin(nameRAM)
	ram, err := disk.ReadTail(x.r.set, x.m.RAM)
	if err == nil {
		err = eachRecord("URLs in RAM", ram, func(rec []byte) error { _, err := x.record(PlaceRAM, rec); return err })
	}
	if err != nil {
		x.lost(max(0, x.m.Accounts.Places[PlaceRAM].N-x.row.Records))
		if err := x.damage(err); err != nil {
			return err
		}
	}
	x.begin(nameJobs)
	jobs, err := disk.ReadTail(x.r.set, x.m.Jobs)
	if err == nil {
		err = eachRecord("robots requests in RAM", jobs, func(rec []byte) error { x.row.Records++; return x.job(rec, 0) })
	}
	if err != nil {
		if err := x.damage(err); err != nil {
			return err
		}
	}
	x.begin(nameHosts)
	hosts, err := disk.ReadTail(x.r.set, x.m.Hosts)
	if err == nil {
		err = eachHost(hosts, func(uint64, health.State) { x.row.Records++ })
	}
	if err != nil {
		if err := x.damage(err); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		name string
		ref  disk.Ref
	}{{nameDelays, x.m.Delays}, {nameSketches, x.m.Sketches}, {nameScope, x.m.Scope}} {
		x.begin(s.name)
		if err := x.scanRef(s.ref); err != nil {
			return err
		}
	}
	return nil
}

// scanIdentity looks at manifest and secret where they were read from copies.
func (x *deepAudit) scanIdentity() error {
	x.begin(nameIdentity)
	secret, err := x.r.openSecret(x.m)
	if err != nil {
		return err
	}
	for _, err := range x.r.damagedCopies(secret) {
		if err := x.damage(err); err != nil {
			return err
		}
	}
	return nil
}

// unnamed lists the files under state that the manifest doesn't name.
func (x *deepAudit) unnamed() error {
	named := map[string]bool{}
	add := func(names []string) {
		for _, name := range names {
			named[name] = true
		}
	}
	named[x.r.set.Path(0, suffixesName)] = true
	add(copyPaths(x.r.set, manifestName))
	add(copyPaths(x.r.set, secretName))
	for _, name := range []string{nameURLSeen, nameNames, nameRobotsCache, nameRobotsRequested} {
		if st, err := statePart[drum.State](x.m, name); err != nil {
			return err
		} else if st != nil {
			add(drum.Files(x.r.set, name, st))
		}
	}
	if st, err := statePart[star.State](x.m, nameStar); err != nil {
		return err
	} else if st != nil {
		edges, indegree := star.Stores(nameStar)
		add(slices.Concat(drum.Files(x.r.set, edges, st.Edges), drum.Files(x.r.set, indegree, st.Indegree)))
	}
	if st, err := statePart[beast.State](x.m, nameBeast); err != nil {
		return err
	} else if st != nil {
		add(beast.Files(x.r.set, nameBeast, st))
	}
	for _, name := range []string{nameAwaitRobots, nameRobotsFetch, nameReady, nameHeld} {
		if st, err := statePart[queue.State](x.m, name); err != nil {
			return err
		} else if st != nil {
			add(queue.Files(x.r.set, name, st))
		}
	}
	for _, name := range []string{nameLater, nameRobotsLater} {
		if st, err := statePart[queue.CalendarState](x.m, name); err != nil {
			return err
		} else if st != nil {
			add(queue.CalendarFiles(x.r.set, name, st))
		}
	}
	for i := range x.r.set.Paths {
		if err := x.unnamedIn(x.r.set.Path(i, "state"), named); err != nil {
			return err
		}
	}
	return nil
}

func (x *deepAudit) unnamedIn(dir string, named map[string]bool) error {
	names, err := x.r.set.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl: list %s: %w", dir, err)
	}
	for _, name := range names {
		path := dir + "/" + name
		if named[path] || strings.HasPrefix(name, "tails-") || name == damagedDir {
			continue
		}
		if _, err := x.r.set.FS.List(path); err == nil {
			if err := x.unnamedIn(path, named); err != nil {
				return err
			}
			continue
		}
		x.rep.UnnamedCount++
		if len(x.rep.Unnamed) < MaxDamages {
			x.rep.Unnamed = append(x.rep.Unnamed, path)
		}
	}
	return nil
}

// damagedDir, under state, is where Repair puts what it replaced.
const damagedDir = "damaged"
