package admin

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/star"
	"drumbeat/state/explain"
)

// The orders of lists; the first is the default. Those of PLDs are in the order of star.Order.
var (
	hostOrders = []string{"inram", "trouble"}
	pldOrders  = []string{"indegree", "pages", "bytes"}
)

func (s *Server) hosts(r *http.Request) (any, error) {
	n, err := intParam(r, "limit", 50, 1000)
	if err != nil {
		return nil, err
	}
	sort, err := choice(r, "sort", hostOrders)
	if err != nil {
		return nil, err
	}
	var list []operate.HostInfo
	if sort == "trouble" {
		list, err = s.opt.Control.HostsInTrouble(n)
	} else {
		list, err = s.opt.Control.HostsInRAM(n, netip.Addr{})
	}
	if err != nil {
		return nil, err
	}
	rows, err := s.hostRows(r, list)
	return Hosts{Hosts: rows}, err
}

// hostRows returns the hosts with their names.
func (s *Server) hostRows(r *http.Request, list []operate.HostInfo) ([]Host, error) {
	var unknown []uint64
	for i := range list {
		if list[i].Host == "" {
			unknown = append(unknown, list[i].Key)
		}
	}
	names, err := s.names(r, unknown)
	if err != nil {
		return nil, err
	}
	out := []Host{}
	for _, h := range list {
		row := Host{Host: h.Host, Key: strconv.FormatUint(h.Key, 16), State: h.State, InRAM: h.InRAM}
		if row.Host == "" {
			row.Host = names[h.Key]
		}
		if !h.Until.IsZero() {
			row.Until = h.Until.UTC()
		}
		if !h.At.IsZero() {
			row.At = h.At.UTC()
		}
		out = append(out, row)
	}
	return out, nil
}

// names looks up names of keys. Before the first checkpoint there are none.
func (s *Server) names(r *http.Request, keys []uint64) (names map[uint64]string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = s.withExplainer(r, func(x *explain.Explainer) (err error) {
		names, err = x.Names(keys)
		return err
	})
	return names, err
}

// pldsEvery is how old the list of PLDs may be: it reads blocks of the files of STAR and of the names, some
// milliseconds for 50 PLDs.
const pldsEvery = 5 * time.Second

// pldList is a list of PLDs in one order, kept for pldsEvery.
type pldList struct {
	mu    sync.Mutex // guards the fields below; held while the list is read
	list  *PLDs
	at    time.Time
	asked int // limit of the question that list answers
}

// plds returns the PLDs with the largest in-degrees, pages or bytes, at most pldsEvery old.
func (s *Server) plds(r *http.Request) (any, error) {
	n, err := intParam(r, "limit", 50, 1000)
	if err != nil {
		return nil, err
	}
	sort, err := choice(r, "sort", pldOrders)
	if err != nil {
		return nil, err
	}
	order := star.Order(slices.Index(pldOrders, sort))
	p := &s.pldLists[order]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil || time.Since(p.at) > pldsEvery || len(p.list.PLDs) < n && p.asked < n {
		list, err := s.readPLDs(r, order, n)
		if err != nil {
			return nil, err
		}
		p.list, p.at, p.asked = list, time.Now(), n
	}
	out := *p.list
	out.PLDs = out.PLDs[:min(n, len(out.PLDs))]
	return out, nil
}

// readPLDs reads a list. STAR keeps the first PLDs of each order in RAM, a ranking of bounded size, which each
// merge updates; so only the n PLDs listed are looked up in files, whatever the number of PLDs. The value by
// which they are sorted is that of the last merge, the others are of the last checkpoint.
func (s *Server) readPLDs(r *http.Request, order star.Order, n int) (*PLDs, error) {
	top, err := s.opt.Control.TopPLDs(order, n)
	if err != nil {
		return nil, err
	}
	settings, err := s.opt.Control.Settings()
	if err != nil {
		return nil, err
	}
	keys := make([]uint64, len(top))
	for i, t := range top {
		keys[i] = t.PLD
	}
	names, err := s.names(r, keys)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, name := range names {
		texts = append(texts, name)
	}
	known := map[string]*explain.PLDReport{}
	out := &PLDs{PLDs: []PLD{}}
	if err := s.withExplainer(r, func(x *explain.Explainer) error {
		reports, asOf, err := x.PLDs(texts)
		for _, rep := range reports {
			known[rep.PLD] = rep
		}
		out.AsOf = asOf.Time
		return err
	}); err != nil {
		return nil, err
	}
	for i, t := range top {
		row := PLD{Rank: i + 1, PLD: names[t.PLD], Key: strconv.FormatUint(t.PLD, 16)}
		if rep := known[row.PLD]; rep != nil {
			row.Indegree, row.Budget = rep.Indegree, rep.PerQueue
			row.Pages, row.Bytes, row.Placed = rep.Fetched, rep.Bytes, rep.Placed
		}
		switch order {
		case star.ByIndegree:
			row.Indegree = uint32(t.Value)
		case star.ByPages:
			row.Pages = uint32(t.Value)
		case star.ByBytes:
			row.Bytes = t.Value
		}
		if b, ok := settings.Budgets[row.PLD]; ok {
			row.Budget, row.Pinned = b, true
		}
		out.PLDs = append(out.PLDs, row)
	}
	return out, nil
}
