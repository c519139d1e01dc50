package export

import (
	"bytes"
	"encoding/binary"

	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/weburl"
)

// reputationTable has a row for each host, and for each directory at the root of a host, to which stored pages of other
// PLDs link. It measures the standing of parts of a PLD, which the paper leaves to future work (section VIII.B): the
// hosts of a hoster and the directories of its users share the in-degree of one PLD, but not their links.
func reputationTable() table {
	t := linkTable()
	t.columns = []tabular.Column{
		{Name: "host", Type: tabular.String},
		{Name: "segment", Type: tabular.String, Nullable: true}, // first path segment; null: all of the host
		{Name: "plds", Type: tabular.Int64},                     // other PLDs that link here
		{Name: "hosts", Type: tabular.Int64},                    // their hosts
		{Name: "links", Type: tabular.Int64},                    // their links
	}
	t.fill = fillReputation
	return t
}

// reputations counts the links for each host and segment, and each host that links. It sums in RAM, and passes the
// sums on to a sorter when there are many.
type reputations struct {
	j      *job
	sums   map[string]int64 // by record without sum
	bytes  int64            // that sums takes, about
	sorter *extsort.Sorter  // host, 0, segment, 0, key of the PLD that links, key of its host, a sum

	from      []byte // host of the last source
	pld, host uint64 // its keys
	rec       []byte
}

func fillReputation(j *job) error {
	r := &reputations{j: j, sums: map[string]int64{}, sorter: j.sorterOf(4)}
	if err := j.eachLink(false, r.add); err != nil {
		return err
	}
	j.meter.Set("sorting counts")
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.sorter.Sort(); err != nil {
		return err
	}
	return r.write()
}

// add counts a link.
func (r *reputations) add(l *linkRow) error {
	if host := weburl.Split(l.from).Host; r.from == nil || !bytes.Equal(host, r.from) {
		r.from = append(r.from[:0], host...)
		r.pld, r.host = r.j.Hasher.PLDKey(r.j.Suffixes.PLDBytes(host)), uint64(r.j.Hasher.HostKey(host))
	}
	to := weburl.Split(l.to)
	if r.j.Hasher.PLDKey(r.j.Suffixes.PLDBytes(to.Host)) == r.pld {
		return r.j.live()
	}
	if err := r.count(to.Host, nil); err != nil {
		return err
	}
	if segment := state.RootDirectory(to.Path); segment != nil {
		return r.count(to.Host, segment)
	}
	return r.j.live()
}

func (r *reputations) count(host, segment []byte) error {
	r.rec = append(append(append(append(r.rec[:0], host...), 0), segment...), 0)
	r.rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(r.rec, r.pld), r.host)
	if _, is := r.sums[string(r.rec)]; !is {
		r.bytes += sumBytes + int64(len(r.rec))
	}
	if r.sums[string(r.rec)]++; r.bytes >= r.j.opt.RAMBytes/4 {
		return r.flush()
	}
	return nil
}

// flush gives the sums to the sorter.
func (r *reputations) flush() error {
	for rec, n := range r.sums {
		r.rec = binary.BigEndian.AppendUint64(append(r.rec[:0], rec...), uint64(n))
		if err := r.sorter.Add(r.rec); err != nil {
			return err
		}
	}
	clear(r.sums)
	r.bytes = 0
	return nil
}

// write writes the rows.
func (r *reputations) write() error {
	const tail = 3 * 8 // keys and sum
	var place []byte   // host, 0, segment, 0
	var pld, source uint64
	var plds, hosts, links int64
	row := func() error {
		if place == nil {
			return nil
		}
		host, segment, _ := bytes.Cut(place[:len(place)-1], []byte{0})
		name := tabular.Null
		if len(segment) > 0 {
			name = tabular.Text(segment)
		}
		return r.j.write(tabular.Text(host), name, tabular.Int(plds), tabular.Int(hosts), tabular.Int(links))
	}
	for {
		rec, err := r.sorter.Next()
		if err != nil {
			return err
		}
		if rec == nil {
			return row()
		}
		at := len(rec) - tail
		if place == nil || !bytes.Equal(place, rec[:at]) {
			if err := row(); err != nil {
				return err
			}
			place, plds, hosts, links = append(place[:0], rec[:at]...), 0, 0, 0
		}
		from, host := binary.BigEndian.Uint64(rec[at:]), binary.BigEndian.Uint64(rec[at+8:])
		if plds == 0 || from != pld {
			plds++
		}
		if hosts == 0 || host != source || from != pld {
			hosts++
		}
		pld, source = from, host
		links += int64(binary.BigEndian.Uint64(rec[at+16:]))
	}
}
