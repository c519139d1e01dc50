package audit

import (
	"fmt"
	"slices"

	"drumbeat/drum"
	"drumbeat/state"
)

// compareKeys merges the keys of URLseen with all others and compares them.
func (x *Scanner) compareKeys() error {
	// Crawls of older releases, and some repaired crawls, lack keys of enqueued URLs.
	x.foreign.of = x.Manifest
	someLost := x.orderedKeys < x.Manifest.Accounts.Ordered()
	return x.eachKey(func(key uint64, entries []TaggedKey, seen bool) error {
		if seen {
			x.Seen.Add(key)
			x.foreign.note(key)
		}
		entries, known := withoutKnown(entries)
		entries, ordered := withoutOrdered(entries)
		if known && !seen && len(entries) > 0 { // a pass of URLseen will merge the key
			x.early.Add(key)
		}
		return x.compare(key, entries, seen, ordered || someLost || known && !seen, known)
	})
}

// withoutOrdered returns the entries of a key without those of enqueuing.
func withoutOrdered(entries []TaggedKey) (_ []TaggedKey, ordered bool) {
	n := len(entries)
	for n > 0 && entries[n-1].Tag == tagOrdered {
		n--
	}
	return entries[:n], n < len(entries)
}

// withoutKnown returns the entries of a key without that of a key that has moved here and waits in URLseen.
func withoutKnown(entries []TaggedKey) (_ []TaggedKey, known bool) {
	n := len(entries)
	for n > 0 && entries[n-1].Tag == tagKnown {
		n--
	}
	return entries[:n], n < len(entries)
}

// EachKey calls fn in key order for each key that is in URLseen (seen) or was found elsewhere.
func (x *Scanner) EachKey(fn func(key uint64, entries []TaggedKey, seen bool) error) error {
	return x.eachKey(func(key uint64, entries []TaggedKey, seen bool) error {
		entries, _ = withoutKnown(entries)
		if entries, _ = withoutOrdered(entries); !seen && len(entries) == 0 {
			return nil
		}
		return fn(key, entries, seen)
	})
}

// eachKey is EachKey with the entries of keys that were enqueued.
func (x *Scanner) eachKey(fn func(key uint64, entries []TaggedKey, seen bool) error) error {
	if err := x.sorter.begin(); err != nil {
		return err
	}
	group, err := x.sorter.group(nil)
	if err != nil {
		return err
	}
	// pass calls fn for the current group and goes to the next one.
	pass := func(seen bool) error {
		if err := fn(group[0].Key, group, seen); err != nil {
			return err
		}
		group, err = x.sorter.group(group)
		return err
	}
	err = x.scanSeen(func(key drum.Key, _ []byte) error {
		for len(group) > 0 && group[0].Key < uint64(key) {
			if err := pass(false); err != nil {
				return err
			}
		}
		if len(group) > 0 && group[0].Key == uint64(key) {
			return pass(true)
		}
		return fn(uint64(key), nil, true)
	})
	for err == nil && len(group) > 0 {
		err = pass(false)
	}
	return err
}

// compare compares the entries of one key. ordered says that the URL was once enqueued. Such a URL may have
// several responses, like a revisited one. known says that the key has moved here and waits in URLseen.
func (x *Scanner) compare(key uint64, entries []TaggedKey, seen, ordered, known bool) error {
	if !seen && len(entries) == 0 {
		return nil // a refused order for a URL that URLseen has not merged yet
	}
	var live, stored, logged, refused int
	for _, e := range entries {
		switch e.Tag {
		case tagStored:
			stored++
		case tagLogFetched:
			logged++
		case tagLogRefused:
			refused++
		default:
			live++
		}
	}
	several := ordered || x.Manifest.Accounts.Counters[state.CountScheduled] > 0
	if live+max(stored, logged)+refused > 1 && !several && !seen && x.Elsewhere(key) && x.visits.HasKey(key) {
		x.addEach(key, live, max(stored, logged), refused)
		return x.visit(key, entries, seen)
	}
	if x.orders[key] && live > 0 && x.Visit == nil {
		live--
		at := slices.IndexFunc(entries, func(e TaggedKey) bool { return e.Tag < uint8(state.NumPlaces) })
		entries = slices.Delete(slices.Clone(entries), at, at+1)
	}
	again := several && live+refused > 0 // its responses did not end it
	counts := seen || !ordered || known || x.Elsewhere(key)
	if stored+logged > 0 && !again && counts {
		x.Fetched.Add(key)
	}
	switch {
	case stored+logged == 0:
	case again && seen && x.orders[key] && live == 1 && refused == 0:
		x.FetchedOrdered.Add(key)
	case !again && !counts:
		x.FetchedUnseen.Add(key)
	}
	if refused > 0 {
		x.Refused.Add(key)
	}
	k := &x.Report.Keys
	ended := max(stored, logged) + refused
	if several {
		entries, ended = visited(entries, live, refused, ended)
	}
	switch {
	case live+ended == 0 && seen:
		k.Nowhere++
		x.nowhere.Add(key)
	case !seen && x.Elsewhere(key) && (live == 0 || x.leaves(key, entries) || x.visits.HasKey(key)):
		x.Away.Add(key)
	case !seen && !ordered: // URLseen may not have merged an enqueued URL yet
		k.NotSeen++
		x.example("not in URLseen", key, entries)
	}
	if live+ended > 1 {
		k.Twice++
		x.example("more than once", key, entries)
	}
	if stored > 0 && logged > 0 && !agree(entries) {
		x.Report.Output.Disagree++
		x.example("the crawl log and the WARC files disagree", key, entries)
	}
	return x.visit(key, entries, seen)
}

// visit calls Visit, if it is set.
func (x *Scanner) visit(key uint64, entries []TaggedKey, seen bool) error {
	if x.Visit == nil {
		return nil
	}
	return x.Visit(key, entries, seen)
}

// addEach adds a URL of a divided PLD whose owner has sent it here more than once, because it was replaced by its
// backup, forgotten, or repaired after it had lost keys: each record of it counts, as in the accounts.
func (x *Scanner) addEach(key uint64, live, fetched, refused int) {
	for range fetched {
		x.Fetched.Add(key)
	}
	for range refused {
		x.Refused.Add(key)
	}
	for range live + fetched + refused {
		x.Away.Add(key)
	}
}

// leaves reports whether a URL waits in BEAST for its way to another node, which has its key.
func (x *Scanner) leaves(key uint64, entries []TaggedKey) bool {
	l := x.Manifest.Leaving
	return l != nil && l.Slots.HasKey(key) && !slices.ContainsFunc(entries, func(e TaggedKey) bool {
		return e.Tag < uint8(state.NumPlaces) && !inBeast(state.Place(e.Tag))
	})
}

func inBeast(p state.Place) bool { return p == state.PlaceBeast || p == state.PlaceOverBudget }

// Elsewhere reports whether another node of the cluster owns the slot of a key.
func (x *Scanner) Elsewhere(key uint64) bool { return x.Manifest.Elsewhere(key) }

// visited returns the entries of a URL that may have several responses, and the number of its ends. Any
// number of responses may precede its place or its end.
func visited(entries []TaggedKey, live, refused, ended int) ([]TaggedKey, int) {
	if live+refused == 0 {
		return entries, min(ended, 1)
	}
	entries = slices.DeleteFunc(slices.Clone(entries),
		func(e TaggedKey) bool { return e.Tag == tagStored || e.Tag == tagLogFetched })
	return entries, refused
}

// agree reports whether every line of the crawl log that names a stored response names an existing one.
func agree(entries []TaggedKey) bool {
	for _, e := range entries {
		if e.Tag == tagLogFetched && e.Mark != 0 &&
			!slices.ContainsFunc(entries, func(o TaggedKey) bool { return o.Tag == tagStored && o.Mark == e.Mark }) {
			return false
		}
	}
	return true
}

// maxExamples limits KeysReport.Examples.
const maxExamples = 20

func (x *Scanner) example(what string, key uint64, entries []TaggedKey) {
	if len(x.Report.Keys.Examples) >= maxExamples {
		return
	}
	text := fmt.Sprintf("key %016x %s:", key, what)
	for _, e := range entries {
		text += " " + tagName(e.Tag)
	}
	x.Report.Keys.Examples = append(x.Report.Keys.Examples, text)
}

func tagName(tag uint8) string {
	switch tag {
	case tagStored:
		return "stored"
	case tagLogFetched:
		return "log:fetched"
	case tagLogRefused:
		return "log:refused"
	}
	return state.Place(tag).Text()
}
