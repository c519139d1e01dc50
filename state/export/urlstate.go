package export

import (
	"encoding/binary"
	"fmt"
	"time"

	"drumbeat/internal/revisit"
	"drumbeat/internal/tabular"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// stateTable has a row for each URL that was visited, was refused or waits: when, how often and with what result, and
// when it is due. Rows are sorted by the keys of PLDs.
func stateTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "url_host_name", Type: tabular.String, Few: true},
			{Name: "url_host_registered_domain", Type: tabular.String, Few: true}, // the PLD
			{Name: "place", Type: tabular.String, Few: true},
			{Name: "first_seen", Type: tabular.Time, Nullable: true},
			{Name: "last_visit", Type: tabular.Time, Nullable: true},
			{Name: "next_due", Type: tabular.Time, Nullable: true},
			{Name: "visits", Type: tabular.Int64},
			{Name: "changes", Type: tabular.Int64},
			{Name: "interval", Type: tabular.Int64, Nullable: true}, // seconds
			{Name: "fetch_status", Type: tabular.Int64, Nullable: true},
			{Name: "content_digest", Type: tabular.String, Nullable: true},
			{Name: "fetch_redirect", Type: tabular.String, Nullable: true},
			{Name: "reason", Type: tabular.String, Nullable: true, Few: true},
			// PLDs that link to the PLD, as STAR has counted them.
			{Name: "pld_indegree", Type: tabular.Int64, Nullable: true},
			// Of stored pages; null without Options.CountLinks.
			{Name: "inlinks", Type: tabular.Int64, Nullable: true},
			{Name: "host_plds", Type: tabular.Int64, Nullable: true}, // other PLDs that link to its host
		},
		files: func(j *job) ([]string, error) {
			st, err := part[star.State](j, state.NameStar)
			if err != nil {
				return nil, err
			}
			var all []string
			for _, of := range []func(*job) ([]string, error){indexFiles, queueFiles,
				func(j *job) ([]string, error) { return logFiles(j, crawlLog()) },
				func(j *job) ([]string, error) { return j.pldFiles(st), nil }} {
				files, err := of(j)
				if err != nil {
					return nil, err
				}
				all = append(all, files...)
			}
			return all, nil
		},
		fill:  fillState,
		logs:  []string{logDir, "warc"},
		parts: []string{"state", logDir},

		indexed: true,
	}
}

// urlState is the row of a URL in the making.
type urlState struct {
	pld, host       uint64 // keys
	url             []byte
	now             pageNow
	place           string
	reason          string
	first, last     int64 // Unix ms; 0: none
	due             int64 // Unix ms; 0: none
	visits, changes int64
	interval        int64 // seconds; 0: none
	status          int64
	digest          []byte
	redirect        []byte
	inlinks         int64
	hostPLDs        int64
	linked          bool // all that is known: there are links to it
}

// stateGroupBytes is the length of the keys of PLD and host before that of the URL.
const stateGroupBytes = 2 * 8

// fillState sorts responses, refusals and waiting URLs by PLD, host, URL and time, and writes a row for each URL.
func fillState(j *job) error {
	s := &visitScan{j: j, sorter: j.sorter(), group: func(dst, url []byte) []byte {
		host := weburl.Split(url).Host
		dst = binary.BigEndian.AppendUint64(dst, j.PLDKey(host))
		return binary.BigEndian.AppendUint64(dst, j.Hasher.HostKey(host))
	}}
	if err := s.scan(); err != nil {
		return err
	}
	if err := s.waiting(); err != nil {
		return err
	}
	hosts, err := s.linked()
	if err != nil {
		return err
	}
	j.meter.Set("sorting URLs")
	st, err := part[star.State](j, state.NameStar)
	if err != nil {
		return err
	}
	known, err := j.knownPLDs(st)
	if err != nil {
		return err
	}
	var u urlState
	write := func() error {
		if u.linked {
			return nil
		}
		p, is, err := known(u.pld)
		if err != nil {
			return err
		}
		return j.writeState(&u, &p, is)
	}
	begun := false
	err = s.each(stateGroupBytes, func(v *visit, rec []byte, first bool) error {
		if first && begun {
			if err := write(); err != nil {
				return err
			}
		}
		if first {
			pld, host := binary.BigEndian.Uint64(rec), binary.BigEndian.Uint64(rec[8:])
			if hosts != nil && (!begun || pld != u.pld || host != u.host) {
				if u.hostPLDs, err = hosts.of(pld, host); err != nil {
					return err
				}
			}
			begun = true
			u.reset(pld, host, v.texts[visitURL])
		}
		return u.take(v)
	})
	if err == nil && begun {
		err = write()
	}
	return err
}

// waiting adds the URLs that wait. Their records follow the visits: the reason has the place, the digest the record.
func (s *visitScan) waiting() error {
	var v visit
	return s.j.eachWaiting(func(at state.Spot, data []byte) error {
		var r weburl.Record
		if err := r.Decode(data); err != nil {
			return fmt.Errorf("export: a record of %s: %w", at.Place, err)
		}
		h, err := state.HistoryOf(&r)
		if err != nil {
			return err
		}
		v = visit{at: atEnd, numbers: [...]int64{visitKind: isWaiting, waitingFound: r.Found,
			waitingReason: int64(r.Reason), waitingLast: h.Last, waitingVisits: int64(h.Visits),
			waitingInterval: int64(h.Interval), numVisit - 1: 0}}
		switch {
		case at.Place == state.PlaceDeferred:
			v.numbers[waitingDue] = state.Due(&r, at.Due).UnixMilli()
		case revisit.Visited(r.Visits):
			v.numbers[waitingDue] = h.Due().UnixMilli()
		}
		v.texts[visitURL], v.texts[waitingPlace] = r.URL, []byte(at.Place.String())
		if s.plans {
			v.texts[waitingPlan] = r.Visits
		}
		return s.add(&v)
	})
}

// linked adds the links of stored pages. It sums in RAM, and passes the sums on when there are many. It returns the
// PLDs that link to each host; nil without Options.CountLinks.
func (s *visitScan) linked() (*hostPLDs, error) {
	if !s.j.opt.CountLinks {
		return nil, nil
	}
	hosts := newHostPLDs(s.j)
	sums, bytes := map[string]int64{}, int64(0)
	flush := func() error {
		for url, n := range sums {
			v := visit{at: atEnd, numbers: [...]int64{visitKind: isLinked, visitStatus: n, numVisit - 1: 0}}
			v.texts[visitURL] = []byte(url)
			if err := s.add(&v); err != nil {
				return err
			}
		}
		clear(sums)
		bytes = 0
		return nil
	}
	if err := s.j.eachLink(false, func(l *linkRow) error {
		if sums[string(l.to)]++; sums[string(l.to)] == 1 {
			bytes += sumBytes + int64(len(l.to))
		}
		if bytes >= s.j.opt.RAMBytes/8 {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := hosts.add(l); err != nil {
			return err
		}
		return s.j.live()
	}); err != nil {
		return nil, err
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return hosts, hosts.sort()
}

// Numbers and texts of a URL that waits, in a visit.
const (
	waitingFound    = visitStatus
	waitingReason   = visitFlags
	waitingLast     = visitFile // Unix seconds
	waitingVisits   = visitOffset
	waitingInterval = visitLength
	waitingDue      = visitBatch // Unix ms

	waitingPlace = visitReason
	waitingPlan  = visitDigest // weburl.Record.Visits, if visitScan.plans
)

// reset begins a URL. It keeps what is known of its host.
func (u *urlState) reset(pld, host uint64, url []byte) {
	u.now.reset()
	*u = urlState{pld: pld, host: host, hostPLDs: u.hostPLDs, url: append(u.url[:0], url...), now: u.now, linked: true,
		place: state.PlaceFetched.String(), digest: u.digest[:0], redirect: u.redirect[:0]}
}

// take adds a record of the URL.
func (u *urlState) take(v *visit) error {
	n := &v.numbers
	if n[visitKind] == isLinked {
		u.inlinks += n[visitStatus]
		return nil
	}
	u.linked = false
	if n[visitKind] == isWaiting {
		u.place, u.reason, u.due = string(v.texts[waitingPlace]), state.Reason(n[waitingReason]).String(), n[waitingDue]
		if n[waitingFound] > 0 {
			u.first = n[waitingFound] * 1000
		}
		// Responses may lie in WARC files that were moved away.
		if n[waitingLast] > 0 {
			u.last, u.interval = max(u.last, n[waitingLast]*1000), n[waitingInterval]
			u.visits = max(u.visits, n[waitingVisits]+1)
		}
		return nil
	}
	if u.first == 0 {
		u.first = v.at
	}
	if what := u.now.take(v); what != changeNone && what != changeUnchanged && u.visits > 0 {
		u.changes++
	}
	if n[visitKind] == isRefusal {
		u.place, u.reason = state.PlaceRefused.String(), string(v.texts[visitReason])
		return nil
	}
	u.visits++
	u.place, u.reason = state.PlaceFetched.String(), ""
	u.last, u.status = v.at, n[visitStatus]
	u.digest = append(u.digest[:0], v.texts[visitDigest]...)
	u.redirect = append(u.redirect[:0], v.texts[visitRedirect]...)
	return nil
}

func (j *job) writeState(u *urlState, p *star.PLD, known bool) error {
	v := j.row
	host := weburl.Split(u.url).Host
	v[0], v[1], v[2] = tabular.Text(u.url), tabular.Text(host), tabular.Text(j.Suffixes.PLDBytes(host))
	v[3] = tabular.Str(u.place)
	v[4], v[5], v[6] = millisOrNull(u.first), millisOrNull(u.last), millisOrNull(u.due)
	v[7], v[8], v[9], v[10] = tabular.Int(u.visits), tabular.Int(u.changes), positive(u.interval), positive(u.status)
	v[11], v[12], v[13] = textOrNull(u.digest), textOrNull(u.redirect), tabular.StrOrNull(u.reason)
	if v[14] = tabular.Null; known {
		v[14] = tabular.Int(int64(p.Indegree))
	}
	if v[15], v[16] = tabular.Null, tabular.Null; j.opt.CountLinks {
		v[15], v[16] = tabular.Int(u.inlinks), tabular.Int(u.hostPLDs)
	}
	return j.write(v...)
}

// millisOrNull is a time of Unix ms; 0 is null.
func millisOrNull(millis int64) tabular.Value {
	if millis <= 0 {
		return tabular.Null
	}
	return tabular.At(time.UnixMilli(millis))
}

// positive is a number; 0 is null.
func positive(n int64) tabular.Value {
	if n <= 0 {
		return tabular.Null
	}
	return tabular.Int(n)
}

// textOrNull is a text; the empty one is null.
func textOrNull(b []byte) tabular.Value {
	if len(b) == 0 {
		return tabular.Null
	}
	return tabular.Text(b)
}
