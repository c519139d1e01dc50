package walk_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"drumbeat/internal/walk"
)

// TestUniform: in the sample of a walk that has visited three quarters of a web, each class of pages by
// in-degree has within 5 % of its share in the web, if that is at least a twentieth; and the sum of the
// weights is near the number of pages.
func TestUniform(t *testing.T) {
	t.Parallel()
	for run := range *runsFlag {
		seed := *seedFlag + uint64(run)
		for name, g := range map[string]*graph{"power law": powerLaw(seed, 30_000),
			"simweb": simGraph(t, seed, 30_000)} {
			pages := 0
			truth := g.shares(func(int) float64 { pages += 1; return 1 })
			w := g.run(walk.Options{Walkers: 100, URLs: len(g.urls) * 3 / 4, Jump: walk.DefaultJump, Bytes: 1 << 30,
				Seed: [2]uint64{seed, 9}})
			weights, visited, sum := map[string]float64{}, map[string]bool{}, 0.0
			for _, s := range w.Sample() {
				weights[s.URL], visited[s.URL] = s.Weight, true
				sum += s.Weight
			}
			got := g.shares(func(id int) float64 { return weights[g.urls[id]] })
			raw := g.shares(func(id int) float64 {
				if visited[g.urls[id]] {
					return 1
				}
				return 0
			})
			f := w.Figures()
			logged := 0
			_ = w.TakeLog(func(rec []byte) error { logged += len(rec); return nil })
			t.Logf("%s, seed %d: %d of %d URLs visited, %d steps; %.0f pages estimated; log %d bytes, walkers %d, "+
				"memory %d", name, seed,
				f.Visited, len(g.urls), f.Steps, sum, logged, len(w.Freeze().Append(nil)), f.Bytes)
			worst, before := 0.0, 0.0
			for c := range truth {
				if truth[c] >= 0.01 {
					t.Logf("  in-degree %6d and more: %4.1f %% of the pages, %+5.1f %% as visited, %+5.1f %% in "+
						"the sample", 1<<c>>1, 100*truth[c], 100*(raw[c]/truth[c]-1), 100*(got[c]/truth[c]-1))
				}
				if truth[c] >= 0.05 {
					worst, before = max(worst, math.Abs(got[c]/truth[c]-1)), max(before, math.Abs(raw[c]/truth[c]-1))
				}
			}
			if worst > 0.05 {
				t.Errorf("%s, seed %d: a class is off by %.1f %%", name, seed, 100*worst)
			}
			if before < 0.05 {
				t.Errorf("%s, seed %d: as visited, no class is off by more than %.1f %%: nothing to correct", name,
					seed, 100*before)
			}
		}
	}
}

// saved is the log of a walk.
type saved [][]byte

func (s *saved) take(t testing.TB, w *walk.Walk) {
	t.Helper()
	if err := w.TakeLog(func(rec []byte) error { *s = append(*s, bytes.Clone(rec)); return nil }); err != nil {
		t.Fatal(err)
	}
}

// load returns the walk that a checkpoint of w has.
func (s *saved) load(t testing.TB, opt walk.Options, w *walk.Walk) *walk.Walk {
	t.Helper()
	s.take(t, w)
	loaded, err := s.loadWith(opt, w.Freeze().Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func (s *saved) loadWith(opt walk.Options, walkers []byte) (*walk.Walk, error) {
	l := walk.NewLoader(opt)
	for _, rec := range *s {
		if err := l.Record(rec); err != nil {
			return nil, err
		}
	}
	return l.Walk(walkers)
}

func options(walkers, urls int) walk.Options {
	return walk.Options{Walkers: walkers, URLs: urls, Jump: walk.DefaultJump, Bytes: 1 << 30,
		Seed: [2]uint64{*seedFlag, 9}}
}

// TestSaved: a walk that is saved and loaded at any time continues as if nothing had been; each URL is wished
// once.
func TestSaved(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 500)
	opt := options(20, 300)
	plain := g.run(opt)
	r := rand.New(rand.NewPCG(*seedFlag, 5))
	w, wished, waiting, log := walk.New(opt), map[uint64]bool{}, []uint32{0}, saved{}
	w.Know(g.visit(0))
	for waiting = waiting[:0]; !w.Idle() || len(waiting) > 0; {
		wishes, _ := w.Step(100)
		for _, wish := range wishes {
			if wished[wish.Key] {
				t.Fatalf("%s is wished twice", wish.URL)
			}
			wished[wish.Key] = true
			waiting = append(waiting, uint32(wish.Key))
		}
		if r.IntN(3) == 0 {
			log.take(t, w)
			data := w.Freeze().Append(nil)
			if w = log.load(t, opt, w); !bytes.Equal(w.Freeze().Append(nil), data) {
				t.Fatal("a loaded walk is saved as something else")
			}
			again := len(log)
			if log.take(t, w); len(log) != again {
				t.Fatal("a loaded walk has records for its log")
			}
		}
		for _, id := range waiting {
			w.Know(g.visit(id))
			w.Know(g.visit(id)) // ignored
		}
		waiting = waiting[:0]
	}
	if !reflect.DeepEqual(w.Sample(), plain.Sample()) || w.Figures() != plain.Figures() {
		t.Errorf("%+v, want %+v", w.Figures(), plain.Figures())
	}
	if f := w.Figures(); f.Visited != 300 || len(wished) != 299 {
		t.Errorf("%d visited, %d wished, want 300 and all but the seed", f.Visited, len(wished))
	}
}

// TestBounds: a walk ends at its number of URLs, of steps on a web that is seen whole, and of bytes.
func TestBounds(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 100)
	if f := g.run(options(1000, 1000)).Figures(); f.Visited != 100 || f.Steps != walk.StepsPerURL*1000 {
		t.Errorf("a walk of a web of 100 URLs: %+v", f)
	}
	if f := g.run(options(1000, 1)).Figures(); f.Visited != 1 || f.Steps != 0 {
		t.Errorf("a walk of one URL: %+v", f)
	}
	opt := options(10, 1000)
	opt.Bytes = 5000
	if f := g.run(opt).Figures(); f.Visited >= 100 || f.Bytes > 5000+30*200 {
		t.Errorf("a walk in 5,000 bytes: %+v", f)
	}
	for _, bad := range []walk.Options{options(0, 1), options(walk.MaxWalkers+1, 1), options(1, 0),
		options(1, walk.MaxURLs+1), {Walkers: 1, URLs: 1, Jump: math.NaN(), Bytes: 1}, {Walkers: 1, URLs: 1, Bytes: 1},
		{Walkers: 1, URLs: 1, Jump: 0.5}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	if err := (&opt).Validate(); err != nil {
		t.Error(err)
	}
}

// TestDeadEnds: walkers leave URLs without links, and such as were refused; a web without a link is no walk.
func TestDeadEnds(t *testing.T) {
	t.Parallel()
	g := &graph{seeds: []uint32{0}}
	for i := range 3 {
		g.add(string(rune('a'+i)), uint64(i), i < 2)
	}
	w := g.run(options(5, 100))
	if !w.Idle() || w.Figures().Steps != 0 {
		t.Errorf("a web without a link: %+v", w.Figures())
	}
	g.links[0] = []uint32{1, 2}
	w = g.run(options(5, 100))
	s := w.Sample()
	if len(s) != 2 || s[0].Chance != 1 || s[1].Chance < 0.99 || s[1].Linked != 1 || w.Figures().Visited != 3 {
		t.Errorf("sample %+v, %+v", s, w.Figures())
	}
}

// TestGiveUp: walkers leave a URL that is given up, and wait there no more; once it is known, they use its links.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 100)
	opt := options(5, 100)
	w := walk.New(opt)
	w.Know(g.visit(0))
	var late []uint32
	var log saved
	for wishes, _ := w.Step(100); len(wishes) > 0 || !w.Idle(); wishes, _ = w.Step(100) {
		for _, wish := range wishes {
			if id := uint32(wish.Key); id%2 == 1 {
				w.GiveUp(wish.Key)
				late = append(late, id)
			} else {
				w.Know(g.visit(id))
			}
		}
		w = log.load(t, opt, w)
	}
	if n := w.Waiting(); n != len(late) || n == 0 || w.Figures().Steps != walk.StepsPerURL*100 {
		t.Errorf("%d URLs wait, %d were given up; %+v", n, len(late), w.Figures())
	}
	for _, id := range late {
		w.Know(g.visit(id))
	}
	if n := w.Waiting(); n != 0 {
		t.Errorf("%d URLs wait at the end", n)
	}
}

// TestDamage: changed bytes are found, or give a walk that continues without a panic.
func TestDamage(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 60)
	opt := options(5, 40)
	w := g.run(opt)
	var log saved
	log.take(t, w)
	walkers := w.Freeze().Append(nil)
	r := rand.New(rand.NewPCG(*seedFlag, 6))
	found := 0
	for i := range 3000 {
		bad, end, at := slices.Clone(log), walkers, r.IntN(len(log))
		damage := func(data []byte) []byte {
			data = bytes.Clone(data)
			if i%3 == 0 {
				return data[:r.IntN(len(data))]
			}
			data[r.IntN(len(data))] ^= byte(1 << r.IntN(8))
			return data
		}
		switch i % 5 {
		case 0:
			end = damage(walkers)
		case 1:
			bad = slices.Delete(bad, at, at+1)
		default:
			bad[at] = damage(bad[at])
		}
		w, err := bad.loadWith(opt, end)
		switch {
		case err == nil:
			w.Step(100)
			w.Sample()
		case !errors.Is(err, walk.ErrDamaged):
			t.Fatal(err)
		default:
			found++
		}
	}
	if found < 800 { // at least each record that is lost, and all walkers that are cut
		t.Errorf("%d of 3000 changes were found", found)
	}
}

// TestGolden spells the log and the walkers of a walk as a checkpoint has them (docs/reference/files/walk.md).
func TestGolden(t *testing.T) {
	t.Parallel()
	w := walk.New(walk.Options{Walkers: 2, URLs: 40, Jump: 0.5, Bytes: 1000, Seed: [2]uint64{1, 2}})
	w.Know(&walk.Visit{Link: walk.Link{Key: 0x11, Host: 0x22, URL: []byte("http://a/")}, Page: true, Status: 200,
		Links:  []walk.Link{{Key: 0x33, Host: 0x44, URL: []byte("http://b/")}},
		Origin: walk.Origin{Depth: 1, Redirects: 2, Flags: 4}})
	w.Step(1)
	for wishes, _ := w.Step(1); len(wishes) == 0; wishes, _ = w.Step(1) { // jumps to the only page with a link
	}
	w.GiveUp(0x33)
	var log saved
	log.take(t, w)
	want := []string{
		"\x01\x11\x00\x00\x00\x00\x00\x00\x00\x22\x00\x00\x00\x00\x00\x00\x00http://a/", // seen: keys, URL
		"\x01\x33\x00\x00\x00\x00\x00\x00\x00\x44\x00\x00\x00\x00\x00\x00\x00http://b/",
		// Known: URL 0; page and seed, status, depth, redirects, flags, a link to URL 1.
		"\x02\x00\x07\xc8\x01\x01\x02\x04\x01",
		"\x03\x01",     // a jump to URL 0
		"\x03\x01",     // the other walker's
		"\x03\x00\x00", // link 0 of URL 0 was followed
		"\x04\x01",     // URL 1 is given up
	}
	if got := strings.Split(string(bytes.Join(log, []byte("|"))), "|"); !slices.Equal(got, want) {
		t.Errorf("the log is\n%q, want\n%q", got, want)
	}
	f := w.Freeze().Append(nil)
	ends := "\x03" + // steps
		"\x02" + // URLs in the log
		"\x02\x00\x01" + // two walkers: one without a URL, one at URL 0
		"\x02\x01\x00" // both may step, the second first
	if f[0] != 2 || string(f[17:]) != ends {
		t.Errorf("the walkers are saved as\n%q, want version 2, the generator's words, and\n%q", f, ends)
	}
}
