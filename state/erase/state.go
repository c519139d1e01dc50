package erase

import (
	"errors"
	"fmt"
	"slices"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// next is the next state of the crawl.
type next struct {
	*run
	*repair.Shadow
	left     [state.NumPlaces]weburl.Sum // URLs that leave their place
	deferred [state.NumReasons]int64     // of them, deferred ones by reason
	held     [state.NumReasons]int64     // and held ones
	barred   weburl.Sum                  // URLs that were unique but not in the account yet
	waiting  int64
	keys     map[uint64]bool             // of the enqueued URLs; true: a record of it goes
	loads    [cluster.Slots]cluster.Load // changes, by slot of a node of a cluster
}

// prepareState rewrites the logs, writes the next state beside the old one, and ends with the journal that
// repair.Commit carries out.
func (x *run) prepareState() error {
	shadow, err := repair.NewShadow(x.r, x.m, x.opt.RAMBytes)
	if err != nil {
		return err
	}
	shadow.Next.Erasures++
	w := &next{run: x, Shadow: shadow, keys: map[uint64]bool{}}
	if err = x.eachOrder(func(o *state.Order, _ []byte) { w.keys[o.Key] = false }); err == nil {
		err = w.build()
	}
	if err == nil {
		err = w.Prepare()
	}
	if err != nil && !errors.Is(err, disk.ErrCrashed) {
		err = errors.Join(err, repair.Abandon(x.r))
	}
	return err
}

func (w *next) build() error {
	if err := w.CopyTails(); err != nil {
		return err
	}
	for _, step := range []func() error{w.logs, w.openFiles, w.beast, w.queues, w.calendars, w.inRAM, w.robots,
		w.star, w.content, w.names, w.seen, w.seeds, w.objects, w.orders, w.outboxes} {
		if err := step(); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	if err := w.account(); err != nil {
		return err
	}
	return w.CompactTails()
}

// account corrects the accounts: each URL that goes counts as refused, because it was erased.
func (w *next) account() error {
	a, c := &w.Next.Accounts, &w.j.Erased
	if want := c.Waiting + w.j.Orders.N; w.waiting != want {
		return fmt.Errorf("BUG: erase: %d URLs that wait go, the plan has %d", w.waiting, want)
	}
	ended := w.j.Fetched
	a.Places[state.PlaceFetched].Remove(w.j.Fetched)
	for p := range state.NumPlaces {
		a.Places[p].Remove(w.left[p])
		ended.Merge(w.left[p])
	}
	ended.Remove(w.j.Orders)
	a.Orders.Remove(w.j.Orders)
	a.Unique.Merge(w.barred)
	a.Unique.Merge(w.j.New)
	ended.Merge(w.barred)
	ended.Merge(w.j.New)
	a.Places[state.PlaceRefused].Merge(ended)
	a.Refused[state.ReasonErased] += ended.N
	for reason := range a.Deferred {
		a.Deferred[reason] -= w.deferred[reason]
		a.Refused[reason] -= w.held[reason]
	}
	for _, s := range []struct {
		counter state.Counter
		n       int64
	}{{state.CountRobotsStored, c.Robots}, {state.CountDNSStored, c.DNS}, {state.CountRenderedStored, c.Rendered},
		{state.CountRenderAnswers, c.Answers}} {
		a.Counters[s.counter] = max(0, a.Counters[s.counter]-s.n)
	}
	if err := w.saveLoads(); err != nil {
		return err
	}
	w.Next.Names = slices.DeleteFunc(slices.Clone(w.Next.Names),
		func(name string) bool { return w.t.Host([]byte(name)) })
	if w.Next.Run != nil {
		run := *w.Next.Run
		resolver := w.resolver()
		run.FirstSeeds = slices.DeleteFunc(slices.Clone(run.FirstSeeds),
			func(line string) bool { return w.seedGoes(resolver, []byte(line)) })
		w.Next.Run = &run
	}
	return nil
}

// saveLoads corrects the loads of slots, if they are counted.
func (w *next) saveLoads() error {
	if w.m.Loads.Len == 0 {
		return nil
	}
	data, err := disk.ReadTail(w.r.Set, w.m.Loads)
	if err != nil {
		return err
	}
	l, err := cluster.DecodeLoads(data)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	for slot := range l.Slots {
		l.Slots[slot].Add(w.loads[slot])
	}
	fresh, err := w.newKeys()
	if err != nil {
		return err
	}
	for _, key := range fresh {
		l.Slots[weburl.SlotOf(key)].Known++
	}
	w.Next.Loads, err = w.Tails.Write(0, l.Append(nil))
	return err
}
