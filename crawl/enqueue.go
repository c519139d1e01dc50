package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
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

// Enqueue makes URLs be fetched before all others, as soon as politeness allows. It returns when the change is durable,
// with an answer for each line in their order. The errors are those of Make.
func (k *Control) Enqueue(ctx context.Context, who string, lines []string) (answers []Enqueued, made changes.Change,
	err error) {
	err = k.changing(func(c *crawler, late *account.LateLog) error {
		answers, made, err = c.operator.enqueue(ctx, who, lines, late)
		return err
	})
	return answers, made, err
}

// enqueue is Control.Enqueue. If the crawl takes none of the lines, nothing changes.
func (o *operator) enqueue(ctx context.Context, who string, lines []string, late *account.LateLog) ([]Enqueued,
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
	made, err := o.make(ctx, c, late)
	return answers, made, err
}

// judge returns the URL of a line, or why the crawl may not fetch it.
func (o *operator) judge(line string) (url, why string) {
	url, _, err := o.links.ParseSeed([]byte(line))
	switch {
	case err != nil:
		return "", err.Error()
	case url == "":
		return "", "no URL"
	case o.links.MaxURLBytes > 0 && len(url) > o.links.MaxURLBytes:
		return "", fmt.Sprintf("%d bytes, more than %d", len(url), o.links.MaxURLBytes)
	}
	if node, ok := o.links.Elsewhere([]byte(url)); ok {
		return "", fmt.Sprintf("it belongs to node %d of the cluster", node)
	}
	b := admit.NewBatch(o.links)
	b.Start(nil, nil, 0, 0, time.Now())
	as, _ := o.links.URLRules.AppendRewritten(nil, []byte(url))
	if f, _ := b.Admit(as); f < 0 {
		return "", admit.DropText(state.Counter(^f))
	}
	return string(as), ""
}

// mayEnqueue reports why n more URLs cannot be enqueued now.
func (o *operator) mayEnqueue(n int) error {
	if o.drains() {
		return &changes.RefusedError{Why: "the crawl drains: it queues no new URLs"}
	}
	o.feeding.Lock() // each URL is either in the journal or in the table
	defer o.feeding.Unlock()
	if room := o.orders.room() - o.journal.Enqueued(); n > room {
		return &changes.RefusedError{
			Why: fmt.Sprintf("%d URLs: %d that were enqueued wait already, and the limit is %d",
				n, MaxOrders-room, MaxOrders)}
	}
	return nil
}

// estimate says when a URL will be fetched that is enqueued now. before has the number of URLs of the same
// change that go before it, by host.
func (o *operator) estimate(a *Enqueued, before map[uint64]int) {
	now := time.Now()
	name := weburl.Split([]byte(a.URL)).Host
	host := o.HostKey(name)
	t := o.polite.Turn(now, host, o.PLDKey(name), o.sites.Connection(name, []byte(a.URL)), o.sites.Terms(name))
	a.Wait, a.Because = t.Wait, bindingTexts[t.Why]
	ahead := before[host] + o.orders.ahead(host)
	before[host]++
	if !t.InRAM {
		ahead++ // robots.txt may have to be fetched, which is a visit
	}
	if ahead > 0 {
		a.Wait += time.Duration(ahead) * t.Step
		if a.Because = "URLs of the host that go before it"; !t.InRAM && ahead == 1 {
			a.Because = "robots.txt, which may have to be fetched"
		}
	}
	a.Wait = max(a.Wait, o.check.PassWait())
	health := o.health.StateOf(host, now)
	if until, _, ok := health.InBackoff(now); ok && until.Sub(now) > a.Wait {
		a.Wait, a.Because = until.Sub(now), "back-off of the host after failures"
	}
	if why := o.space.Pausing(); why != "" {
		a.Because = "not before this ends: " + why
	}
}
