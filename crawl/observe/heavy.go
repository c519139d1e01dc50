package observe

import (
	"cmp"
	"slices"
)

// heavyPLDs finds the PLDs with the most responses of this run (Metwally, Agrawal, El Abbadi: Efficient computation of
// frequent and top-k elements in data streams, 2005: Space-Saving). It keeps mostHeavy of them: the count of one with
// more than 1/mostHeavy of all responses is right to within that share, and it is always among them.
type heavyPLDs struct {
	on    bool
	plds  []HeavyPLD
	total int64
}

// mostHeavy is the number of PLDs that are counted. Each takes some 300 bytes.
const mostHeavy = 64

// HeavyPLD is a PLD with many responses.
type HeavyPLD struct {
	Key       uint64
	Host      string // one of its hosts
	Responses int64  // of this run, at least
	over      int64  // by which the count may be too large
}

// add counts a response. A PLD that is not counted takes the place of the one with the fewest.
func (h *heavyPLDs) add(key uint64, host []byte) {
	if !h.on {
		return
	}
	h.total++
	least := 0
	for i := range h.plds {
		if h.plds[i].Key == key {
			h.plds[i].Responses++
			return
		}
		if h.plds[i].Responses < h.plds[least].Responses {
			least = i
		}
	}
	if len(h.plds) < mostHeavy {
		h.plds = append(h.plds, HeavyPLD{Key: key, Host: string(host), Responses: 1})
		return
	}
	n := h.plds[least].Responses
	h.plds[least] = HeavyPLD{Key: key, Host: string(host), Responses: n + 1, over: n}
}

// CountHeavy makes the sketches find the PLDs with the most responses. It is called before any other method.
func (s *Sketches) CountHeavy() { s.heavy.on = true }

// HeavyPLDs lists the PLDs with more than 1/32 of the responses of this run, those with the most first.
func (s *Sketches) HeavyPLDs() (list []HeavyPLD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, least := range s.heavy.plds {
		if least.Responses -= least.over; 32*least.Responses > s.heavy.total {
			list = append(list, least)
		}
	}
	slices.SortFunc(list, func(a, b HeavyPLD) int {
		return cmp.Or(cmp.Compare(b.Responses, a.Responses), cmp.Compare(a.Key, b.Key))
	})
	return list
}
