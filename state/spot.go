package state

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/star"
)

// Spot is where a URL waits.
type Spot struct {
	Place Place
	Queue beast.Number // of PlaceBeast
	Lane  int          // of PlaceBeast and PlaceOverBudget
	Due   int64        // of PlaceDeferred: Unix ms
}

// WaitingPlaces are the places of URLs that have not ended. PlaceBeast is also PlaceOverBudget, which has the same
// files.
var WaitingPlaces = [...]Place{PlaceUnstreamed, PlaceStar, PlaceRobotsCheck, PlaceContent, PlaceBeast, PlaceAwaitRobots,
	PlaceReady, PlaceHeld, PlaceDeferred, PlaceRAM}

// URLScan is a scan of the records of URLs that have not ended.
type URLScan struct {
	Places []Place // some of WaitingPlaces, scanned in this order
	// Visit takes a record, valid during the call. fs.SkipAll ends the scan without an error.
	Visit func(at Spot, rec []byte) error
	// Damaged takes what cannot be read; the scan continues if it returns nil. If it is nil, the first damage ends
	// the scan with an error.
	Damaged func(error) error
	// Begin, if set, is called with the name of each structure.
	Begin func(name string)
	// Known, if set, takes the keys of PlaceUnstreamed that have moved here without their URLs (MovedKey).
	Known func(key uint64)
}

// in returns a function that passes on the records of a place.
func (x *URLScan) in(p Place) func(rec []byte) error {
	return func(rec []byte) error { return x.Visit(Spot{Place: p}, rec) }
}

// damaged passes on damage.
func (x *URLScan) damaged(err error) error {
	if err == nil || x.Damaged == nil || errors.Is(err, fs.SkipAll) {
		return err
	}
	return x.Damaged(err)
}

// ScanURLs scans the URLs of a manifest, which need not be s.Manifest. A structure that it lacks has none.
func (s *Saved) ScanURLs(m *Manifest, x URLScan) error {
	for _, p := range x.Places {
		part, err := s.place(m, p)
		if err == nil && part.scan != nil {
			if x.Begin != nil {
				x.Begin(part.name)
			}
			err = part.scan(&x)
		}
		if errors.Is(err, fs.SkipAll) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// URLFiles returns the names of the files that ScanURLs reads for the places. Tails are not among them.
func (s *Saved) URLFiles(m *Manifest, places []Place) (files []string, err error) {
	for _, p := range places {
		part, err := s.place(m, p)
		if err != nil {
			return nil, err
		}
		files = append(files, part.files...)
	}
	return files, nil
}

// placePart is what a place has on disk; scan is nil for nothing.
type placePart struct {
	name  string
	files []string
	scan  func(x *URLScan) error
}

// partOf returns a placePart of a structure.
func partOf[S any](m *Manifest, name string, files func(*S) []string,
	scan func(*S, *URLScan) error) (placePart, error) {
	st, err := Part[S](m, name)
	if err != nil || st == nil {
		return placePart{}, err
	}
	return placePart{name, files(st), func(x *URLScan) error { return scan(st, x) }}, nil
}

func (s *Saved) place(m *Manifest, p Place) (placePart, error) {
	switch p {
	case PlaceUnstreamed:
		return s.drumPart(m, NameURLSeen, (*drum.State).Sealed, unstreamedScan)
	case PlaceRobotsCheck:
		return s.drumPart(m, NameRobotsCache, (*drum.State).Waiting, robotsCheckScan)
	case PlaceContent:
		return s.drumPart(m, NameContent, (*drum.State).Waiting, contentScan)
	case PlaceStar:
		_, indegree := star.Stores(NameStar)
		return partOf(m, NameStar,
			func(st *star.State) []string { return drum.Files(s.Set, indegree, st.Indegree.Waiting()) },
			func(st *star.State, x *URLScan) error {
				return x.damaged(star.WalkChecks(s.Set, NameStar, st, x.in(p)))
			})
	case PlaceBeast:
		return partOf(m, NameBeast, func(st *beast.State) []string { return beast.Files(s.Set, NameBeast, st) },
			s.scanBeast)
	case PlaceDeferred:
		return partOf(m, NameDeferred,
			func(st *queue.CalendarState) []string { return queue.CalendarFiles(s.Set, NameDeferred, st) },
			func(st *queue.CalendarState, x *URLScan) error {
				_, err := queue.ScanCalendar(s.Set, NameDeferred, st,
					func(due int64, rec []byte) error { return x.Visit(Spot{Place: p, Due: due}, rec) }, x.Damaged)
				return err
			})
	case PlaceRAM:
		return placePart{NameRAM, nil, func(x *URLScan) error { return s.scanRAM(m, x) }}, nil
	}
	at := slices.IndexFunc(URLQueues[:], func(q URLQueue) bool { return q.Place == p })
	name := URLQueues[at].Name
	return partOf(m, name, func(st *queue.State) []string { return queue.Files(s.Set, name, st) },
		func(st *queue.State, x *URLScan) error {
			_, err := queue.Scan(s.Set, name, st, x.in(p), x.Damaged)
			return err
		})
}

// drumPart is a part of a drum.
func (s *Saved) drumPart(m *Manifest, name string, part func(*drum.State) *drum.State,
	scan func(*URLScan) drum.Scan) (placePart, error) {
	return partOf(m, name, func(st *drum.State) []string { return drum.Files(s.Set, name, part(st)) },
		func(st *drum.State, x *URLScan) error {
			sc := scan(x)
			sc.Damaged = x.Damaged
			found, err := drum.ScanState(s.Set, name, part(st), sc)
			if err == nil && found.LostUniques > 0 && x.Damaged == nil {
				err = fmt.Errorf("crawl: scan %s: found %d unique texts, the state has %d", name, found.Uniques,
					st.Unstreamed)
			}
			return err
		})
}

func unstreamedScan(x *URLScan) drum.Scan {
	return drum.Scan{Text: func(rec []byte, unique bool) error {
		key, moved := MovedKey(rec)
		if moved && unique && x.Known != nil {
			x.Known(key)
		}
		if moved || !unique {
			return nil
		}
		return x.Visit(Spot{Place: PlaceUnstreamed}, rec)
	}}
}

func robotsCheckScan(x *URLScan) drum.Scan {
	return drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op != drum.Check {
			return nil
		}
		return x.Visit(Spot{Place: PlaceRobotsCheck}, t.Value)
	}}
}

func contentScan(x *URLScan) drum.Scan {
	return drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op != drum.CheckUpdate {
			return nil
		}
		var wait Waiting
		if err := wait.Decode(t.Aux); err != nil {
			return x.damaged(err)
		}
		return x.Visit(Spot{Place: PlaceContent}, wait.Record)
	}}
}

func (s *Saved) scanBeast(st *beast.State, x *URLScan) error {
	_, _, err := beast.Scan(s.Set, NameBeast, st, func(lane int, n beast.Number, rec []byte) error {
		if n == beast.OverBudget {
			return x.Visit(Spot{Place: PlaceOverBudget, Lane: lane}, rec)
		}
		return x.Visit(Spot{Place: PlaceBeast, Queue: n, Lane: lane}, rec)
	}, x.Damaged)
	return err
}

func (s *Saved) scanRAM(m *Manifest, x *URLScan) error {
	ram, err := disk.ReadTail(s.Set, m.RAM)
	if err != nil {
		return x.damaged(err)
	}
	return EachRecord("URLs in RAM", ram, x.in(PlaceRAM))
}
