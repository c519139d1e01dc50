package export

import (
	"errors"
	"math"

	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/internal/walk"
	"drumbeat/queue"
	"drumbeat/state"
)

// errNoWalk is the error of a crawl with another strategy.
var errNoWalk = errors.New("export: the crawl is not a random walk (crawl --strategy random-walk), so it has no sample")

// sampleTable has a row for each page that the walkers of a random walk have visited (package walk).
func sampleTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "status", Type: tabular.Int64},
			{Name: "weight", Type: tabular.Float64}, // pages for which it stands
			{Name: "chance", Type: tabular.Float64}, // probability of its visit
			{Name: "visits", Type: tabular.Int64},   // by walkers
			{Name: "links", Type: tabular.Int64},    // to other URLs
			{Name: "linked", Type: tabular.Int64},   // visited URLs with a link to it
		},
		files: func(j *job) ([]string, error) {
			ref := j.Manifest.Walk
			st, err := state.Part[queue.State](j.Manifest, state.NameWalkLog)
			if err != nil {
				return nil, err
			}
			if ref.Len == 0 || st == nil {
				return nil, errNoWalk
			}
			return append(queue.Files(j.Set, state.NameWalkLog, st), disk.TailPath(j.Set, ref.Dir, ref.Gen)), nil
		},
		fill: fillSample,
	}
}

func fillSample(j *job) error {
	w, err := state.LoadWalk(j.Set, j.Manifest,
		walk.Options{Walkers: 1, URLs: 1, Jump: walk.DefaultJump, Bytes: math.MaxInt64})
	if err != nil {
		return err
	}
	for _, s := range w.Sample() {
		if err := j.write(tabular.Text([]byte(s.URL)), tabular.Int(int64(s.Status)), tabular.Float(s.Weight),
			tabular.Float(s.Chance), tabular.Int(int64(s.Visits)), tabular.Int(int64(s.Links)),
			tabular.Int(int64(s.Linked))); err != nil {
			return err
		}
	}
	return nil
}
