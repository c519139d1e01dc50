package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/drum"

	"drumbeat/star"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// maxHostOrigins bounds the origins of a host that are reported.
const maxHostOrigins = 16

// maxHostIndexBytes bounds the index lines of a host that are counted, in each file.
const maxHostIndexBytes = 64 << 20

// hostAsked is a host with what is known of it so far.
type hostAsked struct {
	rep     *HostReport
	origins []string
	queues  map[int64]int64
}

// Hosts answers for each of some hosts, given as names, addresses, either with a port, or URLs.
func (e *Explainer) Hosts(asked []string) (reports []*HostReport, err error) {
	var hosts []*hostAsked
	err = e.with(
		func(v *explainView) []string {
			hosts = hosts[:0]
			for _, a := range asked {
				hosts = append(hosts, v.askHost(a))
			}
			return v.hostFiles(hosts)
		},
		func(v *explainView) error { return v.explainHosts(hosts) })
	for _, h := range hosts {
		reports = append(reports, h.rep)
	}
	return reports, err
}

// askHost begins an answer: the origins are http and https at their own ports, and at the one that was asked for.
func (v *explainView) askHost(asked string) *hostAsked {
	h := &hostAsked{rep: &HostReport{Asked: asked}}
	url, err := v.r.canonicalAsked(asked)
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

func (v *explainView) hostFiles(hosts []*hostAsked) []string {
	var origins, plds []drum.Key
	for _, h := range hosts {
		for _, o := range h.origins {
			origins = append(origins, drum.Key(v.r.hasher.OriginKey([]byte(o))))
		}
		plds = append(plds, drum.Key(v.r.pldKey([]byte(h.rep.Host))))
	}
	names := v.keyFiles(nil, origins, plds)
	if v.opt.Fast {
		return names
	}
	cache := *v.cache
	cache.Parts = nil
	return append(append(names, drum.Files(v.r.set, nameRobotsCache, &cache)...), v.scannedFiles()...)
}

// explainHosts fills in the answers.
func (v *explainView) explainHosts(hosts []*hostAsked) error {
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
			rep.Site = v.site(v.r.suffixes.PLD(rep.Host), check, damaged)
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
		}
	}
	for _, h := range hosts {
		if h.rep.Error == "" && check != nil {
			if err := v.asking(asking, v.damaged(&h.rep.Damage)); err != nil {
				return err
			}
			break // once for all
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

// countHosts reads all places and counts the URLs of the hosts.
func (v *explainView) countHosts(byHost map[string][]*hostAsked) error {
	p := v.r.startProgress(&AuditOptions{Progress: v.opt.Progress, ProgressEvery: v.opt.ProgressEvery}, "state")
	defer p.end()
	var damage []string
	damaged := v.damaged(&damage)
	for _, list := range byHost {
		for _, h := range list {
			h.rep.Places, h.rep.Later, h.queues = map[string]int64{}, map[string]int64{}, map[int64]int64{}
		}
	}
	visit := func(at spot, data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return damaged(err)
		}
		list := byHost[string(weburl.Split(rec.URL).Host)]
		for _, h := range list {
			h.count(at, &rec)
		}
		return nil
	}
	err := star.WalkChecks(v.r.set, nameStar, v.star, func(aux []byte) error { return visit(spot{place: PlaceStar}, aux) })
	_ = damaged(err)
	cache := *v.cache
	cache.Parts = nil
	_, err = drum.ScanState(v.r.set, nameRobotsCache, &cache, drum.Scan{
		Tuple: func(t drum.Tuple) error {
			if t.Op != drum.Check {
				return nil
			}
			return visit(spot{place: PlaceRobotsCheck}, t.Value)
		},
		Damaged: damaged,
	})
	if err == nil {
		err = v.scan(visit, damaged)
	}
	if err != nil && !errors.Is(err, errEnough) {
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

// count takes a URL of the host.
func (h *hostAsked) count(at spot, rec *weburl.Record) {
	rep := h.rep
	rep.Places[at.place.String()]++
	switch at.place {
	case PlaceBeast:
		h.queues[int64(at.queue)]++
	case PlaceLater:
		rep.Later[Reason(rec.Reason).String()]++
		if due := time.UnixMilli(at.due).UTC(); rep.NextDue.IsZero() || due.Before(rep.NextDue) {
			rep.NextDue = due
		}
	}
	h.addOrigin(rec.URL)
	if rep.Queues == nil {
		rep.Queues = h.queues
	}
}

// addOrigin notes the origin of a URL of the host: another port than those that were asked for.
func (h *hostAsked) addOrigin(url []byte) {
	if len(h.origins) < maxHostOrigins {
		if origin := string(weburl.Origin(url)); !slices.Contains(h.origins, origin) {
			h.origins = append(h.origins, origin)
		}
	}
}

// countStored counts the host's responses in the indexes.
func (v *explainView) countStored(h *hostAsked, damaged func(error) error) {
	if v.r.out.Len() == 0 {
		return
	}
	n := int64(0)
	err := warc.FindHost(v.r.warcOptions(), v.warc, "http://"+h.rep.Host+"/", maxHostIndexBytes, func(url string) bool {
		if bytes.Equal(weburl.Split([]byte(url)).Host, []byte(h.rep.Host)) { // an index calls www.x.test x.test
			n++
			h.addOrigin([]byte(url))
		}
		return false
	}, damaged)
	_ = damaged(err)
	h.rep.Stored = &n
}

// tidy leaves out what says nothing.
func (rep *HostReport) tidy() {
	if len(rep.Queues) > MaxHostQueues {
		numbers := make([]int64, 0, len(rep.Queues))
		for n := range rep.Queues {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers[MaxHostQueues:] {
			delete(rep.Queues, n)
		}
	}
	rep.Origins = slices.DeleteFunc(rep.Origins, func(o *OriginReport) bool {
		return o.State == "none" && o.Asked.IsZero() && o.Asking == "" && o.WaitingURLs+o.WaitingAnswers == 0
	})
}

// concludeHost says in words what the fields say.
func (v *explainView) concludeHost(rep *HostReport) {
	say := func(format string, args ...any) { rep.Why = append(rep.Why, fmt.Sprintf(format, args...)) }
	if len(rep.Origins) == 0 {
		say("robots.txt of %s was never asked for", rep.Host)
	}
	for _, o := range rep.Origins {
		switch o.State {
		case "unreachable":
			say("%s: robots.txt can't be had (%d failures); nothing is fetched, the next request is made from %s on", o.Origin, o.Failures, v.when(o.RetryAt))
		case "no host", "forbidden":
			say("%s: can't be reached: %s, until %s", o.Origin, o.State, v.when(o.Expires))
		case "none":
			say("%s: nothing is known yet%s", o.Origin, v.askingText(o))
		}
	}
	for _, o := range rep.Origins {
		if o.Health != nil {
			say("its health: %s", o.Health.Text)
			break // one for all origins
		}
	}
	for _, d := range rep.Delays {
		say("%s rests until %s", d.Who, v.when(d.Until))
	}
	if v.opt.Fast {
		say("its URLs were not counted (--fast)")
		return
	}
	waiting := int64(0)
	var parts []string
	for p := range numPlaces {
		if n := rep.Places[p.String()]; n > 0 {
			waiting += n
			parts = append(parts, fmt.Sprintf("%s %d", p, n))
		}
	}
	if waiting == 0 {
		say("no URL of it waits")
	} else {
		say("%d URLs of it wait: %s", waiting, strings.Join(parts, ", "))
	}
}
