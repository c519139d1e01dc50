package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/figures"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// Enqueued is the answer about a URL that the operator has enqueued.
type Enqueued struct {
	Line string // as it was given
	URL  string // as the crawl spells it; "" if Refused is set
	// Refused says why the crawl does not take the URL; "" if it does. What robots.txt says is not known yet.
	Refused string
	// Wait estimates the time until the request, and Because says what it waits for. While the crawl is
	// paused, drains, or has an outage, the request comes after that.
	Wait    time.Duration
	Because string
}

// Enqueue is Control.Enqueue. If the crawl takes none of the lines, nothing changes.
func (o *Operator) Enqueue(ctx context.Context, who string, lines []string, late *account.LateLog) ([]Enqueued,
	changes.Change, error) {
	c := changes.Change{Op: changes.OpEnqueue, Who: who}
	if len(lines) > changes.MaxEnqueued {
		return nil, c, &changes.RefusedError{Why: fmt.Sprintf("%d URLs: want at most %d in one change", len(lines),
			changes.MaxEnqueued)}
	}
	answers := make([]Enqueued, len(lines))
	before := map[uint64]int{} // URLs of this change, by host
	for i, line := range lines {
		a := &answers[i]
		a.Line = line
		if a.URL, a.Refused = o.judge(line); a.Refused != "" {
			continue
		}
		o.estimate(a, before)
		c.Seeds = append(c.Seeds, a.URL)
	}
	if len(c.Seeds) == 0 && len(lines) > 0 {
		return answers, c, nil
	}
	made, err := o.Make(ctx, c, late)
	return answers, made, err
}

// refusal says why the crawl does not take a URL, for programs and for people; "" if it does.
type refusal struct{ name, words string }

// judge returns the URL of a line, or why the crawl may not fetch it.
func (o *Operator) judge(line string) (url, why string) {
	url, refused := o.admits(line)
	if refused.name != "" {
		return "", refused.words
	}
	key := o.saved.Hasher.URLKey([]byte(url))
	switch barred, err := o.saved.Barred(key); {
	case err != nil:
		return "", "the crawl cannot read which URLs were erased: " + err.Error()
	case barred[key]:
		_, why := state.ReasonText(state.ReasonErased.String())
		return "", why
	}
	return url, ""
}

// admits returns the URL of a line, as the crawl spells it, or why scope, rules and limits do not admit it; then the
// URL is that of the line, "" if it has none.
func (o *Operator) admits(line string) (url string, why refusal) {
	url, _, err := o.opt.Links.ParseSeed([]byte(line))
	switch {
	case errors.Is(err, weburl.ErrTooLong):
		return "", refusal{admit.TooLong, err.Error()}
	case err != nil:
		return "", refusal{admit.BadURL, err.Error()}
	case url == "":
		return "", refusal{admit.BadURL, "no URL"}
	case o.opt.Links.MaxURLBytes > 0 && len(url) > o.opt.Links.MaxURLBytes:
		return url, refusal{admit.TooLong, fmt.Sprintf("%d bytes, more than %d", len(url), o.opt.Links.MaxURLBytes)}
	}
	if node, ok := o.opt.Links.Visitor([]byte(url)); ok && o.others.Elsewhere(weburl.Split([]byte(url)).Host) {
		return url, refusal{"elsewhere", fmt.Sprintf("it belongs to node %d of the cluster", node)}
	}
	b := admit.NewBatch(o.opt.Links)
	b.Start(nil, nil, 0, 0, time.Now())
	as, _ := o.opt.Links.URLRules.AppendRewritten(nil, []byte(url))
	if f, _ := b.Admit(as); f < 0 {
		return string(as), refusal{admit.DropName(state.Counter(^f)), admit.DropText(state.Counter(^f))}
	}
	return string(as), refusal{}
}

// mayEnqueue reports why n more URLs cannot be enqueued now.
func (o *Operator) mayEnqueue(n int) error {
	if o.others.Drains() {
		return &changes.RefusedError{Why: "the crawl is draining: it queues no new URLs"}
	}
	o.feeding.Lock() // each URL is either in the journal or in the table
	defer o.feeding.Unlock()
	if room := o.others.Orders.Room() - o.journal.Enqueued(); n > room {
		return &changes.RefusedError{
			Why: fmt.Sprintf("%d URLs: %d enqueued URLs are already waiting, and the limit is %d",
				n, o.opt.MaxOrders-room, o.opt.MaxOrders)}
	}
	return nil
}

// estimate says when a URL will be fetched that is enqueued now. before has the number of URLs of the same
// change that go before it, by host.
func (o *Operator) estimate(a *Enqueued, before map[uint64]int) {
	now := time.Now()
	name := weburl.Split([]byte(a.URL)).Host
	host := o.saved.HostKey(name)
	t := o.others.Heaps().Turn(now, host, o.saved.PLDKey(name), o.opt.Sites.Connection(name, []byte(a.URL)),
		o.opt.Sites.Terms(name))
	a.Wait, a.Because = t.Wait, figures.DelayText(t.Why)
	ahead := before[host] + o.others.Orders.Ahead(host)
	before[host]++
	if !t.InRAM {
		ahead++ // robots.txt may have to be fetched, which is a visit
	}
	if ahead > 0 {
		a.Wait += time.Duration(ahead) * t.Step
		if a.Because = "earlier URLs of the host"; !t.InRAM && ahead == 1 {
			a.Because = "robots.txt, which may have to be fetched"
		}
	}
	a.Wait = max(a.Wait, o.others.Check.PassWait())
	health := o.others.StateOf(host, now)
	if until, _, ok := health.InBackoff(now); ok && until.Sub(now) > a.Wait {
		a.Wait, a.Because = until.Sub(now), "back-off of the host after failures"
	}
	if why := o.others.Space.Pausing(); why != "" {
		a.Because = "fetching pauses: " + why
	}
}
