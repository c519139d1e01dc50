package explain

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// maxHostOrigins limits the reported origins of a host.
const maxHostOrigins = 16

// maxHostIndexBytes limits the index lines read for a host, per index file.
const maxHostIndexBytes = 64 << 20

// hostAsked is a host and its unfinished answer.
type hostAsked struct {
	rep     *HostReport
	origins []string
}

// Hosts explains hosts, given as names or addresses, with or without port, or as URLs.
func (e *Explainer) Hosts(asked []string) (reports []*HostReport, err error) {
	var hosts []*hostAsked
	err = e.with(
		func(v *view) []string {
			hosts = hosts[:0]
			for _, a := range asked {
				hosts = append(hosts, v.askHost(a))
			}
			return v.hostFiles(hosts)
		},
		func(v *view) error { return v.explainHosts(hosts) })
	for _, h := range hosts {
		reports = append(reports, h.rep)
	}
	return reports, err
}

// askHost starts an answer. The origins are http and https at their default ports, and at the port of asked.
func (v *view) askHost(asked string) *hostAsked {
	h := &hostAsked{rep: &HostReport{Asked: asked}}
	url, err := v.canonicalAsked(asked)
	if err != nil {
		h.rep.Error = err.Error()
		return h
	}
	parts := weburl.Split([]byte(url))
	host := string(parts.Host)
	h.rep.Host, h.rep.AsOf = host, &v.asOf
	h.origins = []string{"https://" + host + ":443", "http://" + host + ":80"}
	if parts.Port != 443 && parts.Port != 80 {
		port := ":" + strconv.Itoa(int(parts.Port))
		h.origins = append(h.origins, "https://"+host+port, "http://"+host+port)
	}
	return h
}

func (v *view) hostFiles(hosts []*hostAsked) []string {
	var origins, plds []drum.Key
	for _, h := range hosts {
		for _, o := range h.origins {
			origins = append(origins, drum.Key(v.r.Hasher.OriginKey([]byte(o))))
		}
		plds = append(plds, drum.Key(v.r.PLDKey([]byte(h.rep.Host))))
	}
	names := v.keyFiles(nil, origins, plds)
	if v.opt.Fast {
		return names
	}
	return append(append(names, drum.Files(v.r.Set, state.NameRobotsCache, v.cache.Waiting())...), v.scannedFiles()...)
}

// explainHosts fills in the answers.
func (v *view) explainHosts(hosts []*hostAsked) error {
	byHost := map[string][]*hostAsked{}
	for _, h := range hosts {
		if h.rep.Error == "" {
			byHost[h.rep.Host] = append(byHost[h.rep.Host], h)
		}
	}
	if !v.opt.Fast && len(byHost) > 0 {
		if err := v.countHosts(byHost); err != nil {
			return err
		}
	}
	asking := map[string]*OriginReport{}
	var check func([]byte) error
	if !v.opt.Fast {
		check = func([]byte) error { return nil }
	}
	for _, h := range hosts {
		if rep := h.rep; rep.Error == "" {
			damaged := v.damaged(&rep.Damage)
			rep.Site = v.site(v.r.Suffixes.PLD(rep.Host), check, damaged)
			rep.Settings = v.settingsOf([]byte(rep.Host), nil)
			var addrs []string
			for _, origin := range h.origins {
				o, _ := v.origin(origin, rep.Site.Budget, check, damaged)
				asking[origin] = o
				rep.Origins = append(rep.Origins, o)
				for _, a := range o.Addresses {
					if !slices.Contains(addrs, a) {
						addrs = append(addrs, a)
					}
				}
			}
			var err error
			rep.Delays, err = v.delaysOf(rep.Host, addrs)
			_ = damaged(err)
			rep.Trap, err = v.trap(rep.Host)
			_ = damaged(err)
		}
	}
	for _, h := range hosts {
		if h.rep.Error == "" && check != nil {
			if err := v.asking(asking, v.damaged(&h.rep.Damage)); err != nil {
				return err
			}
			break // one call serves all hosts
		}
	}
	for _, h := range hosts {
		if h.rep.Error == "" {
			h.rep.tidy()
			v.concludeHost(h.rep)
		}
	}
	return nil
}

// countHosts counts the URLs of the hosts in all places.
func (v *view) countHosts(byHost map[string][]*hostAsked) error {
	var damage []string
	damaged := v.damaged(&damage)
	for _, list := range byHost {
		for _, h := range list {
			h.rep.Waiting.begin()
		}
	}
	if err := v.countWaiting(func(at state.Spot, rec *weburl.Record) {
		for _, h := range byHost[string(weburl.Split(rec.URL).Host)] {
			h.rep.Waiting.count(at, rec)
			h.addOrigin(rec.URL)
		}
	}, damaged); err != nil {
		return err
	}
	for _, list := range byHost {
		for _, h := range list {
			v.countStored(h, damaged)
			h.rep.Damage = append(h.rep.Damage, damage...)
		}
	}
	return nil
}

// begin starts to count.
func (w *Waiting) begin() {
	*w = Waiting{Places: map[string]int64{}, Deferred: map[string]int64{}, Queues: map[int64]int64{}}
}

// count counts a URL.
func (w *Waiting) count(at state.Spot, rec *weburl.Record) {
	w.Places[at.Place.String()]++
	switch at.Place {
	case state.PlaceBeast:
		w.Queues[int64(at.Queue)]++
	case state.PlaceDeferred:
		w.Deferred[state.Reason(rec.Reason).String()]++
		if due := state.Due(rec, at.Due); w.NextDue.IsZero() || due.Before(w.NextDue) {
			w.NextDue = due
		}
	}
}

// tidy cuts Queues to MaxHostQueues.
func (w *Waiting) tidy() {
	if len(w.Queues) <= MaxHostQueues {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(w.Queues))[MaxHostQueues:] {
		delete(w.Queues, n)
	}
}

// addOrigin adds the origin of a URL of the host, which may have a port that was not asked for.
func (h *hostAsked) addOrigin(url []byte) {
	if len(h.origins) < maxHostOrigins {
		if origin := string(weburl.Origin(url)); !slices.Contains(h.origins, origin) {
			h.origins = append(h.origins, origin)
		}
	}
}

// countStored counts the host's responses in the indexes.
func (v *view) countStored(h *hostAsked, damaged func(error) error) {
	if v.r.Out.Len() == 0 {
		return
	}
	n := int64(0)
	err := warc.FindHost(v.r.WARCFiles(), v.warc, "http://"+h.rep.Host+"/", maxHostIndexBytes, func(url string) bool {
		// An index key drops a leading "www.", so lines of another host may match.
		if bytes.Equal(weburl.Split([]byte(url)).Host, []byte(h.rep.Host)) {
			n++
			h.addOrigin([]byte(url))
		}
		return false
	}, damaged)
	_ = damaged(err)
	h.rep.Stored = &n
}

// tidy cuts Queues and removes origins without data.
func (rep *HostReport) tidy() {
	rep.Waiting.tidy()
	rep.Origins = slices.DeleteFunc(rep.Origins, func(o *OriginReport) bool {
		return o.State == "none" && o.Asked.IsZero() && o.Asking == "" && o.WaitingURLs+o.WaitingAnswers == 0
	})
}

// concludeHost fills Why from the other fields.
func (v *view) concludeHost(rep *HostReport) {
	say := func(format string, args ...any) { rep.Why = append(rep.Why, fmt.Sprintf(format, args...)) }
	if len(rep.Origins) == 0 {
		say("robots.txt of %s was never requested", rep.Host)
	}
	for _, o := range rep.Origins {
		switch o.State {
		case "unreachable":
			say("%s: robots.txt is unreachable (%s); nothing is fetched; next request from %s",
				o.Origin, o.failed(), v.when(o.RetryAt))
		case "no host", "forbidden":
			say("%s: can't be reached: %s, until %s", o.Origin, o.State, v.when(o.Expires))
		case "none":
			say("%s: nothing is known yet%s", o.Origin, v.askingText(o))
		}
	}
	for _, o := range rep.Origins {
		if o.Health != nil {
			say("its health: %s", o.Health.Text)
			break // all origins share it
		}
	}
	for _, d := range rep.Delays {
		say("%s backs off until %s", d.Who, v.when(d.Until))
	}
	if v.opt.Fast {
		say("its URLs were not counted (--fast)")
		return
	}
	rep.Why = append(rep.Why, rep.Waiting.text())
}
