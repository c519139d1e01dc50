package outage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Many simultaneous failures may be an outage on our side. Or the servers ban us, die together, or try to
// slow the crawl down. Canaries decide: servers that answered a while ago and are not among those that fail.
// They are asked for their robots.txt, as politely as always. One answer proves that the network works.

// knownServers is the size of the table of servers that have answered. A collision replaces the older one.
const knownServers = 8192

// knownFor is how long a server counts as known after an answer.
const knownFor = time.Hour

// blindBelow is the number of servers that must be known before failures of unknown ones are ignored. It is
// also the number of networks that must be known before all servers of a network count as one source.
const blindBelow = 16

// canaries is the number of origins kept as canaries: they have answered. Their servers determine their slots, so that
// the origins that answered last, and may fail now, do not displace all others.
const canaries = 64

// CanaryGoodFor is how long the answer of a canary is valid. canariesAtOnce is the number asked at once. If
// none could be asked because of their delays, the next attempt is canaryRetryEvery later.
const (
	CanaryGoodFor    = time.Minute
	canariesAtOnce   = 3
	canaryRetryEvery = 2 * time.Second
)

// known stores servers that have answered. Its size is fixed.
type known struct {
	mu       sync.Mutex // guards the fields below
	table    [knownServers]knownServer
	number   int
	origins  [canaries]canary
	networks int       // number of different networks in origins
	asking   bool      // a goroutine is asking the canaries
	asked    time.Time // last answer of a canary or a reference
}

type knownServer struct {
	key uint64
	at  int64 // Unix seconds
}

// canary is an origin that has answered.
type canary struct {
	https bool
	host  string
	port  uint16
	addr  netip.Addr
	key   uint64 // of its server; 0 for an empty slot
	net   uint64 // of its network
	at    time.Time
	tried time.Time // last time it was asked
	fails bool      // an exchange with its server has failed since its last answer
}

// origin returns scheme://host:port.
func (v *canary) origin() string {
	scheme := "http"
	if v.https {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, v.host, v.port)
}

// is reports whether a server answered within knownFor (known), whether too few servers are known to ignore
// the others (blind), and whether any server has answered (any).
func (k *known) is(key uint64, now time.Time) (known, blind, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.table[key%knownServers]
	return s.key == key && now.Unix()-s.at < int64(knownFor/time.Second), k.number < blindBelow, k.number > 0
}

// answered records that a server has answered, and its origin as a canary.
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

// failed records that an exchange with a server failed in a way that may be ours.
func (k *known) failed(key uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := &k.origins[key%canaries]; o.key == key {
		o.fails = true
	}
}

// unfit removes a server from the canaries until it answers again.
func (k *known) unfit(key uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := &k.origins[key%canaries]; o.key == key {
		*o = canary{}
	}
}

// none reports whether no server has answered.
func (k *known) none() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.number == 0 }

// wide reports whether enough networks are known to count each as one source.
func (k *known) wide() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.networks >= blindBelow
}

// others returns the canaries outside of a source that may be asked. Canaries without failures come first,
// and among them those that were asked longest ago. any reports whether there are canaries outside of the
// source at all.
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

// boolOrder returns 1 if the first of two elements sorts last, otherwise -1.
func boolOrder(last bool) int {
	if last {
		return 1
	}
	return -1
}

// begin reports whether the caller may ask the canaries, which only one goroutine does at a time. Call end
// afterwards.
func (k *known) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	free := !k.asking
	k.asking = true
	return free
}

func (k *known) end() { k.mu.Lock(); k.asking = false; k.mu.Unlock() }

// fresh reports whether a canary answered within canaryGoodFor.
func (k *known) fresh(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.asked.IsZero() && now.Sub(k.asked) < CanaryGoodFor
}

// proved records that a reference answered.
func (k *known) proved(now time.Time) { k.mu.Lock(); k.asked = now; k.mu.Unlock() }

// note records that a canary was asked and whether it answered.
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

// canaryAnswered reports whether a canary outside of source, or a reference, has answered within
// canaryGoodFor, or a name server if that is enough. If none is fresh, it starts to ask some, and the next
// failure sees the result. It also returns true if there are canaries but none may be asked now; if that is
// because they have not answered, it declares an outage. If there are no canaries at all, the second failure
// of the URL (again) suffices, except soon after a restart.
func (o *Watch) canaryAnswered(again bool, source uint64) bool {
	now := time.Now()
	fresh := o.known.fresh(now) || o.net.concedes() && o.namedSince(now.Add(-CanaryGoodFor))
	list, silent, any := o.canariesFor(source)
	switch {
	case len(list) == 0 && silent && !fresh: // watchOutages asks the others at once
		if o.net.declare(now) {
			o.logOutage("network", &o.net)
		}
		return false
	case len(list) == 0 && len(o.opt.References) == 0:
		return any || again && !o.silent(now)
	}
	if !fresh && o.known.begin() {
		o.run.Fetchers.Add(1) // the caller is a fetcher or a stage, which end before fetchers is waited for
		go func() {
			defer o.run.Fetchers.Done()
			defer o.run.Fatal()
			defer o.known.end()
			o.seekEvidence(o.run.Running(), list, silent)
		}()
	}
	return fresh
}

// silent reports whether no server has answered since the program was restarted, for at most monitorPatience.
// The restart may have happened during an outage, or because of one, and the known servers are forgotten.
func (o *Watch) silent(now time.Time) bool {
	return o.run.Accounts.Counter(state.CountResponses) > 0 && o.known.none() &&
		now.Sub(o.run.Began()) < o.opt.Waits.Patience
}

// canariesFor returns the canaries outside of source that may be asked. silent reports that others may not because they
// did not answer a short while ago, and any that there are others at all.
func (o *Watch) canariesFor(source uint64) (list []canary, silent, any bool) {
	now := time.Now()
	list, any = o.known.others(source, func(host []byte) bool {
		if o.others.Hosts.InBackoff(o.saved.HostKey(host), now) || o.others.Rules.BlockedHost(host) {
			return false
		}
		rests := o.resting(host, now)
		silent = silent || rests
		return !rests
	})
	return list, silent, any
}

// askCanaries requests robots.txt from up to canariesAtOnce canaries in the list whose delays allow it now, until one
// answers. asked is the number of canaries asked.
func (o *Watch) askCanaries(ctx context.Context, list []canary) (asked int, answered bool) {
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
		answered := err == nil || errors.As(err, &fe) && !Doubtful(fe) && !fe.Ours()
		o.known.note(v, answered, time.Now())
		if answered {
			o.proved()
			return asked, true
		}
	}
	return asked, false
}

// askCanary asks one canary if its delays allow it now.
func (o *Watch) askCanary(ctx context.Context, v *canary) (asked bool, err error) {
	if o.others.Rules.BlockedAddr(v.addr) {
		return false, nil
	}
	url, err := weburl.Canonical(v.origin() + "/robots.txt")
	if err != nil {
		return false, err
	}
	asked, _, err = o.others.Asker.AskNow(ctx, "canary", url, []netip.Addr{v.addr})
	return asked, err
}

// AskCanaries asks canaries during an outage. If one answers, the outage is not ours.
func (o *Watch) AskCanaries(ctx context.Context) error {
	for ctx.Err() == nil {
		if !o.Slowed() {
			o.run.Await(ctx, o.wakeCanaries, account.WakeAfter)
			continue
		}
		if o.dns.isDown() {
			o.askNames(ctx, "")
		}
		if !o.net.isDown() {
			account.Sleep(ctx, CanaryGoodFor)
			continue
		}
		wait := canaryRetryEvery
		if o.known.begin() {
			list, _, _ := o.canariesFor(0)
			if o.seekEvidence(ctx, list, false) > 0 {
				wait = CanaryGoodFor
			}
			o.known.end()
		}
		for asked := time.Now(); o.net.isDown() && time.Since(asked) < max(wait, o.net.gap(time.Now())); {
			if !account.Sleep(ctx, min(wait, CanaryGoodFor)) {
				return nil
			}
		}
	}
	return nil
}
