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

// sampleTable has a row for each page that the walkers of a random walk have visited (package walk). A node of several
// knows a part of the links to its pages, so weight and chance are null there. Its rows for URLs of other nodes,
// to which its pages link, are for the sums (docs/howto/prepare/sample.md); their status is null.
func sampleTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "status", Type: tabular.Int64, Nullable: true},
			{Name: "weight", Type: tabular.Float64, Nullable: true}, // pages for which it stands
			{Name: "chance", Type: tabular.Float64, Nullable: true}, // probability of its visit
			{Name: "visits", Type: tabular.Int64},                   // by walkers
			{Name: "links", Type: tabular.Int64},                    // to other URLs
			{Name: "linked", Type: tabular.Int64},                   // visited URLs with a link to it
			{Name: "missed", Type: tabular.Float64},                 // logarithm of the probability of no step to it
			{Name: "seed", Type: tabular.Bool},                      // visited without a step
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
	if j.Manifest.Frozen.Nodes > 1 {
		slots := j.Manifest.Frozen.Slots
		for _, s := range w.SamplePart(func(key uint64) bool { return !slots.HasKey(key) }) {
			if err := j.writeSampled(&s, true); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range w.Sample() {
		if err := j.writeSampled(&s, false); err != nil {
			return err
		}
	}
	return nil
}

// writeSampled writes a row; part says that it is that of one of several nodes.
func (j *job) writeSampled(s *walk.Sampled, part bool) error {
	status, weight, chance := tabular.Null, tabular.Null, tabular.Null
	if s.Status > 0 {
		status = tabular.Int(int64(s.Status))
	}
	if !part {
		weight, chance = tabular.Float(s.Weight), tabular.Float(s.Chance)
	}
	return j.write(tabular.Text([]byte(s.URL)), status, weight, chance, tabular.Int(int64(s.Visits)),
		tabular.Int(int64(s.Links)), tabular.Int(int64(s.Linked)), tabular.Float(s.Missed), tabular.Truth(s.Seed))
}
