package audit

import (
	"fmt"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// scanState reads every structure except the cache of URLseen.
func (x *Scanner) scanState() error {
	for _, f := range []func() error{x.scanTexts, x.scanStar, x.scanHostLinks, x.scanNames, x.scanContent, x.scanBeast,
		x.scanRobots, x.scanQueues, x.scanCalendars, x.scanOutboxes, x.scanRAM, x.scanIdentity} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// scanTexts reads URLseen except its cache.
func (x *Scanner) scanTexts() error {
	x.Begin(state.NameURLSeen)
	st, err := state.Part[drum.State](x.Manifest, state.NameURLSeen)
	if err != nil || st == nil {
		return err
	}
	found, err := drum.ScanState(x.Saved.Set, state.NameURLSeen, st.Waiting(), drum.Scan{
		Text: func(aux []byte, unique bool) error {
			if key, ok := state.MovedKey(aux); ok {
				if unique {
					x.MovedKeys.Add(key)
					return nil
				}
				return x.sorter.add(TaggedKey{Key: key, Tag: tagKnown})
			}
			if unique {
				_, err := x.record(state.PlaceUnstreamed, aux)
				return err
			}
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil {
				return x.damage(fmt.Errorf("unreadable record: %w", err))
			}
			return nil
		},
		Damaged: x.damage,
	})
	x.lost(max(found.LostUniques, found.LostTexts))
	x.LostTexts = found.LostTexts
	return err
}

// scanSeen reads the cache of URLseen.
func (x *Scanner) scanSeen(entry func(drum.Key, []byte) error) error {
	st, err := state.Part[drum.State](x.Manifest, state.NameURLSeen)
	if err != nil || st == nil {
		return err
	}
	return x.drum(state.NameURLSeen, st.Cache(), drum.Scan{Entry: entry})
}

// drum reads a drum, whose entries and tuples are the records of the current structure.
func (x *Scanner) drum(name string, st *drum.State, scan drum.Scan) error {
	scan.Damaged = x.damage
	found, err := drum.ScanState(x.Saved.Set, name, st, scan)
	x.row.Records += found.Entries + found.Tuples
	x.lost(found.LostEntries + found.LostTuples)
	return err
}

// store begins a drum that is a structure of its own, and reads it. A manifest of an older version may have none.
func (x *Scanner) store(name string, scan drum.Scan) error {
	x.Begin(name)
	st, err := state.Part[drum.State](x.Manifest, name)
	if err != nil || st == nil {
		return err
	}
	return x.drum(name, st, scan)
}

func (x *Scanner) scanStar() error {
	st, err := state.Part[star.State](x.Manifest, state.NameStar)
	if err != nil || st == nil {
		return err
	}
	edges, indegree := star.Stores(state.NameStar)
	for _, s := range []struct {
		name string
		st   *drum.State
		scan drum.Scan
	}{
		{edges, st.Edges, drum.Scan{Tuple: x.edgeTuple}},
		{indegree, st.Indegree, drum.Scan{Tuple: x.starTuple}},
	} {
		x.Begin(s.name)
		if s.st == nil {
			return fmt.Errorf("crawl: the manifest has no state of %s", s.name)
		}
		if err := x.drum(s.name, s.st, s.scan); err != nil {
			return err
		}
	}
	x.Begin(state.NameStar)
	refs := []disk.Ref{st.Ranking, st.Tops}
	if st.Seeds != nil {
		refs = append(refs, *st.Seeds)
	}
	if st.Support != nil {
		refs = append(refs, st.Support.Ranked)
	}
	for _, ref := range refs {
		if err := x.scanRef(ref); err != nil {
			return err
		}
	}
	return nil
}

func (x *Scanner) scanNames() error {
	name := func(key drum.Key, value []byte) error {
		if _, _, err := state.CheckName(x.Saved.Hasher, key, value); err != nil {
			return x.damage(err)
		}
		return nil
	}
	return x.store(state.NameNames, drum.Scan{
		Entry: func(key drum.Key, value []byte) error { x.Names.Add(uint64(key)); return name(key, value) },
		Tuple: func(t drum.Tuple) error { return name(t.Key, t.Value) },
	})
}

func (x *Scanner) scanContent() error {
	return x.store(state.NameContent, drum.Scan{Tuple: x.contentTuple})
}

// contentTuple verifies a tuple that waits in the store of contents. A check carries a page.
func (x *Scanner) contentTuple(t drum.Tuple) error {
	if t.Op != drum.CheckUpdate {
		return nil
	}
	var wait state.Waiting
	if err := wait.Decode(t.Aux); err != nil {
		return x.damage(err)
	}
	_, err := x.record(state.PlaceContent, wait.Record)
	x.row.Records-- // counted with the tuples
	return err
}

// scanRef verifies a tail.
func (x *Scanner) scanRef(ref disk.Ref) error {
	if _, err := disk.ReadTail(x.Saved.Set, ref); err != nil {
		return x.damage(err)
	}
	return nil
}

// edgeTuple verifies a waiting edge.
func (x *Scanner) edgeTuple(t drum.Tuple) error {
	if len(t.Value) != star.EdgeBytes {
		return x.damage(fmt.Errorf("an edge that waits in STAR has %d bytes, want %d", len(t.Value), star.EdgeBytes))
	}
	return nil
}

// starTuple verifies a tuple that waits for STAR. A check carries a URL, whose PLD must match the key.
func (x *Scanner) starTuple(t drum.Tuple) error {
	if t.Op&drum.Check == 0 {
		return nil
	}
	rec, err := x.record(state.PlaceStar, t.Aux)
	x.row.Records-- // counted with the tuples
	if err != nil || len(rec.URL) == 0 {
		return err
	}
	if want := x.Saved.PLDKey(weburl.Split(rec.URL).Host); want != uint64(t.Key) {
		return x.damage(fmt.Errorf("%s waits under the PLD key %x, want %x", rec.URL, t.Key, want))
	}
	return nil
}

func (x *Scanner) scanBeast() error {
	x.Begin(state.NameBeast)
	st, err := state.Part[beast.State](x.Manifest, state.NameBeast)
	if err != nil {
		return err
	}
	lost, lostFailed, err := beast.Scan(x.Saved.Set, state.NameBeast, st,
		func(_ int, n beast.Number, rec []byte) error {
			p := state.PlaceBeast
			if n == beast.OverBudget {
				p = state.PlaceOverBudget
			}
			_, err := x.record(p, rec)
			return err
		}, x.damage)
	x.lost(lost + lostFailed)
	return err
}

// scanHostLinks reads the links to hosts, which only crawls with --budget hosts have.
func (x *Scanner) scanHostLinks() error {
	if len(x.Manifest.Parts[state.NameHostLinks]) == 0 {
		return nil
	}
	return x.store(state.NameHostLinks, drum.Scan{
		Entry: func(_ drum.Key, value []byte) error {
			if len(value) != star.HostSketchBytes {
				return x.damage(fmt.Errorf("links to a host of %d bytes, want %d", len(value), star.HostSketchBytes))
			}
			return nil
		},
		Tuple: func(t drum.Tuple) error {
			if !star.IsHostLink(t.Value) {
				return x.damage(fmt.Errorf("a link to a host of unknown form: %x", t.Value))
			}
			return nil
		},
	})
}

// scanRobots reads RobotsCache and RobotsRequested.
func (x *Scanner) scanRobots() error {
	if err := x.store(state.NameRobotsCache, drum.Scan{Entry: x.robotsEntry, Tuple: x.robotsTuple}); err != nil {
		return err
	}
	return x.store(state.NameRobotsRequested,
		drum.Scan{Tuple: func(t drum.Tuple) error { return x.job(t.Aux, t.Key) }})
}

func (x *Scanner) robotsEntry(key drum.Key, value []byte) error {
	var h robots.HostData
	if err := h.Decode(value); err != nil {
		return x.damage(fmt.Errorf("unreadable host data of origin %x: %w", key, err))
	}
	return nil
}

// robotsTuple verifies a tuple that waits for RobotsCache. A check carries a URL, whose origin must match
// the key.
func (x *Scanner) robotsTuple(t drum.Tuple) error {
	if t.Op != drum.Check {
		if _, err := robots.DecodeUpdate(t.Value); err != nil {
			return x.damage(fmt.Errorf("unreadable update of origin %x: %w", t.Key, err))
		}
		return nil
	}
	rec, err := x.record(state.PlaceRobotsCheck, t.Value)
	x.row.Records-- // counted with the tuples
	if err != nil || len(rec.URL) == 0 {
		return err
	}
	if want := x.Saved.Hasher.OriginKey(weburl.Origin(rec.URL)); want != uint64(t.Key) {
		return x.damage(fmt.Errorf("%s waits under the origin key %x, want %x", rec.URL, t.Key, want))
	}
	return nil
}

// job verifies a robots request; key, if not 0, must match its origin.
func (x *Scanner) job(data []byte, key drum.Key) error {
	var job robots.Job
	if err := job.Decode(data); err != nil {
		return x.damage(err)
	}
	if want := x.Saved.Hasher.OriginKey(job.Origin); key != 0 && want != uint64(key) {
		return x.damage(fmt.Errorf("a request for %s waits under the key %x, want %x", job.Origin, key, want))
	}
	return nil
}

func (x *Scanner) scanQueues() error {
	scan := func(name string, fn func(rec []byte) error) error {
		x.Begin(name)
		st, err := state.Part[queue.State](x.Manifest, name)
		if err != nil || st == nil {
			return err
		}
		lost, err := queue.Scan(x.Saved.Set, name, st, fn, x.damage)
		x.lost(lost)
		return err
	}
	for _, q := range state.URLQueues {
		if err := scan(q.Name, func(rec []byte) error { _, err := x.record(q.Place, rec); return err }); err != nil {
			return err
		}
	}
	for _, q := range []struct {
		name string
		fn   func(rec []byte) error
	}{{state.NameRender, x.renderTask}, {state.NameOrdered, x.ordered}, {state.NameObjects, x.object},
		{state.NameWalkLog, func([]byte) error { x.row.Records++; return nil }},
		{state.NameQuarantine, x.quarantined}} {
		// A manifest of an older version lacks some, and only clusters have a quarantine.
		if st, err := state.Part[queue.State](x.Manifest, q.name); err == nil && st == nil {
			continue
		}
		if err := scan(q.name, q.fn); err != nil {
			return err
		}
	}
	return scan(state.NameRobotsFetch, func(rec []byte) error { x.row.Records++; return x.job(rec, 0) })
}

// object checks a record of a file in the object store.
func (x *Scanner) object(data []byte) error {
	var o state.Object
	if err := o.Decode(data); err != nil {
		x.lost(1)
		return x.damage(err)
	}
	x.row.Records++
	return nil
}

// ordered adds the key of a URL that was enqueued.
func (x *Scanner) ordered(data []byte) error {
	key, err := state.DecodeOrdered(data)
	if err != nil {
		x.lost(1)
		return x.damage(err)
	}
	x.row.Records++
	x.orderedKeys++
	return x.sorter.add(TaggedKey{Key: key, Tag: tagOrdered})
}

// renderTask checks a page that waits for the browser. Its URL has another place.
func (x *Scanner) renderTask(data []byte) error {
	x.row.Records++
	var t state.RenderTask
	if err := t.Decode(data, new(weburl.Record)); err != nil {
		return x.damage(fmt.Errorf("%s: %w", state.NameRender, err))
	}
	return nil
}

func (x *Scanner) scanCalendars() error {
	for _, c := range []struct {
		name string
		fn   func(rec []byte) error
	}{
		{state.NameDeferred, func(rec []byte) error { _, err := x.record(state.PlaceDeferred, rec); return err }},
		{state.NameRobotsDeferred, func(rec []byte) error { x.row.Records++; return x.job(rec, 0) }},
	} {
		x.Begin(c.name)
		st, err := state.Part[queue.CalendarState](x.Manifest, c.name)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		each := func(_ int64, rec []byte) error { return c.fn(rec) }
		lost, err := queue.ScanCalendar(x.Saved.Set, c.name, st, each, x.damage)
		x.lost(lost)
		if err != nil {
			return err
		}
	}
	return nil
}

// tail reads a tail that the manifest itself refers to. It reports damage, also that which each returns.
func (x *Scanner) tail(name string, ref disk.Ref, each func(data []byte) error) (whole bool, err error) {
	x.Begin(name)
	data, err := disk.ReadTail(x.Saved.Set, ref)
	if err == nil {
		err = each(data)
	}
	if err != nil {
		return false, x.damage(err)
	}
	return true, nil
}

// scanRAM reads the tails that the manifest itself refers to.
func (x *Scanner) scanRAM() error {
	m := x.Manifest
	whole, err := x.tail(state.NameRAM, m.RAM, func(ram []byte) error {
		return state.EachRecord("URLs in RAM", ram, func(rec []byte) error {
			_, err := x.record(state.PlaceRAM, rec)
			return err
		})
	})
	if !whole {
		x.lost(max(0, m.Accounts.Places[state.PlaceRAM].N-x.row.Records))
	}
	if err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		ref  disk.Ref
		each func(data []byte) error
	}{
		{state.NameJobs, m.Jobs, func(jobs []byte) error {
			return state.EachRecord("robots requests in RAM", jobs, func(rec []byte) error {
				x.row.Records++
				return x.job(rec, 0)
			})
		}},
		{state.NameOrders, m.Orders, func(orders []byte) error {
			x.orders = map[uint64]bool{}
			return state.EachOrder(orders, func(o *state.Order) error {
				x.row.Records++
				x.orders[o.Key] = !o.Own && !o.Done
				return nil
			})
		}},
		{state.NameHosts, m.Hosts, func(hosts []byte) error {
			return health.EachHost(hosts, func(uint64, health.State) { x.row.Records++ })
		}},
		{state.NameDelays, m.Delays, nothing}, {state.NameSketches, m.Sketches, nothing},
		{state.NameScope, m.Scope, nothing}, {state.NameTraps, m.Traps, nothing},
		{state.NameLoads, m.Loads, nothing}, {state.NameRenders, m.Renders, nothing}, {state.NameWalk, m.Walk, nothing},
	} {
		if _, err := x.tail(s.name, s.ref, s.each); err != nil {
			return err
		}
	}
	return nil
}

// nothing reads no record of a tail.
func nothing([]byte) error { return nil }

// scanIdentity verifies the copies of manifest and secret.
func (x *Scanner) scanIdentity() error {
	x.Begin(state.NameIdentity)
	secret, err := x.Saved.OpenSecret(x.Manifest)
	if err != nil {
		return err
	}
	for _, err := range x.Saved.DamagedCopies(secret) {
		if err := x.damage(err); err != nil {
			return err
		}
	}
	return nil
}

// unnamed lists the files under state that the manifest does not name.
func (x *Scanner) unnamed() error {
	return EachUnused(x.Saved, x.Manifest, func(path string, from int64) error {
		if from >= 0 {
			return nil
		}
		x.Report.UnnamedCount++
		if len(x.Report.Unnamed) < MaxDamages {
			x.Report.Unnamed = append(x.Report.Unnamed, path)
		}
		return nil
	})
}
