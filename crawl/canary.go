package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// Many failures at once may be an outage of ours, or servers that ban us, die together, or mean to slow the crawl down. Canaries
// decide: servers that answered a while ago and aren't among those that fail. They are asked for their robots.txt, as politely as ever.
// One answer proves that the network works.

// knownServers is the size of the table of servers that have answered; a collision forgets the older one.
const knownServers = 8192

// knownFor is for how long an answer makes a server known.
const knownFor = time.Hour

// blindBelow is how many servers must be known before failures of unknown ones are left out of account; and how many networks, before
// all servers of one are a single source.
const blindBelow = 16

// canaries is how many origins that have answered are remembered. Each has its place by its server, so that those which
// answered last, and may be failing now, don't displace all others.
const canaries = 64

// canaryGoodFor is for how long the word of a canary is good; canariesAtOnce how many are asked at once; canaryRetryEvery is when some are looked for
// again if none could be asked, since their delays hadn't passed.
const (
	canaryGoodFor    = time.Minute
	canariesAtOnce   = 3
	canaryRetryEvery = 2 * time.Second
)

// known remembers servers that have answered. Bounded.
type known struct {
	mu       sync.Mutex // guards all below
	table    [knownServers]knownServer
	number   int
	origins  [canaries]canary
	networks int       // of origins
	asking   bool      // somebody asks the canaries
	asked    time.Time // one answered last
}

type knownServer struct {
	key uint64
	at  int64 // Unix seconds
}

// canary is an origin that answered.
type canary struct {
	https bool
	host  string
	port  uint16
	addr  netip.Addr
	key   uint64 // of its server; 0: none
	net   uint64 // of its network
	at    time.Time
	tried time.Time // it was asked last
	fails bool      // an exchange with its server has failed since
}

// origin is scheme://host:port.
func (v *canary) origin() string {
	scheme := "http"
	if v.https {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, v.host, v.port)
}

// is says whether a server answered within knownFor; blind whether too few did to leave others out of account; any whether one did.
func (k *known) is(key uint64, now time.Time) (known, blind, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.table[key%knownServers]
	return s.key == key && now.Unix()-s.at < int64(knownFor/time.Second), k.number < blindBelow, k.number > 0
}

func (k *known) answered(v canary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.table[v.key%knownServers]
	if s.key == 0 {
		k.number++
	}
	*s = knownServer{key: v.key, at: v.at.Unix()}
	o := &k.origins[v.key%canaries]
	old := o.net
	if o.key == v.key {
		v.tried = o.tried
	}
	if *o = v; old == v.net {
		return
	}
	seen := make([]uint64, 0, canaries)
	for i := range k.origins {
		if o := &k.origins[i]; o.key != 0 && !slices.Contains(seen, o.net) {
			seen = append(seen, o.net)
		}
	}
	k.networks = len(seen)
}

// failed notes that an exchange with a server failed in a way that could be ours.
func (k *known) failed(key uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := &k.origins[key%canaries]; o.key == key {
		o.fails = true
	}
}

// unfit takes a server from the canaries until it answers again.
func (k *known) unfit(key uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := &k.origins[key%canaries]; o.key == key {
		*o = canary{}
	}
}

// none says whether no server has answered.
func (k *known) none() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.number == 0 }

// wide says whether so many networks are known that each is one source.
func (k *known) wide() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.networks >= blindBelow
}

// others returns the origins apart from a source that may be asked: those first that don't fail, and of these the ones that were asked
// longest ago. any says whether there are some at all.
func (k *known) others(source uint64, may func(host []byte) bool) (list []canary, any bool) {
	k.mu.Lock()
	for i := range k.origins {
		if o := &k.origins[i]; o.key != 0 && o.key != source && o.net != source {
			list = append(list, *o)
		}
	}
	k.mu.Unlock()
	any = len(list) > 0
	list = slices.DeleteFunc(list, func(v canary) bool { return !may([]byte(v.host)) })
	slices.SortFunc(list, func(a, b canary) int {
		switch {
		case a.fails != b.fails:
			return boolOrder(a.fails)
		case !a.tried.Equal(b.tried):
			return a.tried.Compare(b.tried)
		}
		return b.at.Compare(a.at)
	})
	return list, any
}

// boolOrder sorts what is true behind what isn't.
func boolOrder(last bool) int {
	if last {
		return 1
	}
	return -1
}

// begin says whether the caller may ask the canaries: nobody else does. end ends it.
func (k *known) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	free := !k.asking
	k.asking = true
	return free
}

func (k *known) end() { k.mu.Lock(); k.asking = false; k.mu.Unlock() }

// fresh says whether a canary answered within canaryGoodFor.
func (k *known) fresh(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.asked.IsZero() && now.Sub(k.asked) < canaryGoodFor
}

// note notes that one was asked, and whether it answered.
func (k *known) note(v *canary, answered bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := &k.origins[v.key%canaries]; o.key == v.key {
		o.tried = now
	}
	if answered {
		k.asked = now
	}
}

// vouched is true when other servers than this one answered within canaryGoodFor, or none of those that are known may be asked. If none is
// known at all, the URL's own second failure (again) has to do, but not soon after a restart. Otherwise some are asked, and the next
// failure will know.
func (o *outages) canaryAnswered(again bool, source uint64) bool {
	list, any := o.canariesFor(source)
	if len(list) == 0 {
		return any || again && !o.silent(time.Now())
	}
	fresh := o.known.fresh(time.Now())
	if !fresh && o.known.begin() {
		o.fetchers.Add(1) // the caller is one of them, or a stage, which are waited for first
		go func() {
			defer o.fetchers.Done()
			defer o.fatal()
			defer o.known.end()
			o.askCanaries(o.running, list)
		}()
	}
	return fresh
}

// silent is true while nothing has answered since the program was started again, for monitorPatience at most: it may have been started
// in an outage, or because of one, and the servers that could tell are forgotten.
func (o *outages) silent(now time.Time) bool {
	return o.counter(state.CountResponses) > 0 && o.known.none() && now.Sub(o.began) < o.faultWaits.patience
}

func (o *outages) canariesFor(source uint64) (list []canary, any bool) {
	return o.known.others(source, func(host []byte) bool { return o.mayBeCanary(host) && !o.rules.BlockedHost(host) })
}

// mayVouch is false for a host that rests, even for a moment: package polite forgets short rests when the program ends, the table of
// hosts in trouble does not.
func (o *outages) mayBeCanary(host []byte) bool {
	now := time.Now()
	s := o.health.stateOf(o.HostKey(host), now)
	return s.End == health.Open && !now.Before(s.Until)
}

// askVouchers asks canariesAtOnce servers for their robots.txt, those of the list whose turn is now. If none answers, that is an outage; if none
// can be asked, there is no telling.
func (o *outages) askCanaries(ctx context.Context, list []canary) (asked int) {
	for i := range list {
		v := &list[i]
		if asked == canariesAtOnce || ctx.Err() != nil {
			break
		}
		ok, err := o.askCanary(ctx, v)
		if !ok {
			continue
		}
		asked++
		var fe *fetch.Error
		answered := err == nil || errors.As(err, &fe) && !doubtful(fe) && !fe.Ours()
		o.known.note(v, answered, time.Now())
		if answered {
			if was := o.net.answered(time.Now()); was {
				o.tellOutage("network", &o.net)
			}
			return asked
		}
	}
	if asked > 0 && ctx.Err() == nil && o.net.declare(time.Now()) {
		o.tellOutage("network", &o.net)
	}
	return asked
}

// askVoucher asks one, if its turn is now.
func (o *outages) askCanary(ctx context.Context, v *canary) (asked bool, err error) {
	if o.rules.BlockedAddr(v.addr) {
		return false, nil
	}
	url, err := weburl.Canonical(v.origin() + "/robots.txt")
	if err != nil {
		return false, err
	}
	select {
	case o.workers.slots <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	host := []byte(v.host)
	item := &polite.Item{Host: o.HostKey(host), PLD: o.PLDKey(host), Addrs: []netip.Addr{v.addr}, Robots: true}
	g := o.polite.AdmitNow(time.Now(), item)
	if g == nil {
		o.workers.free()
		return false, nil
	}
	resp := o.workers.response()
	defer o.workers.release(resp)
	o.testHook("canary " + url)
	err = o.requests.getGranted(ctx, g, url, resp, nil)
	return !errors.Is(err, errBlocked), err
}

// watchOutages asks canaries while there is an outage, and goes on if they answer: it may be an outage of others.
func (o *outages) watchOutages(ctx context.Context) error {
	for ctx.Err() == nil {
		if !o.slowed() {
			o.await(ctx, o.wakeCanaries, wakeAfter)
			continue
		}
		if o.dns.isDown() {
			o.askNames(ctx, "")
		}
		if !o.net.isDown() {
			sleep(ctx, canaryGoodFor)
			continue
		}
		wait := canaryRetryEvery
		if o.known.begin() {
			list, _ := o.canariesFor(0)
			if o.askCanaries(ctx, list) > 0 {
				wait = canaryGoodFor
			}
			o.known.end()
		}
		if o.net.isDown() {
			sleep(ctx, wait)
		}
	}
	return nil
}
