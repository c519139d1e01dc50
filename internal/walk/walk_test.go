package walk_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"drumbeat/internal/walk"
)

// TestUniform: in the sample of a walk that has visited three quarters of a web, each class of pages by in-degree has within
// 5 % of its share in the web, if that is at least a twentieth; and the sum of the weights is near the number of pages.
func TestUniform(t *testing.T) {
	t.Parallel()
	for run := range *runsFlag {
		seed := *seedFlag + uint64(run)
		for name, g := range map[string]*graph{"power law": powerLaw(seed, 30_000), "simweb": simGraph(t, seed, 30_000)} {
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
			t.Logf("%s, seed %d: %d of %d URLs visited, %d steps; %.0f pages estimated", name, seed, f.Visited, len(g.urls), f.Steps, sum)
			worst, before := 0.0, 0.0
			for c := range truth {
				if truth[c] >= 0.01 {
					t.Logf("  in-degree %6d and more: %4.1f %% of the pages, %+5.1f %% as visited, %+5.1f %% in the sample", 1<<c>>1,
						100*truth[c], 100*(raw[c]/truth[c]-1), 100*(got[c]/truth[c]-1))
				}
				if truth[c] >= 0.05 {
					worst, before = max(worst, math.Abs(got[c]/truth[c]-1)), max(before, math.Abs(raw[c]/truth[c]-1))
				}
			}
			if worst > 0.05 {
				t.Errorf("%s, seed %d: a class is off by %.1f %%", name, seed, 100*worst)
			}
			if before < 0.05 {
				t.Errorf("%s, seed %d: as visited, no class is off by more than %.1f %%: nothing to correct", name, seed, 100*before)
			}
		}
	}
}

func options(walkers, urls int) walk.Options {
	return walk.Options{Walkers: walkers, URLs: urls, Jump: walk.DefaultJump, Bytes: 1 << 30, Seed: [2]uint64{*seedFlag, 9}}
}

// TestSaved: a walk that is saved and loaded at any time goes on as if nothing had been; each URL is wished once.
func TestSaved(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 500)
	opt := options(20, 300)
	plain := g.run(opt)
	r := rand.New(rand.NewPCG(*seedFlag, 5))
	w, wished, waiting := walk.New(opt), map[uint64]bool{}, []uint32{0}
	w.Know(g.visit(0))
	for waiting = waiting[:0]; !w.Idle() || len(waiting) > 0; {
		for _, wish := range w.Step(100) {
			if wished[wish.Key] {
				t.Fatalf("%s is wished twice", wish.URL)
			}
			wished[wish.Key] = true
			waiting = append(waiting, uint32(wish.Key))
		}
		if r.IntN(3) == 0 {
			data := w.Freeze().Append(nil)
			loaded, err := walk.Load(opt, data)
			if err != nil {
				t.Fatal(err)
			}
			if again := loaded.Freeze().Append(nil); !bytes.Equal(again, data) {
				t.Fatal("a loaded walk is saved as something else")
			}
			w = loaded
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
	for _, bad := range []walk.Options{options(0, 1), options(walk.MaxWalkers+1, 1), options(1, 0), options(1, walk.MaxURLs+1),
		{Walkers: 1, URLs: 1, Jump: math.NaN(), Bytes: 1}, {Walkers: 1, URLs: 1, Bytes: 1}, {Walkers: 1, URLs: 1, Jump: 0.5}} {
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
	for wishes := w.Step(100); len(wishes) > 0 || !w.Idle(); wishes = w.Step(100) {
		for _, wish := range wishes {
			if id := uint32(wish.Key); id%2 == 1 {
				w.GiveUp(wish.Key)
				late = append(late, id)
			} else {
				w.Know(g.visit(id))
			}
		}
		loaded, err := walk.Load(opt, w.Freeze().Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		w = loaded
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

// TestDamage: changed bytes are found, or give a walk that goes on without a panic.
func TestDamage(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 60)
	opt := options(5, 40)
	data := g.run(opt).Freeze().Append(nil)
	r := rand.New(rand.NewPCG(*seedFlag, 6))
	found := 0
	for i := range 3000 {
		bad := bytes.Clone(data)
		if i%3 == 0 {
			bad = bad[:r.IntN(len(bad))]
		} else {
			bad[r.IntN(len(bad))] ^= byte(1 << r.IntN(8))
		}
		w, err := walk.Load(opt, bad)
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
	if found < 1000 { // at least each that was cut
		t.Errorf("%d of 3000 changes were found", found)
	}
}

// TestGolden spells a walk as a checkpoint has it (docs/formats/walk.md).
func TestGolden(t *testing.T) {
	t.Parallel()
	w := walk.New(walk.Options{Walkers: 2, URLs: 40, Jump: 0.5, Bytes: 1000, Seed: [2]uint64{1, 2}})
	w.Know(&walk.Visit{Link: walk.Link{Key: 0x11, Host: 0x22, URL: []byte("http://a/")}, Page: true, Status: 200,
		Links:  []walk.Link{{Key: 0x33, Host: 0x44, URL: []byte("http://b/")}},
		Origin: walk.Origin{Depth: 1, Redirects: 2, Flags: 4}})
	want := "\x01" + // version
		"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02" + // the generator's two words
		"\x00" + // steps
		"\x02" + // URLs
		"\x11\x00\x00\x00\x00\x00\x00\x00\x22\x00\x00\x00\x00\x00\x00\x00\x09http://a/" + // keys, length, URL
		"\x07\xc8\x01\x01\x02\x04\x00\x00\x01\x01" + // page and seed, status, depth, redirects, flags, steps, visits, one link
		"\x33\x00\x00\x00\x00\x00\x00\x00\x44\x00\x00\x00\x00\x00\x00\x00\x09http://b/" +
		"\x00\x00" + // seen only; visits
		"\x02\x00\x00" + // two walkers, which have not started
		"\x02\x00\x01" + // both are ready, the first one first
		"\x01\x00" // URLs with links, in the order in which they were visited
	if got := w.Freeze().Append(nil); string(got) != want {
		t.Errorf("saved as\n%q, want\n%q", got, want)
	}
}
