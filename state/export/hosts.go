package export

import (
	"bytes"
	"encoding/binary"
	"slices"

	"drumbeat/drum"
	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// hostTable has a row for each host of a URL that the crawl found. What its robots.txt says is that of https, or of
// http if nothing is known of https; those of other ports are in robotsTable. Payments are those of all ports.
func hostTable() table {
	return table{
		columns: slices.Concat([]tabular.Column{
			{Name: "host", Type: tabular.String},
			{Name: "pld", Type: tabular.String},
			{Name: "robots_state", Type: tabular.String, Nullable: true, Few: true},
			{Name: "robots_fetched", Type: tabular.Time, Nullable: true},
			{Name: "robots_crawl_delay", Type: tabular.Float64, Nullable: true}, // seconds
		}, signalColumns, paymentColumns),
		files: func(j *job) ([]string, error) {
			files, err := nameFiles(j)
			if err != nil {
				return nil, err
			}
			st, err := part[drum.State](j, state.NameRobotsCache)
			if err != nil {
				return nil, err
			}
			more, err := logFiles(j, crawlLog())
			return append(append(files, drum.Files(j.Set, state.NameRobotsCache, st)...), more...), err
		},
		fill:  fillHosts,
		logs:  []string{logDir},
		parts: []string{"state/" + state.NameNames, "state/" + state.NameRobotsCache, logDir},
	}
}

// hostSchemes are the schemes of a host's origins. The first about which something is known counts.
var hostSchemes = [...]string{"https://", "http://"}

// fillHosts joins the names of hosts with RobotsCache by the keys of their origins, and then the origins by host.
func fillHosts(j *job) error {
	wanted, err := j.hostOrigins()
	if err != nil {
		return err
	}
	found := j.sorter() // host key, name, rank of the origin, host data
	var rec []byte
	add := func(value, data []byte) error {
		rank := value[0]
		if data == nil {
			rank += byte(len(hostSchemes)) // nothing is known
		}
		_, host, err := state.DecodeName(value[1:])
		if err != nil {
			return err
		}
		rec = binary.AppendUvarint(binary.BigEndian.AppendUint64(rec[:0], j.Hasher.HostKey(host)), uint64(len(value)-1))
		return found.Add(append(append(append(rec, value[1:]...), rank), data...))
	}
	rest := func(key uint64) error { // the origins before key are not in RobotsCache
		for ; wanted.ok && wanted.key < key; err = wanted.next() {
			if err := add(wanted.value, nil); err != nil {
				return err
			}
		}
		return err
	}
	if err := j.eachOrigin(func(key uint64, h *robots.HostData) error {
		if err := rest(key); err != nil {
			return err
		}
		for ; wanted.ok && wanted.key == key; err = wanted.next() {
			if err := add(wanted.value, h.Append(nil)); err != nil {
				return err
			}
		}
		return err
	}); err != nil {
		return err
	}
	for ; wanted.ok; err = wanted.next() {
		if err := add(wanted.value, nil); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	paid, err := j.payments()
	if err != nil {
		return err
	}
	return j.writeHosts(found, paid)
}

// hostOrigins returns a cursor over the origins of all hosts by key: the number of the scheme, and the name.
func (j *job) hostOrigins() (*cursor, error) {
	s := j.sorter()
	var rec, origin, form []byte
	j.meter.Set(state.NameNames)
	names, err := j.names()
	for ; err == nil && names.ok; err = names.next() {
		if isPLD(names.value) {
			continue
		}
		_, host, err := state.DecodeName(names.value)
		if err != nil {
			return nil, err
		}
		for i, scheme := range hostSchemes {
			origin = append(append(append(origin[:0], scheme...), host...), '/')
			form = weburl.AppendOrigin(form[:0], origin)
			rec = append(binary.BigEndian.AppendUint64(rec[:0], j.Hasher.OriginKey(form)), byte(i))
			if err := s.Add(append(rec, names.value...)); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return sorted(s)
}

// writeHosts writes the first record of each host.
func (j *job) writeHosts(found *extsort.Sorter, paid *cursor) error {
	if err := found.Sort(); err != nil {
		return err
	}
	var last []byte
	for {
		rec, err := found.Next()
		if err != nil {
			return err
		}
		if rec == nil {
			return found.Close()
		}
		n, w := binary.Uvarint(rec[8:])
		name, data := rec[8+w:8+w+int(n)], rec[8+w+int(n)+1:]
		if bytes.Equal(name, last) {
			continue
		}
		last = append(last[:0], name...)
		payments, err := hostPayments(paid, binary.BigEndian.Uint64(rec), name)
		if err == nil {
			err = j.writeHost(name, data, payments)
		}
		if err != nil {
			return err
		}
	}
}

// hostPayments moves the cursor past a host, and returns the values of the host; nil if it never asked for payment.
func hostPayments(paid *cursor, key uint64, name []byte) (v []tabular.Value, err error) {
	_, host, err := state.DecodeName(name)
	for err == nil && paid.ok && paid.key <= key {
		var of string
		var values []tabular.Value
		if of, values, err = paymentsOf(paid); of == string(host) {
			v = values
		}
	}
	return v, err
}

// writeHost writes the row of a host, with its data, empty if nothing is known, and its payments.
func (j *job) writeHost(name, data []byte, payments []tabular.Value) error {
	pld, host, err := state.DecodeName(name)
	if err != nil {
		return err
	}
	v := make([]tabular.Value, 5+len(signalColumns)+len(paymentColumns)) // the rest is null
	copy(v[5+len(signalColumns):], payments)
	v[0], v[1] = tabular.Text(host), tabular.Text(pld)
	if len(data) > 0 {
		var h robots.HostData
		if err := h.Decode(data); err != nil {
			return err
		}
		v[2], v[3] = tabular.Str(h.State.String()), timeOrNull(h.Fetched)
		if d := h.CrawlDelay(); d > 0 {
			v[4] = tabular.Float(d.Seconds())
		}
		said, err := signalsOf(&h)
		if err != nil {
			return err
		}
		copy(v[5:], said)
	}
	return j.write(v...)
}
