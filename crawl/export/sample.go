package export

import (
	"errors"
	"math"

	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/internal/walk"
)

// errNoWalk is the error of a crawl with another strategy.
var errNoWalk = errors.New("export: the crawl is no random walk (crawl --strategy random-walk), so it has no sample")

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
			if ref.Len == 0 {
				return nil, errNoWalk
			}
			return []string{disk.TailPath(j.Set, ref.Dir, ref.Gen)}, nil
		},
		fill: fillSample,
	}
}

func fillSample(j *job) error {
	data, err := disk.ReadTail(j.Set, j.Manifest.Walk)
	if err != nil {
		return err
	}
	w, err := walk.Load(walk.Options{Walkers: 1, URLs: 1, Jump: walk.DefaultJump, Bytes: math.MaxInt64}, data)
	if err != nil {
		return err
	}
	for _, s := range w.Sample() {
		if err := j.write(tabular.Text([]byte(s.URL)), tabular.Int(int64(s.Status)), tabular.Float(s.Weight), tabular.Float(s.Chance),
			tabular.Int(int64(s.Visits)), tabular.Int(int64(s.Links)), tabular.Int(int64(s.Linked))); err != nil {
			return err
		}
	}
	return nil
}
