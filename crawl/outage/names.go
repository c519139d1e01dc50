package outage

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/resolve"
	"drumbeat/robots"
	"drumbeat/state"
)

// Name servers that cannot reach others may claim that a name does not exist, or return one address of
// their own for all names. So such an answer counts only when it is repeated and names that had addresses a
// while ago (canaries) still have some. A name that itself had an address must have none for hours
// (robots.MissingLeast).

// knownNames stores names that had addresses. A name's PLD determines its slot. The size is fixed.
type knownNames struct {
	mu     sync.Mutex // guards the fields below
	names  [canaryNames]knownName
	asking bool
	at     time.Time   // when the names were last asked
	answer namesAnswer // the result
	lied   time.Time   // since when all names asked had no address; zero if one had
	last   [namesLast]bool
	n      int // number of first lookups; last holds whether the latest of them found no address
}

type knownName struct {
	host, pld string
	asked     time.Time // when it was found to have an address, or last asked
}

const (
	canaryNames = 32
	// namesFor is how long the answer of canaries is valid. It is shorter than the wait between the two
	// lookups that confirm an absence: if the name servers lied at both, they lied to the canaries too.
	// namesOf is the number asked. At least namesLeast of them must have no address before the name servers
	// are doubted, because a single name may vanish.
	namesFor   = confirmLeast - time.Second
	namesOf    = 5
	namesLeast = 2
	// Up to a third of the last namesLast first lookups may find no address, once there were namesEnough.
	// If more find none, the name servers may fail for some names, with no canary among them; then all such
	// names wait for MissingLeast.
	namesLast, NamesEnough = 32, 8
)

// namesAnswer is what known names tell about the name servers.
type namesAnswer uint8

const (
	namesSilent namesAnswer = iota // no names are known, or their lookups had no answer
	namesWork                      // all names with an answer have an address
	namesLie                       // most have none
	namesAsked                     // another goroutine is asking
)

// found records that a name has an address at now.
func (k *knownNames) found(host, pld string, key uint64, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[key%canaryNames] = knownName{host: host, pld: pld, asked: now}
}

// KnownNames returns the names that are known to have addresses, for the manifest: at most canaryNames.
func (o *Watch) KnownNames() (list []string) {
	for _, n := range o.nameCanaries.oldest(canaryNames) {
		list = append(list, n.host)
	}
	return list
}

// RestoreNames takes the names of KnownNames. They had addresses before a restart; the first question goes
// to them.
func (o *Watch) RestoreNames(list []string) {
	for _, name := range list[:min(len(list), canaryNames)] {
		o.nameCanaries.found(name, o.saved.Suffixes.PLD(name), o.saved.PLDKey([]byte(name)), time.Time{})
	}
}

// few reports whether too few names are known to doubt the name servers, even if the name in question is
// one of them.
func (k *knownNames) few() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for i := range k.names {
		if k.names[i].host != "" {
			n++
		}
	}
	return n <= namesLeast
}

// vague reports whether no name is known to have an address, or those known are said to have none.
func (k *knownNames) vague() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answer == namesLie || !slices.ContainsFunc(k.names[:], func(n knownName) bool { return n.host != "" })
}

// first records the result of a name's first lookup.
func (k *knownNames) first(absent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[k.n%namesLast] = absent
	k.n++
}

// many reports whether more names than usual have no address.
func (k *knownNames) many() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, absent := min(k.n, namesLast), 0
	for _, a := range k.last[:n] {
		if a {
			absent++
		}
	}
	return n >= NamesEnough && 3*absent > n
}

// oldest returns up to n names, those whose last answer is oldest.
func (k *knownNames) oldest(n int) (list []knownName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.names {
		if k.names[i].host != "" {
			list = append(list, k.names[i])
		}
	}
	slices.SortFunc(list, func(a, b knownName) int { return a.asked.Compare(b.asked) })
	return list[:min(len(list), n)]
}

// ask returns names to look up, excluding one. Those whose last answer is oldest come first: name servers that
// deny most names now have answered truly for the newest. The list is empty if the last result is still valid,
// another goroutine is asking, or no names are known. If it is not empty, the caller must call learned.
func (k *knownNames) ask(but string, now time.Time) (list []knownName, answer namesAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.at.IsZero() && now.Sub(k.at) < namesFor:
		return nil, k.answer
	case k.asking:
		return nil, namesAsked
	}
	for i := range k.names {
		if n := &k.names[i]; n.host != "" && n.host != but {
			list = append(list, *n)
		}
	}
	slices.SortFunc(list, func(a, b knownName) int { return a.asked.Compare(b.asked) })
	list = list[:min(len(list), namesOf)]
	k.asking = len(list) > 0
	return list, namesSilent
}

// learned records the result of asking the names in list and returns the final result. Name servers that have
// denied all names for MissingLeast count as truthful.
func (k *knownNames) learned(list []knownName, answer namesAnswer, now time.Time) namesAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case answer == namesWork:
		k.lied = time.Time{}
	case answer != namesLie:
	case k.lied.IsZero():
		k.lied = now
	case now.Sub(k.lied) >= robots.MissingLeast:
		answer = namesSilent
	}
	k.asking, k.answer, k.at = false, answer, now
	for i := range k.names {
		if slices.ContainsFunc(list, func(n knownName) bool { return n.host == k.names[i].host }) {
			k.names[i].asked = now
		}
	}
	return answer
}

// askNames returns what names other than but tell about the name servers now.
func (o *Watch) askNames(ctx context.Context, but string) namesAnswer {
	list, answer := o.nameCanaries.ask(but, time.Now())
	if len(list) == 0 {
		return answer
	}
	have, missing := 0, 0
	for _, n := range list {
		_, _, err := o.Lookup(ctx, []byte(n.host), LookupKnown|LookupFresh)
		var le *resolve.Error
		switch {
		case err == nil:
			have++
		case errors.Is(err, ErrForbidden), errors.As(err, &le) && le.NotFound:
			missing++
		}
	}
	switch answer = namesSilent; {
	case have > 0 && missing == 0:
		// If name servers tell the truth about one name in five, namesOf such names in a row are rare: 1 in 3,125.
		answer = namesWork
	case missing >= namesLeast:
		answer = namesLie
	}
	answer = o.nameCanaries.learned(list, answer, time.Now())
	if ctx.Err() != nil {
		return namesSilent
	}
	if answer == namesWork && o.dns.answered(time.Now()) || answer == namesLie && o.dns.declare(time.Now()) {
		o.logOutage("name servers", &o.dns)
	}
	return answer
}

// Absence decides whether it is confirmed that a name has no address, or none that is allowed. If so, kind
// is the update for RobotsCache. If not, the request is made again.
func (o *Watch) Absence(ctx context.Context, job *robots.Job, name string) (kind byte, confirmed bool) {
	if job.Tries == 0 || o.NamesInDoubt() {
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
	case job.Tries < ConfirmTries:
		return 0, false
	case o.saved.Manifest != nil && o.nameCanaries.few() && time.Since(o.run.Began()) < o.opt.Waits.Patience:
		// Few names were known at the last checkpoint.
		return 0, false
	case o.run.Accounts.Counter(state.CountResponses) == 0: // a crawl with dead names only must end
		return robots.UpdateGone, true
	}
	return robots.UpdateMissing, true
}
