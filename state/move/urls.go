package move

import (
	"fmt"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// tails divides the manifest's data of hosts: health, delays and trap scores. Delays of servers stay, and are
// copied to the nodes that get slots. Loads go with their slots.
func (m *mover) tails(n *node) error {
	set := n.saved.Set
	if err := m.counted(n); err != nil {
		return err
	}
	hosts, err := disk.ReadTail(set, n.m.Hosts)
	if err != nil {
		return err
	}
	if err := health.EachHost(hosts, func(key uint64, s health.State) {
		m.ofHost(n, key, func(to *node) { to.health = append(to.health, health.Entry{Key: key, State: s}) })
	}); err != nil {
		return err
	}
	traps, err := disk.ReadTail(set, n.m.Traps)
	if err != nil {
		return err
	}
	n.parts = map[uint64]uint8{}
	if err := trapscore.EachHost(traps, func(key uint64, s trapscore.Score) {
		if part := s.Part(); part > 0 {
			n.parts[key] = part
		}
		m.ofHost(n, key, func(to *node) { to.traps = trapscore.AppendHost(to.traps, key, s) })
	}); err != nil {
		return err
	}
	if err := m.readOrders(n); err != nil {
		return err
	}
	delays, err := disk.ReadTail(set, n.m.Delays)
	if err != nil {
		return err
	}
	for ; len(delays) >= polite.DelayBytes; delays = delays[polite.DelayBytes:] {
		var d polite.Delay
		if err := d.Decode(delays[:polite.DelayBytes]); err != nil {
			return err
		}
		if !d.Server.IsValid() {
			m.ofHost(n, d.Host, func(to *node) { to.delays = d.Append(to.delays) })
			continue
		}
		for _, to := range m.nodes {
			if to == n || to.loads[n.number] {
				to.delays = d.Append(to.delays)
			}
		}
	}
	return nil
}

// counted divides the loads of slots. Those that a node gets may count from a later time than its own: then all do.
func (m *mover) counted(n *node) error {
	l := &cluster.Loads{Since: n.shadow.Next.Time} // an earlier version has counted nothing
	if n.m.Loads.Len > 0 {
		data, err := disk.ReadTail(n.saved.Set, n.m.Loads)
		if err == nil {
			l, err = cluster.DecodeLoads(data)
		}
		if err != nil {
			return err
		}
	}
	for slot := range l.Slots {
		to := m.nodes[m.next.Table.OwnerOf(slot)]
		if m.file.Table.OwnerOf(slot) != n.number {
			to = n // of hosts that it visits
		}
		to.counted.Slots[slot].Add(l.Slots[slot])
		if to.remote != nil { // until they leave
			n.counted.Slots[slot].Waiting = l.Slots[slot].Waiting
		}
	}
	for _, to := range m.nodes {
		if to == n || to.loads[n.number] {
			to.counted.Since = max(to.counted.Since, l.Since)
		}
	}
	return nil
}

// waits divides the tuples that wait in the stores of a node, but for RobotsCache.
func (m *mover) waits(n *node) error {
	olds, err := n.old()
	if err != nil {
		return err
	}
	scans := [numStores]drum.Scan{
		storeSeen:     {Text: func(aux []byte, unique bool) error { return m.text(n, aux, unique) }},
		storeEdges:    {Tuple: func(t drum.Tuple) error { return m.edge(n, t) }},
		storeIndegree: {Tuple: func(t drum.Tuple) error { return m.check1(n, t) }},
		storeNames:    {Tuple: func(t drum.Tuple) error { return m.name(n, t) }},
	}
	for i, opt := range storeOptions() {
		if i == storeRobots {
			continue
		}
		if _, err := drum.ScanState(n.saved.Set, opt.Name, olds[i].Waiting(), scans[i]); err != nil {
			return err
		}
	}
	return nil
}

// text gives a link that waits in URLseen to its owner. A unique URL, which the next checkpoint would have in STAR,
// goes there.
func (m *mover) text(n *node, aux []byte, unique bool) error {
	if key, ok := state.MovedKey(aux); ok {
		return m.known(n, key, unique)
	}
	var rec weburl.Record
	if err := rec.Decode(aux); err != nil {
		return fmt.Errorf("%s: %w", state.NameURLSeen, err)
	}
	key := n.saved.Hasher.URLKey(rec.URL)
	if !unique {
		return m.owner(key).add(storeSeen, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: aux})
	}
	to := m.visitor(n, rec.URL, key)
	n.before[state.PlaceUnstreamed].Add(key)
	slot := weburl.SlotOf(key) // URLseen would pass it on now
	if to.remote != nil {
		n.counted.Slots[slot].Waiting++ // until remote.url
	} else {
		to.counted.Slots[slot].Add(cluster.Load{Known: 1, Waiting: 1})
	}
	return to.arrive(key, &rec, star.CheckTuple{Part: n.partOf(&rec)})
}

// known gives a key that has come with a slot and that URLseen has not passed on to its owner. A unique one is in the
// cache of URLseen, and gets there.
func (m *mover) known(n *node, key uint64, unique bool) error {
	to := m.owner(key)
	if unique {
		n.passedOn.Add(key)
		return nil
	}
	if to != n {
		n.passedOn.Add(key)
	}
	return to.add(storeSeen, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: state.AppendMovedKey(nil, key)})
}

// partOf returns the part of the budget that the host of a URL may use.
func (n *node) partOf(rec *weburl.Record) uint8 {
	if len(n.parts) == 0 {
		return 0
	}
	return n.parts[n.saved.HostKey(weburl.Split(rec.URL).Host)]
}

// edge gives an edge to the owner of its target.
func (m *mover) edge(n *node, t drum.Tuple) error {
	e, err := star.EdgeOf(t.Key, t.Value)
	if err != nil {
		return err
	}
	for _, to := range m.nodes {
		if to.hostsCome.HasPLD(e.To) && to.remote != nil && to.visits[e.To] && !to.owns.HasPLD(e.To) {
			if err := to.add(storeEdges, t); err != nil {
				return err
			}
		}
	}
	return m.ofPLD(n, e.To, func(to *node) error { return to.add(storeEdges, t) })
}

// check1 gives a tuple of the indegree store to the owner of its PLD, and a URL to the node that visits its host.
func (m *mover) check1(n *node, t drum.Tuple) error {
	if t.Op&drum.Check == 0 {
		return m.ofPLD(n, uint64(t.Key), func(to *node) error { return to.add(storeIndegree, t) })
	}
	var rec weburl.Record
	if err := rec.Decode(t.Aux); err != nil {
		return fmt.Errorf("%s: %w", state.PlaceStar, err)
	}
	key := n.saved.Hasher.URLKey(rec.URL)
	to := m.visitor(n, rec.URL, key)
	n.before[state.PlaceStar].Add(key)
	to.after[state.PlaceStar].Add(key)
	to.checks++
	if to != n {
		n.waiting++
	}
	return to.add(storeIndegree, t)
}

// name gives the name of a host to its owner, and that of a PLD to all nodes that get slots from this one, too.
func (m *mover) name(n *node, t drum.Tuple) error {
	_, host, err := state.DecodeName(t.Value)
	if err != nil {
		return err
	}
	if host != nil {
		to := m.owner(uint64(t.Key))
		if to != n && (n.visitSlots.HasKey(uint64(t.Key)) || !to.gets) {
			if err := n.add(storeNames, t); err != nil || !to.gets {
				return err
			}
		}
		return to.add(storeNames, t)
	}
	for _, to := range m.nodes {
		if to == n || to.loads[n.number] {
			if err := to.add(storeNames, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// checks divides the tuples that wait in RobotsCache. An update goes to the owner of its origin. A check is a URL.
func (m *mover) checks(n *node) error {
	olds, err := n.old()
	if err != nil {
		return err
	}
	_, err = drum.ScanState(n.saved.Set, storeOptions()[storeRobots].Name, olds[storeRobots].Waiting(),
		drum.Scan{Tuple: func(t drum.Tuple) error { return m.robots(n, t) }})
	return err
}

func (m *mover) robots(n *node, t drum.Tuple) error {
	if t.Op != drum.Check {
		to := m.owner(uint64(t.Key))
		if to != n && (n.visitSlots.HasKey(uint64(t.Key)) || !to.gets) {
			to = n
		}
		return to.add(storeRobots, t)
	}
	keep, err := m.place(n, state.PlaceRobotsCheck, t.Value)
	if err != nil || !keep {
		return err
	}
	return n.add(storeRobots, t)
}

// place reports whether a URL stays in its place. If not, it goes to the check of STAR of its owner, or to the owner's
// calendar if it waits for its next visit, or to the owner's RobotsCache if it was enqueued.
func (m *mover) place(n *node, p state.Place, data []byte) (keep bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return false, fmt.Errorf("%s: %w", p, err)
	}
	key := n.saved.Hasher.URLKey(rec.URL)
	n.before[p].Add(key)
	reason := int(rec.Reason)
	if reason >= len(n.left) {
		return false, fmt.Errorf("%s: %s has the reason %d", p, rec.URL, reason)
	}
	to := m.visitor(n, rec.URL, key)
	if to == n {
		if p == state.PlaceDeferred {
			n.deferred[reason]++
		}
		n.after[p].Add(key)
		return true, nil
	}
	if p == state.PlaceHeld {
		n.left[reason]++
	}
	n.waiting++
	if o := n.orders.leave(key, p, &rec); o != nil {
		return false, to.order(o, &rec)
	}
	if p == state.PlaceDeferred && state.Reason(reason) == state.ReasonRevisit {
		return false, to.visit(key, data)
	}
	return false, to.arrive(key, &rec, star.CheckTuple{Part: n.partOf(&rec), Lane: n.lane,
		Again: p != state.PlaceOverBudget || state.Visited(&rec)})
}

// places divides the URLs of all other places, and drops requests for robots.txt of origins that moved.
func (m *mover) places(n *node) error {
	steps := []func(n *node) error{m.checks, m.beast, m.queues, m.deferred, m.jobs, m.inRAM, m.requested}
	for _, step := range steps {
		if err := step(n); err != nil {
			return err
		}
	}
	return nil
}

// queue rewrites a queue of URLs without the moving ones. A node that gives no slots keeps its queues: copied is the
// state with copied tails.
func (m *mover) queue(n *node, name string, p state.Place, old, copied *queue.State,
	noted func(keep bool)) (*queue.State, error) {
	var failed error
	keep := func(rec []byte) bool {
		if failed != nil {
			return false
		}
		keep, err := m.place(n, p, rec)
		failed = err
		if noted != nil {
			noted(keep)
		}
		return keep
	}
	if !n.gives {
		_, err := queue.Scan(n.saved.Set, name, old, func(rec []byte) error { keep(rec); return failed }, nil)
		return copied, err
	}
	next, err := n.shadow.RemakeQueue(name, old, keep)
	if err == nil {
		err = failed
	}
	return next, err
}

// beast divides the queues of BEAST, or makes their records unsifted.
func (m *mover) beast(n *node) error {
	if !m.sifts {
		kept := m.kept(n)
		defer func() { n.lane = 0 }()
		return n.shadow.RemakeBeast(func(name string, p state.Place, old, copied *queue.State) (*queue.State, error) {
			n.lane = uint8(beast.LaneOf(state.NameBeast, name))
			return kept(name, p, old, copied)
		})
	}
	for _, p := range [...]state.Place{state.PlaceBeast, state.PlaceOverBudget} {
		n.before[p], n.after[p] = n.m.Accounts.Places[p], n.m.Accounts.Places[p]
	}
	return repair.RemakePart(n.shadow, state.NameBeast, func(_, next *beast.State) error {
		next.Sift()
		return nil
	})
}

// kept returns a function that divides a queue of several.
func (m *mover) kept(n *node) repair.RemakeOne {
	return func(name string, p state.Place, old, copied *queue.State) (*queue.State, error) {
		return m.queue(n, name, p, old, copied, nil)
	}
}

// queues divides QR, Q and the held URLs.
func (m *mover) queues(n *node) error {
	for _, q := range state.URLQueues {
		var noted func(bool)
		if q.Name == state.NameHeld {
			head, left := n.m.Held.Left, int64(0)
			noted = func(keep bool) {
				if head--; head >= 0 && keep {
					left++
				}
				n.shadow.Next.Held.Left = left
			}
		}
		if err := repair.RemakeState(n.shadow, q.Name, func(old, copied *queue.State) (*queue.State, error) {
			return m.queue(n, q.Name, q.Place, old, copied, noted)
		}); err != nil {
			return err
		}
	}
	return nil
}

// deferred divides the deferred URLs.
func (m *mover) deferred(n *node) error {
	if err := n.shadow.RemakeBins(state.NameDeferred, m.kept(n)); err != nil {
		return err
	}
	return m.visits(n)
}

// jobs drops requests for robots.txt of origins that moved.
func (m *mover) jobs(n *node) error {
	if !n.gives {
		return nil
	}
	ownsJob := func(data []byte) bool { return m.ownsJob(n, data) }
	if err := repair.RemakeState(n.shadow, state.NameRobotsFetch, func(old, _ *queue.State) (*queue.State, error) {
		return n.shadow.RemakeQueue(state.NameRobotsFetch, old, ownsJob)
	}); err != nil {
		return err
	}
	return n.shadow.RemakeBins(state.NameRobotsDeferred,
		func(name string, _ state.Place, old, _ *queue.State) (*queue.State, error) {
			return n.shadow.RemakeQueue(name, old, ownsJob)
		})
}

// ownsJob reports whether a request for robots.txt stays at this node.
func (m *mover) ownsJob(n *node, data []byte) bool {
	var job robots.Job
	if job.Decode(data) != nil {
		return true
	}
	key := n.saved.Hasher.OriginKey(job.Origin)
	if m.visitor(n, job.Origin, key) != n {
		return false
	}
	if m.dividesSlot(key) {
		n.keptJobs[key] = true
	}
	return true
}

// inRAM divides the URLs in RAM, and drops requests in progress.
func (m *mover) inRAM(n *node) error {
	next, tails := &n.shadow.Next, n.shadow.Tails
	kept := func(name string, ref disk.Ref, keep func(rec []byte) (bool, error)) (disk.Ref, error) {
		data, err := disk.ReadTail(n.saved.Set, ref)
		if err != nil {
			return disk.Ref{}, err
		}
		var recs [][]byte
		if err := state.EachRecord(name, data, func(rec []byte) error {
			ok, err := keep(rec)
			if ok && err == nil {
				recs = append(recs, rec)
			}
			return err
		}); err != nil {
			return disk.Ref{}, err
		}
		return tails.Write(0, state.DumpRecords(recs))
	}
	var err error
	if next.RAM, err = kept("URLs in RAM", n.m.RAM,
		func(rec []byte) (bool, error) { return m.place(n, state.PlaceRAM, rec) }); err != nil {
		return err
	}
	next.Jobs, err = kept("robots requests", n.m.Jobs, func(rec []byte) (bool, error) { return m.ownsJob(n, rec), nil })
	return err
}

// writeTails writes what tails has divided, and the orders, which the places have ended.
func (m *mover) writeTails(n *node) (err error) {
	next, tails := &n.shadow.Next, n.shadow.Tails
	n.orders.stay()
	for _, s := range []struct {
		at   *disk.Ref
		data []byte
	}{{&next.Hosts, health.DumpHosts(n.health)}, {&next.Delays, n.delays}, {&next.Traps, n.traps},
		{&next.Loads, n.counted.Append(nil)}, {&next.Orders, state.DumpRecords(n.orders.coded)}} {
		if *s.at, err = tails.Write(0, s.data); err != nil {
			return err
		}
	}
	return m.noteOrdered(n)
}

// requested drops from RobotsRequested the origins that moved.
func (m *mover) requested(n *node) error {
	if !n.gives {
		return nil
	}
	moves := state.SlotSet(cluster.HostsCome(m.file.Table, m.next.Table, -1))
	keeps := func(key uint64) bool {
		return (n.ownsKey(key) || n.visitSlots.HasKey(key)) && (!moves.HasKey(key) || n.keptJobs[key])
	}
	return repair.RemakeState(n.shadow, state.NameRobotsRequested, func(old, _ *drum.State) (*drum.State, error) {
		d, err := n.shadow.NewDrum(drum.Options{Name: state.NameRobotsRequested, Each: true}, old)
		if err != nil {
			return nil, err
		}
		err = d.Fill(func(add func(drum.Key, []byte) error) error {
			_, err := drum.ScanState(n.saved.Set, state.NameRobotsRequested, old.Cache(), drum.Scan{
				Entry: func(key drum.Key, value []byte) error {
					if !keeps(uint64(key)) {
						return nil
					}
					return add(key, value)
				}})
			return err
		})
		if err == nil {
			_, err = drum.ScanState(n.saved.Set, state.NameRobotsRequested, old.Waiting(),
				drum.Scan{Tuple: func(t drum.Tuple) error {
					if !keeps(uint64(t.Key)) && !m.ownsJob(n, t.Aux) {
						return nil
					}
					return d.Add([]drum.Tuple{t})
				}})
		}
		if err != nil {
			return nil, err
		}
		return n.shadow.SaveDrum(d)
	})
}
