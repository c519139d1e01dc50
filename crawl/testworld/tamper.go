package testworld

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Tamper opens the files that a manifest names, calls change to alter them, and writes a manifest that
// names the result. It leaves the accounts as they are.
func Tamper(t *testing.T, fs disk.FS, dirs []string,
	change func(set disk.Set, m *state.Manifest, tails *disk.Tails) error) {
	t.Helper()
	set := disk.Set{FS: fs, Paths: dirs}
	m, _, err := state.ReadManifest(set)
	must(t, err)
	tails, err := disk.CreateTails(set, m.Gen+1000)
	must(t, err)
	must(t, change(set, m, tails))
	must(t, tails.Close())
	data, err := state.EncodeManifest(m)
	must(t, err)
	must(t, disk.WriteFileAtomic(fs, set.Path(0, state.ManifestName), data))
}

// Faults are the three ways to break a place that is read like a queue.
var Faults = map[string]func(rec []byte, add func([]byte) error) error{
	"removed": func([]byte, func([]byte) error) error { return nil },
	"doubled": func(rec []byte, add func([]byte) error) error {
		if err := add(rec); err != nil {
			return err
		}
		return add(rec)
	},
	"changed": func(data []byte, add func([]byte) error) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		rec.URL = append(rec.URL[:len(rec.URL):len(rec.URL)], 'x')
		return add(rec.Append(nil))
	},
}

// SaveInto writes a frozen store to tails, and its state to the manifest.
func SaveInto[S any](m *state.Manifest, name string, f interface {
	Save(tails *disk.Tails) (*S, error)
}, tails *disk.Tails) error {
	st, err := f.Save(tails)
	if err != nil {
		return err
	}
	m.Parts[name], err = json.Marshal(st)
	return err
}

// Breakers returns, for each place, a function that applies fault to the oldest record.
func Breakers(fault func([]byte, func([]byte) error) error) map[state.Place]func(disk.Set, *state.Manifest,
	*disk.Tails) error {
	return map[state.Place]func(disk.Set, *state.Manifest, *disk.Tails) error{
		state.PlaceAwaitRobots: breaker(fault, breakQueue(state.NameAwaitRobots)),
		state.PlaceReady:       breaker(fault, breakQueue(state.NameReady)),
		state.PlaceDeferred:    breaker(fault, breakDeferred),
		state.PlaceBeast:       breaker(fault, breakBeast),
		state.PlaceStar:        breaker(fault, breakStar),
		state.PlaceRobotsCheck: breaker(fault, breakRobotsCheck),
		state.PlaceRAM:         breaker(fault, breakRAM),
	}
}

// faulty changes a record and adds what becomes of it.
type faulty = func(rec []byte, add func([]byte) error) error

func breaker(fault faulty, f func(faulty, disk.Set, *state.Manifest, *disk.Tails) error) func(disk.Set,
	*state.Manifest, *disk.Tails) error {
	return func(set disk.Set, m *state.Manifest, tails *disk.Tails) error { return f(fault, set, m, tails) }
}

// breakDeferred changes the oldest record of the calendar.
func breakDeferred(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
	st, err := state.Part[queue.CalendarState](m, state.NameDeferred)
	if err != nil {
		return err
	}
	c, err := queue.OpenCalendar(queue.Options{Set: set, Name: state.NameDeferred, BlockBytes: 128 << 10}, st)
	if err != nil {
		return err
	}
	now := time.Now().Add(100 * 24 * time.Hour)
	rec, ok, err := c.Peek(now, queue.Usual)
	if err != nil || !ok {
		return err
	}
	rec = append([]byte(nil), rec...)
	c.Advance(queue.Usual)
	if err := fault(rec, func(b []byte) error { return c.Append(now, now, queue.Usual, b) }); err != nil {
		return err
	}
	return SaveInto(m, state.NameDeferred, c.Freeze(), tails)
}

// breakBeast changes the oldest record of BEAST.
func breakBeast(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
	st, err := state.Part[beast.State](m, state.NameBeast)
	if err != nil {
		return err
	}
	b, err := beast.Open(beast.Options{Set: set, BlockBytes: 128 << 10}, st)
	if err != nil {
		return err
	}
	rec, ok, err := b.Peek()
	if err != nil || !ok {
		return err
	}
	rec = append([]byte(nil), rec...)
	b.Advance()
	if err := fault(rec, func(r []byte) error { return b.Append(b.Current()+1, r) }); err != nil {
		return err
	}
	return SaveInto(m, state.NameBeast, b.Freeze(), tails)
}

// breakStar changes the oldest record of STAR's stores.
func breakStar(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
	st, err := state.Part[star.State](m, state.NameStar)
	if err != nil {
		return err
	}
	_, indegree := star.Stores(state.NameStar)
	aux := func(t *drum.Tuple) *[]byte { return &t.Aux }
	if st.Indegree, err = breakDrum(set, drum.Options{Name: indegree}, st.Indegree, tails, fault,
		aux); err != nil {
		return err
	}
	m.Parts[state.NameStar], err = json.Marshal(st)
	return err
}

// breakRobotsCheck changes the oldest record of the cache of robots.txt.
func breakRobotsCheck(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
	st, err := state.Part[drum.State](m, state.NameRobotsCache)
	if err != nil {
		return err
	}
	value := func(t *drum.Tuple) *[]byte { return &t.Value }
	opt := drum.Options{Name: state.NameRobotsCache, MaxValueBytes: robots.MaxValueBytes}
	if st, err = breakDrum(set, opt, st, tails, fault, value); err != nil {
		return err
	}
	m.Parts[state.NameRobotsCache], err = json.Marshal(st)
	return err
}

// breakRAM changes the oldest record of the dump of RAM.
func breakRAM(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
	data, err := disk.ReadTail(set, m.RAM)
	if err != nil {
		return err
	}
	var recs [][]byte
	add := func(rec []byte) error { recs = append(recs, append([]byte(nil), rec...)); return nil }
	first := true
	if err := state.EachRecord("RAM", data, func(rec []byte) error {
		if first {
			first = false
			return fault(rec, add)
		}
		return add(rec)
	}); err != nil {
		return err
	}
	m.RAM, err = tails.Write(0, state.DumpRecords(recs))
	return err
}

// breakQueue changes the oldest record of a queue.
func breakQueue(name string) func(faulty, disk.Set, *state.Manifest, *disk.Tails) error {
	return func(fault faulty, set disk.Set, m *state.Manifest, tails *disk.Tails) error {
		st, err := state.Part[queue.State](m, name)
		if err != nil {
			return err
		}
		q, err := queue.Open(queue.Options{Set: set, Name: name, BlockBytes: 128 << 10}, st)
		if err != nil {
			return err
		}
		rec, ok, err := q.Peek()
		if err != nil || !ok {
			return err
		}
		rec = append([]byte(nil), rec...)
		q.Advance()
		if err := fault(rec, q.Append); err != nil {
			return err
		}
		return SaveInto(m, name, q.Freeze(), tails)
	}
}

// breakDrum rewrites a store with a fault in the first waiting check. record is the place of the URL in a
// tuple.
func breakDrum(set disk.Set, opt drum.Options, st *drum.State, tails *disk.Tails,
	fault func([]byte, func([]byte) error) error, record func(*drum.Tuple) *[]byte) (*drum.State, error) {
	type entry struct {
		key   drum.Key
		value []byte
	}
	var entries []entry
	var tuples []drum.Tuple
	done := false
	if _, err := drum.ScanState(set, opt.Name, st, drum.Scan{
		Entry: func(key drum.Key, value []byte) error {
			entries = append(entries, entry{key, slices.Clone(value)})
			return nil
		},
		Tuple: func(t drum.Tuple) error {
			t.Value, t.Aux = slices.Clone(t.Value), slices.Clone(t.Aux)
			add := func(rec []byte) error {
				*record(&t) = slices.Clone(rec)
				tuples = append(tuples, t)
				return nil
			}
			if t.Op&drum.Check == 0 || done {
				return add(*record(&t))
			}
			done = true
			return fault(*record(&t), add)
		},
	}); err != nil {
		return nil, err
	}
	opt.Set, opt.Buckets, opt.ValueBytes, opt.BufferBytes, opt.Each = set, st.Buckets, st.ValueBytes, 128<<10, true
	d, err := drum.Open(opt, nil)
	if err != nil {
		return nil, err
	}
	if err := d.Fill(func(add func(drum.Key, []byte) error) error {
		for _, e := range entries {
			if err := add(e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := d.Add(tuples); err != nil {
		return nil, err
	}
	if st, err = d.Freeze().Save(tails); err != nil {
		return nil, err
	}
	return st, d.Close()
}

// AddSeen adds a key to URLseen.
func AddSeen(ctx context.Context, set disk.Set, m *state.Manifest, tails *disk.Tails, key drum.Key) error {
	st, err := state.Part[drum.State](m, state.NameURLSeen)
	if err != nil {
		return err
	}
	d, err := drum.Open(drum.Options{Set: set, Name: state.NameURLSeen, Op: drum.CheckUpdate, Codec: drum.Rice,
		Aux: drum.AuxLog, BufferBytes: 64 << 10}, st)
	if err != nil {
		return err
	}
	if err := d.Add([]drum.Tuple{{Key: key, Op: drum.CheckUpdate, Aux: []byte("nobody's")}}); err != nil {
		return err
	}
	if _, err := d.Pass(ctx, true); err != nil {
		return err
	}
	d.Pause()
	f := d.Freeze()
	d.Resume()
	return SaveInto(m, state.NameURLSeen, f, tails)
}

// FindsEachFault breaks copies of a stopped crawl, one record each, and audits them.
func FindsEachFault(t *testing.T, whole *memfs.FS, dirs []string) {
	t.Helper()
	before := Deep(t, whole, dirs)
	if !before.Balanced() {
		t.Fatalf("before any fault: %q, %q", before.Bad, before.Keys.Examples)
	}
	for name, fault := range Faults {
		for place, breaker := range Breakers(fault) {
			if before.Rows[place].Files.N == 0 {
				continue
			}
			fs := whole.Fork(1)
			Tamper(t, fs, dirs, breaker)
			rep := Deep(t, fs, dirs)
			k := rep.Keys
			ok := map[string]bool{"removed": k.Nowhere == 1, "doubled": k.Twice == 1, "changed": k.Nowhere == 1 &&
				k.NotSeen == 1}[name]
			if rep.Balanced() || !ok {
				t.Errorf("a record of %s %s: %+v, %q", place, name, k, rep.Bad)
			}
		}
	}
}
