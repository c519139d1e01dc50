package export

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// robotsTable has a row for each origin in RobotsCache. The cache knows keys only: the names of origins come
// from the names of hosts, and those on other ports from the log of requests for robots.txt.
func robotsTable() table {
	return table{
		columns: append([]tabular.Column{
			// Without a default port; null if no name has its key.
			{Name: "origin", Type: tabular.String, Nullable: true},
			{Name: "state", Type: tabular.String, Few: true},
			{Name: "stale", Type: tabular.Bool},
			{Name: "fetched", Type: tabular.Time, Nullable: true},
			{Name: "expires", Type: tabular.Time, Nullable: true},
			{Name: "failures", Type: tabular.Int64},
			{Name: "crawl_delay", Type: tabular.Float64, Nullable: true}, // seconds
		}, signalColumns...),
		files: func(j *job) ([]string, error) {
			files, err := nameFiles(j)
			if err != nil {
				return nil, err
			}
			st, err := part[drum.State](j, state.NameRobotsCache)
			if err != nil {
				return nil, err
			}
			more, err := logFiles(j, robotsLog())
			return append(append(files, drum.Files(j.Set, state.NameRobotsCache, st)...), more...), err
		},
		fill:  fillRobots,
		logs:  []string{logDir},
		parts: []string{"state/" + state.NameNames, "state/" + state.NameRobotsCache},
	}
}

func fillRobots(j *job) error {
	origins, err := j.origins()
	if err != nil {
		return err
	}
	err = j.eachOrigin(func(key uint64, h *robots.HostData) error { return j.writeRobots(key, h, origins) })
	if err == nil && j.unnamed > 0 {
		j.note("%s no name: the log of robots.txt requests, or a part of it, is not there",
			human.Counted(j.unnamed, "origin has", "origins have"))
	}
	return err
}

// eachOrigin calls fn with what RobotsCache knows of each origin, in the order of their keys.
func (j *job) eachOrigin(fn func(key uint64, h *robots.HostData) error) error {
	st, err := part[drum.State](j, state.NameRobotsCache)
	if err != nil {
		return err
	}
	updates, err := j.robotsUpdates(st)
	if err != nil {
		return err
	}
	agent, policy := "", health.Defaults()
	if run := j.Manifest.Run; run != nil {
		agent = run.Agent
	}
	now := j.report.Time.Add(time.Second) // the manifest has whole seconds
	j.meter.Set(state.NameRobotsCache)
	cache, err := j.scanned(func(fn func(uint64, []byte) error) error {
		_, err := drum.ScanState(j.Set, state.NameRobotsCache, st.Cache(),
			drum.Scan{Entry: func(key drum.Key, value []byte) error {
				return fn(uint64(key), value)
			}})
		return err
	})
	if err != nil {
		return err
	}
	for cache.ok || updates.ok {
		var h robots.HostData
		key := updates.key
		if cache.ok && (!updates.ok || cache.key <= key) {
			key = cache.key
			if err := h.Decode(cache.value); err != nil {
				return err
			}
			h.Rules, h.Signals = bytes.Clone(h.Rules), bytes.Clone(h.Signals)
			h.Reservations = bytes.Clone(h.Reservations)
			if err := cache.next(); err != nil {
				return err
			}
		}
		for updates.ok && updates.key == key {
			u, err := robots.DecodeUpdate(append([]byte(nil), updates.value[8:]...)) // u keeps slices of its input
			if err != nil {
				return err
			}
			h = u.Apply(key, &h, &policy, agent, now)
			if err := updates.next(); err != nil {
				return err
			}
		}
		if h.State == robots.StateNone && h.Fetched.IsZero() && h.Failures == 0 {
			continue // known only for the health of its host or its pages
		}
		if err := fn(key, &h); err != nil {
			return err
		}
	}
	return nil
}

// writeRobots writes the row of an origin.
func (j *job) writeRobots(key uint64, h *robots.HostData, origins *cursor) error {
	origin, delay := tabular.Null, tabular.Null
	if known, err := origins.seek(key); err != nil {
		return err
	} else if known {
		origin = tabular.Text(origins.value)
	} else {
		j.unnamed++
	}
	if d := h.CrawlDelay(); d > 0 {
		delay = tabular.Float(d.Seconds())
	}
	said, err := signalsOf(h)
	if err != nil {
		return err
	}
	return j.write(append([]tabular.Value{origin, tabular.Str(h.State.String()), tabular.Truth(h.Stale),
		timeOrNull(h.Fetched), timeOrNull(h.Expires), tabular.Int(int64(h.Failures)), delay}, said...)...)
}

// signalColumns have what robots.txt and tdmrep.json say about the use of pages. They are null without these.
var signalColumns = []tabular.Column{
	{Name: "robots_digest", Type: tabular.String, Nullable: true},
	{Name: "robots_group", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_signal", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_usage", Type: tabular.String, Nullable: true, Few: true},
	{Name: "license", Type: tabular.String, Nullable: true},
	{Name: "ai_groups", Type: tabular.String, Nullable: true, Few: true},
	{Name: "ai_disallowed", Type: tabular.String, Nullable: true, Few: true},
	{Name: "rights_cut", Type: tabular.String, Nullable: true, Few: true},
	{Name: "tdm_file", Type: tabular.String, Nullable: true, Few: true}, // the rules of tdmrep.json
}

// signalsOf returns the values of signalColumns.
func signalsOf(h *robots.HostData) ([]tabular.Value, error) {
	texts, err := signalTexts(h)
	if err != nil {
		return nil, err
	}
	v := make([]tabular.Value, len(texts))
	for i, text := range texts {
		v[i] = tabular.StrOrNull(text)
	}
	return v, nil
}

// signalTexts returns the texts in signalColumns; "" is null.
func signalTexts(h *robots.HostData) (texts [9]string, err error) {
	r, err := robots.DecodeReservations(h.Reservations)
	if err != nil {
		return texts, err
	}
	var rules []string
	for i := range r.Rules {
		rules = append(rules, r.Rules[i].Text())
	}
	if texts[8] = strings.Join(rules, "; "); r.Cut {
		texts[7] = "yes"
	}
	if h.Group == robots.GroupUnknown {
		return texts, nil
	}
	l, err := h.Statement([]byte("/"))
	if err != nil {
		return texts, err
	}
	s, err := robots.DecodeSignals(h.Signals)
	if err != nil {
		return texts, err
	}
	var usages []string
	for _, u := range s.Usages {
		usages = append(usages, strings.TrimPrefix(u.Path()+" "+string(u.Preferences), " "))
	}
	var groups robots.Bots
	for _, g := range s.Bots {
		groups |= g.Bots
	}
	if s.Cut {
		texts[7] = "yes"
	}
	return [...]string{l.DigestText(), h.Group.String(), string(s.ContentSignal), strings.Join(usages, "; "),
		strings.Join(s.Licenses, " "), strings.Join(groups.Names(), ", "), strings.Join(l.Disallowed.Names(), ", "),
		texts[7], texts[8]}, nil
}

// robotsUpdates returns a cursor over the updates of origins that wait for their merge, in their order.
func (j *job) robotsUpdates(st *drum.State) (*cursor, error) {
	s := j.sorter()
	var rec []byte
	_, err := drum.ScanState(j.Set, state.NameRobotsCache, st.Waiting(), drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op == drum.Check {
			return nil
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], uint64(t.Key)), uint64(s.N()))
		return s.Add(append(rec, t.Value...))
	}})
	if err != nil {
		return nil, err
	}
	return sorted(s)
}

// origins returns a cursor over the names of origins by key.
func (j *job) origins() (*cursor, error) {
	s := j.sorter()
	var rec, form, origin []byte
	add := func(origin []byte) error {
		form = weburl.AppendOrigin(form[:0], origin)
		rec = append(binary.BigEndian.AppendUint64(rec[:0], j.Hasher.OriginKey(form)), origin...)
		return s.Add(rec)
	}
	err := j.scanLog(robotsLog(), func(e *crawllog.Entry) error {
		if o, ok := strings.CutSuffix(e.URL, "/robots.txt"); ok && strings.Count(o, "/") == 2 {
			return add([]byte(o))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	j.meter.Set(state.NameNames)
	names, err := j.names()
	for ; err == nil && names.ok; err = names.next() {
		if isPLD(names.value) {
			continue
		}
		for _, scheme := range []string{"http://", "https://"} {
			origin = append(append(origin[:0], scheme...), names.value[1:]...)
			if err := add(origin); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return sorted(s)
}
