package export

import (
	"fmt"

	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/weburl"
)

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
			return j.eachWaiting(func(at state.Spot, data []byte) error {
				var r weburl.Record
				if err := r.Decode(data); err != nil {
					return fmt.Errorf("export: a record of %s: %w", at.Place, err)
				}
				number, lane, due, from := tabular.Null, tabular.Null, tabular.Null, tabular.Null
				switch at.Place {
				case state.PlaceBeast:
					number, lane = tabular.Int(int64(at.Queue)), tabular.Int(int64(at.Lane))
				case state.PlaceOverBudget:
					lane = tabular.Int(int64(at.Lane))
				case state.PlaceDeferred:
					due = tabular.At(state.Due(&r, at.Due))
				}
				if via = r.AppendVia(via[:0]); len(via) > 0 {
					from = tabular.Text(via)
				}
				return j.write(tabular.Text(r.URL), tabular.Str(at.Place.String()), number, lane, due,
					unixOrNull(r.Found), tabular.Int(int64(r.Depth)), from, tabular.Int(int64(r.Attempts)),
					tabular.StrOrNull(state.Reason(r.Reason).String()))
			})
		},
		parts: []string{"state"},
	}
}

// queueFiles returns the files with waiting URLs.
func queueFiles(j *job) ([]string, error) { return j.URLFiles(j.Manifest, state.WaitingPlaces[:]) }

// eachWaiting calls visit with the record of each URL that has not ended, in the order of the places. The first
// damage ends it.
func (j *job) eachWaiting(visit func(at state.Spot, data []byte) error) error {
	return j.ScanURLs(j.Manifest, state.URLScan{Places: state.WaitingPlaces[:], Visit: visit, Begin: j.meter.Set})
}
