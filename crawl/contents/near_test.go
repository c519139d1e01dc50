package contents

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/simhash"
	"drumbeat/state"
)

// nearStore is a Store whose lists a test applies tuples to.
type nearStore struct {
	*Store
	list   []byte
	exists bool
}

func newNearStore() *nearStore {
	p := &plan.Plan{}
	p.Content.BucketBytes, p.Content.BufferBytes = 1<<20, 256<<10
	saved := state.NewSaved(memfs.New(1), []string{"."}, nil)
	opt := Options{Plan: p, Near: state.NearDuplicates{KeepOne: true, Bits: state.NearBits}}
	return &nearStore{Store: New(account.New(slog.New(slog.DiscardHandler), nil, nil), saved, opt, nil, nil, nil)}
}

// round applies tuples. It returns the bodies of the pages that they repeat, 0 for pages that are kept.
func (s *nearStore) round(op drum.Op, entries ...state.NearEntry) (of []drum.Key) {
	s.firsts = s.firsts[:0]
	var run []drum.Item
	for i := range entries {
		run = append(run, drum.Item{Op: op, Value: entries[i].Append(bytes.Clone(noEntry[:]))})
	}
	list, action := s.apply(1, s.list, s.exists, run, nil, []byte("before"))
	if action == drum.Set {
		s.list, s.exists = bytes.TrimPrefix(list, []byte("before")), true
	}
	for i := range run {
		var body drum.Key
		if at := run[i].Result; at > 0 {
			b := s.firsts[at-1:]
			for j := range 8 {
				body |= drum.Key(b[j]) << (8 * j)
			}
		}
		of = append(of, body)
	}
	return of
}

// kept returns the bodies in the list, the latest last.
func (s *nearStore) kept() (bodies []drum.Key) {
	entries, _ := state.NearList(s.list)
	for ; len(entries) > 0; entries = entries[state.NearEntryBytes:] {
		bodies = append(bodies, state.NearEntryOf(entries).Body)
	}
	return bodies
}

// TestNearList: a page is kept unless one within the distance is; a page is no copy of itself, and has one entry; a
// page that is kept, or is none, remains so when an emission yields and the round comes again.
func TestNearList(t *testing.T) {
	s := newNearStore()
	a, b, c := state.NearEntry{Simhash: 0, URL: 1, Body: 10}, state.NearEntry{Simhash: 7, URL: 2, Body: 20},
		state.NearEntry{Simhash: 0b111111, URL: 3, Body: 30} // a and b, b and c differ in 3 bits, a and c in 6
	for _, want := range []drum.Key{10, 30} { // b is a copy of either; c is later
		if of := s.round(drum.CheckUpdate, a, b, c); of[0] != 0 || of[1] != want || of[2] != 0 {
			t.Fatalf("copies of %d, want 0, %d, 0", of, want)
		}
	}
	if of := s.round(drum.CheckUpdate, b); of[0] != 30 { // the latest of two at the same distance
		t.Errorf("a copy of two pages is one of %d", of)
	}
	a.Simhash, a.Body = 1, 11
	if of := s.round(drum.CheckUpdate, a); of[0] != 0 {
		t.Errorf("a page that has changed is a copy of %d", of)
	}
	if got := s.kept(); len(got) != 2 || got[0] != 30 || got[1] != 11 {
		t.Errorf("kept %d, want 30, 11", got)
	}
	a.Simhash, a.Body = 0b111110, 12
	if of := s.round(drum.CheckUpdate, a); of[0] != 30 || len(s.kept()) != 1 {
		t.Errorf("a page that became a copy is one of %d; kept %d", of, s.kept())
	}
	for range 2 { // what a names is gone
		if s.round(drum.Update, a); len(s.kept()) != 1 || s.kept()[0] != 12 {
			t.Errorf("kept %d, want 12", s.kept())
		}
	}
	s.opt.Near.KeepOne = false
	if of := s.round(drum.CheckUpdate, c); of[0] != 0 {
		t.Errorf("a page that waits when the comparison is turned off is a copy of %d", of)
	}
}

// TestNearListBound: a list is bounded, and forgets the pages that were kept or repeated longest ago. It is no value
// of a body, and no value of a body is a list.
func TestNearListBound(t *testing.T) {
	const maxNear = (state.MaxContentValue - state.NearListHead) / state.NearEntryBytes
	s, rng := newNearStore(), rand.New(rand.NewPCG(2, 2))
	hot := state.NearEntry{Simhash: rng.Uint64(), URL: 1 << 31, Body: 1 << 40}
	s.round(drum.CheckUpdate, hot)
	for i := range 3 * maxNear {
		s.round(drum.CheckUpdate, state.NearEntry{Simhash: rng.Uint64(), URL: uint32(i), Body: drum.Key(i + 1)})
		if i%500 == 0 {
			if of := s.round(drum.CheckUpdate, state.NearEntry{Simhash: hot.Simhash ^ 1, URL: 1<<31 + 1,
				Body: 1 << 41}); of[0] != hot.Body {
				t.Fatalf("after %d pages: a copy of %d, want %d", i, of, hot.Body)
			}
		}
	}
	if got := s.kept(); len(got) != maxNear || len(s.list) > state.MaxContentValue || got[0] == 1 {
		t.Errorf("%d entries in %d bytes, the first %d", len(got), len(s.list), got[0])
	}
	body := (&bodyValue{date: time.Unix(1, 0), url: []byte("http://a.test/")}).append(nil)
	if !state.OfNearList(s.list) || state.OfNearList(body) {
		t.Error("a list and the value of a body are confused")
	}
	if of := s.round(drum.CheckUpdate, hot); of[0] != 0 {
		t.Error("the page itself is a copy")
	}
}

// TestNearFilter: the filter misses no page within the distance, at any distance.
func TestNearFilter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for bits := range state.MaxNearBits + 1 {
		s := newNearStore()
		s.opt.Near.Bits, s.filter = bits, drum.NewKeyFilter(1<<20)
		fresh := 0
		for i := range 500 {
			list, hash := drum.Key(rng.Uint64()), rng.Uint64()
			if !s.filterNear(list, hash) {
				fresh++
			}
			other := hash
			for simhash.Distance(hash, other) < bits {
				other ^= 1 << rng.IntN(64)
			}
			if !s.filterNear(list, other) {
				t.Fatalf("%d bits, page %d: %x is certainly not near %x", bits, i, other, hash)
			}
		}
		if fresh < 400 {
			t.Errorf("%d bits: %d of 500 first pages are certainly new", bits, fresh)
		}
		s.filter.Close()
	}
}

// TestNearTemplate: pages of a template with 5 % of their own words are kept, all of a thousand; copies of them that
// differ in a word are not.
func TestNearTemplate(t *testing.T) {
	s, rng, words := newNearStore(), rand.New(rand.NewPCG(4, 4)), func(rng *rand.Rand, n int) (text []byte) {
		for range n {
			for range 6 {
				text = append(text, 'a'+byte(rng.IntN(26)))
			}
			text = append(text, ' ')
		}
		return text
	}
	template, near, copies := words(rng, 570), 0, 0
	entry := func(text []byte, url int) state.NearEntry { return entryOf(url, template, text) }
	for i := range 1000 {
		own := words(rng, 30)
		e := entry(own, 2*i+1)
		if s.round(drum.CheckUpdate, e)[0] != 0 {
			near++
		}
		copy(own[7*(i%30):], "change")
		if s.round(drum.CheckUpdate, entry(own, 2*i+2))[0] == e.Body {
			copies++
		}
	}
	if t.Logf("%d of 1000 pages are taken for copies, %d of their copies", near, copies); near > 10 || copies < 700 {
		t.Errorf("%d of 1000 pages are taken for copies, %d of their copies", near, copies)
	}
}

// entryOf returns the entry of a page with these texts.
func entryOf(url int, texts ...[]byte) state.NearEntry {
	var k simhash.Sketch
	for _, text := range texts {
		k.Add(text)
	}
	hash, _ := k.Sum()
	counts, features := k.Counts()
	return state.NearEntry{Simhash: hash, URL: uint32(url), Body: drum.Key(url), Features: uint16(features),
		Counts: counts}
}

// TestNearNumbers: price lists of the same goods are kept, and a page with another date is a copy.
func TestNearNumbers(t *testing.T) {
	s, rng := newNearStore(), rand.New(rand.NewPCG(5, 5))
	var words []string
	for range 400 {
		words = append(words, strconv.FormatUint(rng.Uint64(), 36)+"x")
	}
	text := func(year, prices int) (text []byte) {
		text = fmt.Appendf(text, "of 24 May %d: ", year)
		for i, word := range words {
			text = append(text, word+" "...)
			if i%10 == 9 {
				text = fmt.Appendf(text, "%d.%02d ", (i*prices)%900, i%100)
			}
		}
		return text
	}
	for year := range 20 {
		list, other := entryOf(2*year+1, text(2000, 1+year)), entryOf(2*year+2, text(2001+year, 1+year))
		if first := s.round(drum.CheckUpdate, list)[0]; first != 0 {
			t.Errorf("the price list of year %d is a copy of page %d", year, first)
		}
		if first := s.round(drum.CheckUpdate, other)[0]; first != list.Body {
			t.Errorf("the page with another date is a copy of page %d, want %d", first, list.Body)
		}
	}
}

// TestNearListModel: a list does what a list does that moves its entries for each page, over runs of any length.
func TestNearListModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	s := newNearStore()
	s.opt.Plan.Content.BufferBytes = 4 * (state.NearListHead + 20*state.NearEntryBytes)
	var model []state.NearEntry
	most := 20
	index := func(is func(e *state.NearEntry) bool) int {
		return slices.IndexFunc(model, func(e state.NearEntry) bool { return is(&e) })
	}
	for round := range 300 {
		var run []state.NearEntry
		var want []drum.Key
		for range 1 + rng.IntN(1+round) {
			// Any two of the 40 texts are far from each other. A text may have several URLs, and change its URL.
			text := rng.IntN(40)
			e := state.NearEntry{Simhash: uint64(text) * 0x0101_0101_0101_0101 << 1, URL: uint32(rng.IntN(60)),
				Body: drum.Key(1 + text)}
			for _, other := range model {
				if d := simhash.Distance(other.Simhash, e.Simhash); d > 0 && d <= s.opt.Near.Bits {
					t.Fatalf("texts %x and %x are near", other.Simhash, e.Simhash)
				}
			}
			run = append(run, e)
			own := index(func(x *state.NearEntry) bool { return x.URL == e.URL })
			near := index(func(x *state.NearEntry) bool { return x.URL != e.URL && x.Simhash == e.Simhash })
			if own >= 0 && model[own] == e {
				want = append(want, 0)
				continue
			}
			of := drum.Key(0)
			if near >= 0 {
				if of = model[near].Body; near < len(model)/2 {
					first := model[near]
					model = append(slices.Delete(model, near, near+1), first)
				}
			}
			want = append(want, of)
			model = slices.DeleteFunc(model, func(x state.NearEntry) bool { return x.URL == e.URL })
			if near < 0 {
				if len(model) == most {
					model = model[1:]
				}
				model = append(model, e)
			}
		}
		got := s.round(drum.CheckUpdate, run...)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: copies of %d, want %d", round, got, want)
		}
	}
}

// TestNearListGone: a page that is gone leaves the list, also when the round comes again; then the next page near it
// is kept.
func TestNearListGone(t *testing.T) {
	s := newNearStore()
	a, b := state.NearEntry{Simhash: 0, URL: 1, Body: 10}, state.NearEntry{Simhash: 7, URL: 2, Body: 20}
	gone := state.NearEntry{URL: 1}
	s.round(drum.CheckUpdate, a)
	if of := s.round(drum.CheckUpdate, b); of[0] != 10 {
		t.Fatalf("a copy of %d, want 10", of)
	}
	for range 2 {
		if s.round(drum.Update, gone); len(s.kept()) != 0 {
			t.Errorf("kept %d", s.kept())
		}
	}
	if of := s.round(drum.CheckUpdate, b); of[0] != 0 || !slices.Equal(s.kept(), []drum.Key{20}) {
		t.Errorf("a copy of %d; kept %d", of, s.kept())
	}
	if s.round(drum.Update, gone); !slices.Equal(s.kept(), []drum.Key{20}) {
		t.Errorf("another page has left: kept %d", s.kept())
	}
}
