package explain

import (
	"drumbeat/disk"
	"drumbeat/internal/trapscore"
)

// TrapReport says how far the pages of a host repeat one another (package internal/trapscore). There is none for
// a host of which less than a quarter of the pages do.
type TrapReport struct {
	Score    float64 `json:"score"` // 0 to 1; 0 below trapscore.LeastPages pages
	Pages    int     `json:"pages"` // pages counted, the recent ones
	Repeated int     `json:"repeated"`
	Part     int     `json:"part,omitempty"` // sixteenths of the PLD's budget that the host may use; 0: all of it
}

// trap returns the report of a host as of the checkpoint.
func (v *view) trap(host string) (*TrapReport, error) {
	if v.traps == nil {
		v.traps = map[uint64]trapscore.Score{}
		data, err := disk.ReadTail(v.r.Set, v.m.Traps)
		if err == nil {
			err = trapscore.EachHost(data, func(key uint64, s trapscore.Score) { v.traps[key] = s })
		}
		if err != nil {
			return nil, err
		}
	}
	s, ok := v.traps[v.r.HostKey([]byte(host))]
	if !ok {
		return nil, nil
	}
	return &TrapReport{Score: s.Share(), Pages: int(s.Pages), Repeated: int(s.Repeated), Part: int(s.Part())}, nil
}
