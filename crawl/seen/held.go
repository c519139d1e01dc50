package seen

import (
	"encoding/binary"
	"slices"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
)

// HeldLinks encodes the links of a page whose verdict is still to come: URLseen's tuples, names, edges and links
// to hosts. Their counters are those of the page's transaction.
func (s *Stage) HeldLinks(b *admit.Batch) []byte {
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	clear(b.Seen)
	b.Code()
	if len(b.Tuples)+len(b.Edges) == 0 {
		return nil
	}
	text := func(t *drum.Tuple) []byte { return t.Aux }
	dst := state.AppendTuples(nil, b.Tuples, text)
	dst = state.AppendTuples(dst, b.Names.Tuples, func(t *drum.Tuple) []byte { return t.Value })
	for _, e := range b.Edges {
		dst = appendPair(dst, e.From, e.To)
	}
	if len(b.HostLinks) > 0 {
		dst = appendPair(dst, 0, 0) // no edge has these keys
	}
	for _, l := range b.HostLinks {
		dst = appendPair(dst, l.From, l.Host)
	}
	return dst
}

func appendPair(dst []byte, from, to uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, from), to)
}

// SendHeld sends links of HeldLinks if take is true, and counts them as not taken otherwise.
func (s *Stage) SendHeld(tx *account.Tx, held []byte, take bool) error {
	var links, names []drum.Tuple
	rest, err := state.EachTuple(held, func(key drum.Key, text []byte) {
		links = append(links, drum.Tuple{Key: key, Op: drum.CheckUpdate, Aux: text})
	})
	if err != nil {
		return err
	}
	if !take {
		tx.Count(state.CountLinksDuplicate, int64(len(links)))
		return nil
	}
	if s.opt.Drains() {
		tx.Count(state.CountLinksDraining, int64(len(links)))
		return nil
	}
	if rest, err = state.EachTuple(rest, func(key drum.Key, text []byte) {
		names = append(names, drum.Tuple{Key: key, Op: drum.CheckUpdate, Value: text})
	}); err != nil {
		return err
	}
	if len(links) > 0 {
		if err := s.URLSeen.Add(links); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(links)))
		s.meter.added.Add(int64(len(links)))
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&admit.Names{Tuples: names}, tx); err != nil {
		return err
	}
	var edges []star.Edge
	var hosts []star.HostLink
	for after := false; len(rest) >= 16; rest = rest[16:] {
		switch from, to := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:]); {
		case after:
			hosts = append(hosts, star.HostLink{From: from, Host: to})
		case from == 0 && to == 0:
			after = true
		default:
			edges = append(edges, star.Edge{From: from, To: to})
		}
	}
	if len(hosts) > 0 {
		if err := s.others.Budgets.AddHostLinks(hosts); err != nil {
			return err
		}
	}
	if len(edges) == 0 {
		return nil
	}
	tx.Count(state.CountEdges, int64(len(edges)))
	return s.others.Budgets.AddEdges(edges)
}
