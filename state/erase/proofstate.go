package erase

import (
	"fmt"
	"slices"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// state reads the queues and stores, whose files are compressed. It looks at each record, also at those that a queue
// has passed on and that its files still have.
func (p *prover) state() error {
	for _, step := range []func() error{p.waiting, p.texts, p.requests, p.pages, p.stores, p.passed, p.others} {
		if err := step(); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	return nil
}

// url looks at a record of a URL.
func (p *prover) url(where string, data []byte) error {
	p.rep.Records++
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if p.t.URL(rec.URL) {
		p.found(p.r.Set.Path(0, "state", where), -1, "URL", rec.URL)
	} else if via := rec.AppendVia(nil); p.t.Via(via) {
		p.found(p.r.Set.Path(0, "state", where), -1, "via of a URL", via)
	}
	return nil
}

func (p *prover) waiting() error {
	visit := func(at state.Spot, rec []byte) error { return p.url(at.Place.String(), rec) }
	return p.r.ScanURLs(p.m, state.URLScan{Places: state.WaitingPlaces[:], Visit: visit})
}

// texts reads the links that wait in URLseen.
func (p *prover) texts() error {
	return p.store(state.NameURLSeen, drum.Scan{Text: func(aux []byte, _ bool) error {
		if _, ok := state.MovedKey(aux); ok {
			return nil
		}
		return p.url(state.NameURLSeen, aux)
	}})
}

// store reads a store.
func (p *prover) store(name string, scan drum.Scan) error {
	st, err := state.Part[drum.State](p.m, name)
	if err != nil || st == nil {
		return err
	}
	if scan.Entry == nil {
		st = st.Waiting()
	}
	_, err = drum.ScanState(p.r.Set, name, st, scan)
	return err
}

// eachIn calls fn for each record of a queue, with those of its files that were read before.
func (p *prover) eachIn(name string, fn func(rec []byte) error) error {
	st, err := state.Part[queue.State](p.m, name)
	if err != nil || st == nil {
		return err
	}
	return (&next{run: p.run}).scanQueue(name, st, fn)
}

// requests reads the requests for robots.txt.
func (p *prover) requests() error {
	job := func(data []byte) error {
		p.rep.Records++
		var job robots.Job
		if err := job.Decode(data); err != nil {
			return err
		}
		if p.t.Host(weburl.Split(append(job.Origin[:len(job.Origin):len(job.Origin)], '/')).Host) {
			p.found(p.r.Set.Path(0, "state", state.NameRobotsRequested), -1, "request for a robots.txt", job.Origin)
		}
		return nil
	}
	if err := p.eachIn(state.NameRobotsFetch, job); err != nil {
		return err
	}
	if err := p.store(state.NameRobotsRequested, drum.Scan{Tuple: func(t drum.Tuple) error {
		if len(t.Aux) == 0 {
			return nil
		}
		return job(t.Aux)
	}}); err != nil {
		return err
	}
	st, err := state.Part[queue.CalendarState](p.m, state.NameRobotsDeferred)
	if err == nil && st != nil {
		_, err = queue.ScanCalendar(p.r.Set, state.NameRobotsDeferred, st,
			func(_ int64, rec []byte) error { return job(rec) }, nil)
	}
	if err != nil {
		return err
	}
	return p.tail(state.NameJobs, p.m.Jobs, job)
}

// tail reads the records of a tail.
func (p *prover) tail(name string, ref disk.Ref, fn func(rec []byte) error) error {
	data, err := disk.ReadTail(p.r.Set, ref)
	if err != nil {
		return err
	}
	return state.EachRecord(name, data, fn)
}

// pages reads the pages that wait for a browser.
func (p *prover) pages() error {
	task := func(data []byte) error {
		var task state.RenderTask
		if err := task.Decode(data, new(weburl.Record)); err != nil {
			return err
		}
		return p.url(state.NameRender, task.Record)
	}
	if err := p.eachIn(state.NameRender, task); err != nil {
		return err
	}
	return p.tail(state.NameRenders, p.m.Renders, task)
}

// stores reads the texts in the stores of contents, names and robots.txt files.
func (p *prover) stores() error {
	content := func(_ drum.Key, value []byte) error {
		p.rep.Records++
		if !state.OfNearList(value) && len(value) > contentHead && p.t.URL(value[contentHead:]) {
			p.found(p.r.Set.Path(0, "state", state.NameContent), -1, "URL of a body", value[contentHead:])
		}
		return nil
	}
	if err := p.store(state.NameContent, drum.Scan{Entry: content, Tuple: func(t drum.Tuple) error {
		if t.Op == drum.CheckUpdate {
			return nil // of PlaceContent
		}
		return content(t.Key, t.Value)
	}}); err != nil {
		return err
	}
	name := func(_ drum.Key, value []byte) error {
		p.rep.Records++
		pld, host, err := state.DecodeName(value)
		if err == nil && (host != nil && p.t.Host(host) || host == nil && p.t.PLD(pld)) {
			p.found(p.r.Set.Path(0, "state", state.NameNames), -1, "name", value[1:])
		}
		return err
	}
	if err := p.store(state.NameNames, drum.Scan{Entry: name,
		Tuple: func(t drum.Tuple) error { return name(t.Key, t.Value) }}); err != nil {
		return err
	}
	return p.store(state.NameRobotsCache, drum.Scan{Entry: func(_ drum.Key, value []byte) error {
		p.rep.Records++
		var h robots.HostData
		err := h.Decode(value)
		if err == nil && p.w.in(h.TLS) {
			p.found(p.r.Set.Path(0, "state", state.NameRobotsCache), -1, "failure of TLS", []byte(h.TLS))
		}
		return err
	}})
}

// passed reads the queues of URLs once more, with the records that they have passed on.
func (p *prover) passed() error {
	for _, q := range state.URLQueues {
		if err := p.eachIn(q.Name, func(rec []byte) error { return p.url(q.Name, rec) }); err != nil {
			return err
		}
	}
	each := func(name string, q *queue.State) (*queue.State, error) {
		return q, (&next{run: p.run}).scanQueue(name, q, func(rec []byte) error { return p.url(name, rec) })
	}
	lanes, err := state.Part[beast.State](p.m, state.NameBeast)
	if err == nil && lanes != nil {
		err = beast.EachQueue(state.NameBeast, lanes,
			func(name string, _ beast.Number, q *queue.State) (*queue.State, error) { return each(name, q) })
	}
	if err != nil {
		return err
	}
	bins, err := state.Part[queue.CalendarState](p.m, state.NameDeferred)
	if err != nil || bins == nil {
		return err
	}
	return queue.EachBin(state.NameDeferred, bins, each)
}

// others reads the records that crawls of other kinds have: outboxes of a cluster, the log of a walk, the list of
// objects.
func (p *prover) others() error {
	bytes := func(name string) func(rec []byte) error {
		return func(rec []byte) error {
			p.rep.Records++
			if p.w.in(string(rec)) {
				p.found(p.r.Set.Path(0, "state", name), -1, "record", rec)
			}
			return nil
		}
	}
	for _, name := range []string{state.NameWalkLog, state.NameQuarantine, state.NameObjects} {
		if err := p.eachIn(name, bytes(name)); err != nil {
			return err
		}
	}
	return p.inOutboxes()
}

// changes looks at the journal of the operator's changes: rules are the operator's, seeds and URLs are leftovers.
func (p *prover) changes(file string) error {
	p.rep.Files++
	return changes.EachLine(p.r.Set.FS, file, func(at int64, c *changes.Change) error {
		p.rep.Records++
		for _, line := range c.Seeds {
			if p.w.in(line) || p.seedGoes(p.resolver(), []byte(line)) {
				p.found(file, at, "seed or URL that was enqueued", []byte(line))
			}
		}
		rules := append(slices.Clone(c.Rules), c.Rule, c.Host, c.PLD)
		if c.Settings != nil {
			rules = append(rules, c.Settings.Blocked...)
			for host := range c.Settings.HostDelays {
				rules = append(rules, host)
			}
			for pld := range c.Settings.Budgets {
				rules = append(rules, pld)
			}
		}
		for _, rule := range rules {
			if p.w.in(rule) {
				p.rep.Rules++
			}
		}
		return nil
	})
}
