package crawl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/robots"
)

// Name servers that can't reach others may say that a name doesn't exist, or give an address of their own for all. So that is confirmed
// of a name only when it is said twice, and then only if names that had addresses a while ago (their canaries) still have some. A
// name that had one itself must have none for hours (robots.MissingLeast).

// knownNames remembers names that had addresses, each at a place by its PLD. Bounded.
type knownNames struct {
	mu     sync.Mutex // guards all below
	names  [canaryNames]knownName
	asking bool
	at     time.Time // of the last time that they were asked
	word   namesWord // and what came of it
	lied   time.Time // when they first had none, since they last had some
	last   [namesLast]bool
	n      int // names looked up for the first time; last has what became of the latest of them: no address
}

type knownName struct {
	host, pld string
	tried     time.Time
}

const (
	canaryNames = 32
	// namesFor is for how long the answer of a canary is good; namesOf how many are asked; namesLeast of them must have no address
	// before the name servers are doubted: a name may vanish.
	namesFor   = 5 * time.Second
	namesOf    = 3
	namesLeast = 2
	// Of the last namesLast names that were looked up for the first time, a third may have no address, once namesEnough were. If more
	// have none, the name servers may fail for a part of all names, in which no canary is left: all wait for MissingLeast.
	namesLast, namesEnough = 32, 8
)

// namesWord is what names that are known say of the name servers.
type namesWord uint8

const (
	namesSilent namesWord = iota // there are none, or they weren't answered
	namesWork                    // all that were answered have an address
	namesLie                     // most have none
	namesAsked                   // they are being asked
)

// found notes that a name has an address.
func (k *knownNames) found(host, pld string, key uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[key%canaryNames] = knownName{host: host, pld: pld}
}

// few says whether too few names are known to doubt the name servers, be one of them the name in question.
func (k *knownNames) few() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for i := range k.names {
		n += boolCount(k.names[i].host != "")
	}
	return n <= namesLeast
}

// first notes what became of a name's first lookup.
func (k *knownNames) first(absent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[k.n%namesLast] = absent
	k.n++
}

// many says whether more names have no address than should.
func (k *knownNames) many() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, absent := min(k.n, namesLast), 0
	for _, a := range k.last[:n] {
		absent += boolCount(a)
	}
	return n >= namesEnough && 3*absent > n
}

func boolCount(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ask returns names to be asked, apart from one, those first that were asked longest ago; nil if the last word is still good, or somebody
// asks. told must be called if there are some.
func (k *knownNames) ask(but string, now time.Time) (list []knownName, word namesWord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.at.IsZero() && now.Sub(k.at) < namesFor:
		return nil, k.word
	case k.asking:
		return nil, namesAsked
	}
	for i := range k.names {
		if n := &k.names[i]; n.host != "" && n.host != but {
			list = append(list, *n)
		}
	}
	slices.SortFunc(list, func(a, b knownName) int { return a.tried.Compare(b.tried) })
	list = list[:min(len(list), namesOf)]
	k.asking = len(list) > 0
	return list, namesSilent
}

// told notes what names said, and returns what is to be made of it: name servers that have denied all for MissingLeast don't lie.
func (k *knownNames) told(list []knownName, word namesWord, now time.Time) namesWord {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case word == namesWork:
		k.lied = time.Time{}
	case word != namesLie:
	case k.lied.IsZero():
		k.lied = now
	case now.Sub(k.lied) >= robots.MissingLeast:
		word = namesSilent
	}
	k.asking, k.word, k.at = false, word, now
	for i := range k.names {
		if slices.ContainsFunc(list, func(n knownName) bool { return n.host == k.names[i].host }) {
			k.names[i].tried = now
		}
	}
	return word
}

// askNames says what other names than this one tell of the name servers now.
func (o *outages) askNames(ctx context.Context, but string) namesWord {
	list, word := o.nameCanaries.ask(but, time.Now())
	if len(list) == 0 {
		return word
	}
	have, missing := 0, 0
	for _, n := range list {
		_, _, err := o.lookup(ctx, []byte(n.host), lookupKnown|lookupFresh)
		var le *LookupError
		switch {
		case err == nil:
			have++
		case errors.Is(err, errForbidden), errors.As(err, &le) && le.NotFound:
			missing++
		}
	}
	switch word = namesSilent; {
	case have > 0 && missing == 0: // of servers that tell the truth about one name in five, three such names are rare
		word = namesWork
	case missing >= namesLeast:
		word = namesLie
	}
	word = o.nameCanaries.told(list, word, time.Now())
	if ctx.Err() != nil {
		return namesSilent
	}
	if word == namesWork && o.dns.answered(time.Now()) || word == namesLie && o.dns.declare(time.Now()) {
		o.tellOutage("name servers", &o.dns)
	}
	return word
}

// absence says whether it is confirmed that a name has no address, or none that may be connected to: an update of RobotsCache. Else, the
// request is made again.
func (o *outages) absence(ctx context.Context, job *robots.Job, name string) (kind byte, confirmed bool) {
	if job.Tries == 0 || o.namesInDoubt() {
		return 0, false
	}
	switch o.askNames(ctx, name) {
	case namesWork:
		if o.nameCanaries.many() {
			return robots.UpdateMissing, true
		}
		return robots.UpdateGone, true
	case namesLie, namesAsked:
		return 0, false
	}
	switch {
	case job.Tries < confirmTries:
		return 0, false
	case o.Manifest != nil && o.nameCanaries.few() && time.Since(o.began) < o.faultWaits.patience: // started again: it has forgotten them
		return 0, false
	case o.counter(state.CountResponses) == 0: // a crawl that has none but dead names ends
		return robots.UpdateGone, true
	}
	return robots.UpdateMissing, true
}
