package export

import (
	"encoding/binary"
	"slices"

	"drumbeat/internal/extsort"
	"drumbeat/weburl"
)

// hostPLDs counts, for each host, the other PLDs whose stored pages link to it, as reputationTable does. It gathers
// pairs in RAM, and passes them on to a sorter when there are many.
type hostPLDs struct {
	j      *job
	pairs  map[hostPair]struct{}
	limit  int             // of pairs
	sorter *extsort.Sorter // pairs, some of them several times
	next   *cursor         // of sorter

	from   []byte // host of the last source
	source uint64 // key of its PLD
	rec    []byte
}

// hostPair has the keys of the PLD and the host of a target, and the key of the PLD of a source.
type hostPair [3]uint64

func newHostPLDs(j *job) *hostPLDs {
	return &hostPLDs{j: j, pairs: map[hostPair]struct{}{}, limit: int(j.opt.RAMBytes / 8 / sumBytes),
		sorter: j.sorterOf(8)}
}

// add takes a link.
func (h *hostPLDs) add(l *linkRow) error {
	if host := weburl.Split(l.from).Host; h.from == nil || string(host) != string(h.from) {
		h.from, h.source = append(h.from[:0], host...), h.j.PLDKey(host)
	}
	host := weburl.Split(l.to).Host
	pld := h.j.PLDKey(host)
	if pld == h.source {
		return nil
	}
	h.pairs[hostPair{pld, h.j.Hasher.HostKey(host), h.source}] = struct{}{}
	if len(h.pairs) >= h.limit {
		return h.flush()
	}
	return nil
}

// flush gives the pairs to the sorter.
func (h *hostPLDs) flush() error {
	for p := range h.pairs {
		h.rec = h.rec[:0]
		for _, key := range p {
			h.rec = binary.BigEndian.AppendUint64(h.rec, key)
		}
		if err := h.sorter.Add(h.rec); err != nil {
			return err
		}
	}
	clear(h.pairs)
	return nil
}

// sort ends the adding.
func (h *hostPLDs) sort() error {
	err := h.flush()
	if h.pairs = nil; err == nil {
		h.next, err = sorted(h.sorter)
	}
	return err
}

// of returns the number of PLDs that link to a host. Calls are in the order of the keys of PLDs and hosts, one each.
func (h *hostPLDs) of(pld, host uint64) (n int64, err error) {
	last, c := hostPair{}, h.next
	for ; err == nil && c.ok; err = c.next() {
		p := hostPair{c.key, binary.BigEndian.Uint64(c.value), binary.BigEndian.Uint64(c.value[8:])}
		order := slices.Compare(p[:2], []uint64{pld, host})
		if order > 0 {
			break
		}
		if order == 0 && (n == 0 || p != last) {
			n++
		}
		last = p
	}
	return n, err
}
