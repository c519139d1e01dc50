package export

import (
	"fmt"
	"slices"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/tabular"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// spot is where a waiting URL is.
type spot struct {
	place state.Place
	queue beast.Number // of PlaceBeast
	lane  int          // of PlaceBeast and PlaceFailed
	due   int64        // of PlaceDeferred: Unix ms
}

// queueTable has a row for each URL that has not ended.
func queueTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "place", Type: tabular.String, Few: true},
			{Name: "queue", Type: tabular.Int64, Nullable: true}, // number of BEAST's queue
			{Name: "lane", Type: tabular.Int64, Nullable: true},  // of BEAST, in its queues and QF
			{Name: "due", Type: tabular.Time, Nullable: true},    // of deferred URLs
			{Name: "found", Type: tabular.Time, Nullable: true},
			{Name: "depth", Type: tabular.Int64},
			{Name: "via", Type: tabular.String, Nullable: true},
			{Name: "attempts", Type: tabular.Int64},
			{Name: "reason", Type: tabular.String, Nullable: true, Few: true}, // of the last deferral
		},
		files: queueFiles,
		fill: func(j *job) error {
			var via []byte
			return j.eachWaiting(func(at spot, data []byte) error {
				var r weburl.Record
				if err := r.Decode(data); err != nil {
					return fmt.Errorf("export: a record of %s: %w", at.place, err)
				}
				number, lane, due, from := tabular.Null, tabular.Null, tabular.Null, tabular.Null
				switch at.place {
				case state.PlaceBeast:
					number, lane = tabular.Int(int64(at.queue)), tabular.Int(int64(at.lane))
				case state.PlaceOverBudget:
					lane = tabular.Int(int64(at.lane))
				case state.PlaceDeferred:
					due = tabular.At(state.Due(&r, at.due))
				}
				if via = r.AppendVia(via[:0]); len(via) > 0 {
					from = tabular.Text(via)
				}
				return j.write(tabular.Text(r.URL), tabular.Str(at.place.String()), number, lane, due,
					unixOrNull(r.Found), tabular.Int(int64(r.Depth)), from, tabular.Int(int64(r.Attempts)),
					tabular.StrOrNull(state.Reason(r.Reason).String()))
			})
		},
		parts: []string{"state"},
	}
}

// queueFiles returns the files with waiting URLs.
func queueFiles(j *job) ([]string, error) {
	starState, err := part[star.State](j, state.NameStar)
	if err != nil {
		return nil, err
	}
	_, indegree := star.Stores(state.NameStar)
	files := drum.Files(j.Set, indegree, starState.Indegree.Waiting())
	for _, name := range []string{state.NameURLSeen, state.NameRobotsCache, state.NameContent} {
		st, err := state.Part[drum.State](j.Manifest, name)
		if err != nil {
			return nil, err
		}
		if st != nil {
			files = append(files, drum.Files(j.Set, name, st.Waiting())...)
		}
	}
	for _, q := range state.URLQueues {
		st, err := part[queue.State](j, q.Name)
		if err != nil {
			return nil, err
		}
		files = append(files, queue.Files(j.Set, q.Name, st)...)
	}
	later, err := part[queue.CalendarState](j, state.NameDeferred)
	if err != nil {
		return nil, err
	}
	bs, err := part[beast.State](j, state.NameBeast)
	if err != nil {
		return nil, err
	}
	return slices.Concat(files, queue.CalendarFiles(j.Set, state.NameDeferred, later),
		beast.Files(j.Set, state.NameBeast, bs)), nil
}

// eachWaiting calls visit with the record of each URL that has not ended, in the order of the places. The first
// damage ends it.
func (j *job) eachWaiting(visit func(at spot, data []byte) error) error {
	for _, scan := range []func(func(spot, []byte) error) error{j.inDrums, j.inBeast, j.inQueues} {
		if err := scan(visit); err != nil {
			return err
		}
	}
	return nil
}

// inDrums visits the URLs that wait in drums.
func (j *job) inDrums(visit func(at spot, data []byte) error) error {
	scan := func(name string, s drum.Scan) error {
		j.meter.Set(name)
		st, err := state.Part[drum.State](j.Manifest, name)
		if err != nil || st == nil {
			return err
		}
		_, err = drum.ScanState(j.Set, name, st.Waiting(), s)
		return err
	}
	err := scan(state.NameURLSeen, drum.Scan{Text: func(aux []byte, unique bool) error {
		if !unique {
			return nil
		}
		return visit(spot{place: state.PlaceUnstreamed}, aux)
	}})
	if err != nil {
		return err
	}
	st, err := part[star.State](j, state.NameStar)
	if err != nil {
		return err
	}
	j.meter.Set(state.NameStar)
	err = star.WalkChecks(j.Set, state.NameStar, st, func(aux []byte) error {
		return visit(spot{place: state.PlaceStar}, aux)
	})
	if err != nil {
		return err
	}
	err = scan(state.NameRobotsCache, drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op != drum.Check {
			return nil
		}
		return visit(spot{place: state.PlaceRobotsCheck}, t.Value)
	}})
	if err != nil {
		return err
	}
	return scan(state.NameContent, drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op != drum.CheckUpdate {
			return nil
		}
		var wait state.Waiting
		if err := wait.Decode(t.Aux); err != nil {
			return err
		}
		return visit(spot{place: state.PlaceContent}, wait.Record)
	}})
}

// inBeast visits the URLs in BEAST's queues.
func (j *job) inBeast(visit func(at spot, data []byte) error) error {
	j.meter.Set(state.NameBeast)
	st, err := part[beast.State](j, state.NameBeast)
	if err != nil {
		return err
	}
	_, _, err = beast.Scan(j.Set, state.NameBeast, st, func(lane int, n beast.Number, data []byte) error {
		if n == beast.OverBudget {
			return visit(spot{place: state.PlaceOverBudget, lane: lane}, data)
		}
		return visit(spot{place: state.PlaceBeast, queue: n, lane: lane}, data)
	}, nil)
	return err
}

// inQueues visits the URLs in the other queues and in RAM.
func (j *job) inQueues(visit func(at spot, data []byte) error) error {
	for _, q := range state.URLQueues {
		j.meter.Set(q.Name)
		st, err := part[queue.State](j, q.Name)
		if err != nil {
			return err
		}
		_, err = queue.Scan(j.Set, q.Name, st,
			func(data []byte) error { return visit(spot{place: q.Place}, data) }, nil)
		if err != nil {
			return err
		}
	}
	j.meter.Set(state.NameDeferred)
	later, err := part[queue.CalendarState](j, state.NameDeferred)
	if err != nil {
		return err
	}
	_, err = queue.ScanCalendar(j.Set, state.NameDeferred, later, func(due int64, data []byte) error {
		return visit(spot{place: state.PlaceDeferred, due: due}, data)
	}, nil)
	if err != nil {
		return err
	}
	ram, err := disk.ReadTail(j.Set, j.Manifest.RAM)
	if err != nil {
		return err
	}
	return state.EachRecord("URLs in RAM", ram,
		func(data []byte) error { return visit(spot{place: state.PlaceRAM}, data) })
}
