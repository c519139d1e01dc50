package testworld

import (
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// Truth has what the queue readers of audit, the drums and the crawl log say about every URL.
type Truth struct {
	Places map[string]state.Spot
	Ended  map[string]*crawllog.Entry
	Seen   map[uint64]bool
	Links  map[string]bool
	Hasher *weburl.Hasher
}

// TruthOf reads the truth of the crawl in dirs.
func TruthOf(t *testing.T, fsys disk.FS, dirs []string) *Truth {
	t.Helper()
	r, m, err := audit.Open(&audit.Options{FS: fsys, Dirs: dirs})
	must(t, err)
	defer func() {
		if err := r.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	tr := &Truth{Places: map[string]state.Spot{}, Ended: map[string]*crawllog.Entry{}, Seen: map[uint64]bool{},
		Links: map[string]bool{}, Hasher: r.Hasher}
	tr.putAll(t, r.Set, m)
	_, err = drum.ScanState(r.Set, state.NameURLSeen, PartOf[drum.State](t, m, state.NameURLSeen), drum.Scan{
		Entry: func(key drum.Key, _ []byte) error { tr.Seen[uint64(key)] = true; return nil },
		Text: func(aux []byte, unique bool) error {
			if _, ok := state.MovedKey(aux); ok {
				return nil
			}
			if unique {
				return tr.put(t, state.Spot{Place: state.PlaceUnstreamed})(aux)
			}
			var rec weburl.Record
			must(t, rec.Decode(aux))
			tr.Links[string(rec.URL)] = true
			return nil
		},
	})
	must(t, err)
	_, err = crawllog.Scan(crawllog.Options{Set: r.Set, Prefix: "crawl"},
		PartOf[crawllog.State](t, m, state.NameCrawlLog), func(e *crawllog.Entry) error {
			if c := *e; !e.Order {
				tr.Ended[e.URL] = &c
			}
			return nil
		}, func(err error) error { return err })
	must(t, err)
	return tr
}

// put notes the place of a URL; no URL may be in two.
func (tr *Truth) put(t *testing.T, at state.Spot) func([]byte) error {
	return func(data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		if _, twice := tr.Places[string(rec.URL)]; twice {
			t.Errorf("%s is in two places", rec.URL)
		}
		tr.Places[string(rec.URL)] = at
		return nil
	}
}

// putAll notes the places of all URLs outside of URLseen.
func (tr *Truth) putAll(t *testing.T, set disk.Set, m *state.Manifest) {
	t.Helper()
	must(t, star.WalkChecks(set, state.NameStar, PartOf[star.State](t, m, state.NameStar),
		tr.put(t, state.Spot{Place: state.PlaceStar})))
	_, _, err := beast.Scan(set, state.NameBeast, PartOf[beast.State](t, m, state.NameBeast),
		func(_ int, n beast.Number, data []byte) error {
			if n == beast.OverBudget {
				return tr.put(t, state.Spot{Place: state.PlaceOverBudget})(data)
			}
			return tr.put(t, state.Spot{Place: state.PlaceBeast, Queue: n})(data)
		}, nil)
	must(t, err)
	cache := PartOf[drum.State](t, m, state.NameRobotsCache)
	_, err = drum.ScanState(set, state.NameRobotsCache, cache.Waiting(), drum.Scan{Tuple: func(tu drum.Tuple) error {
		if tu.Op != drum.Check {
			return nil
		}
		return tr.put(t, state.Spot{Place: state.PlaceRobotsCheck})(tu.Value)
	}})
	must(t, err)
	for name, place := range map[string]state.Place{
		state.NameAwaitRobots: state.PlaceAwaitRobots, state.NameReady: state.PlaceReady,
		state.NameHeld: state.PlaceHeld,
	} {
		_, err = queue.Scan(set, name, PartOf[queue.State](t, m, name), tr.put(t, state.Spot{Place: place}), nil)
		must(t, err)
	}
	_, err = queue.ScanCalendar(set, state.NameDeferred, PartOf[queue.CalendarState](t, m, state.NameDeferred),
		func(due int64, data []byte) error {
			return tr.put(t, state.Spot{Place: state.PlaceDeferred, Due: due})(data)
		}, nil)
	must(t, err)
	ram, err := disk.ReadTail(set, m.RAM)
	must(t, err)
	must(t, state.EachRecord("RAM", ram, tr.put(t, state.Spot{Place: state.PlaceRAM})))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Place returns the place that explain must report.
func (tr *Truth) Place(url string) string {
	at, live := tr.Places[url]
	e := tr.Ended[url]
	switch {
	case live:
		return at.Place.String()
	case e != nil && e.Reason != "":
		return "refused"
	case e != nil:
		return "fetched"
	case tr.Seen[tr.Hasher.URLKey([]byte(url))]:
		return "ended"
	case tr.Links[url]:
		return "link"
	}
	return "unseen"
}

// AllURLs returns the URLs of a web that a crawl may meet, and some that it can't.
func AllURLs(web *simweb.Web) []string {
	e := web.Expected("drumbeat")
	var list []string
	for _, urls := range []func(func(string) bool){e.FetchedURLs(), e.RefusedURLs(), e.DeadURLs()} {
		for url := range urls {
			list = append(list, url)
		}
	}
	for i := range 20 {
		list = append(list, list[i]+"-no-such-page")
	}
	return list
}
