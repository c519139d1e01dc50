package outage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"drumbeat/fetch"
	"drumbeat/weburl"
)

// When known servers do not answer, answers of others tell whether the network works (seekEvidence):
//
//   - The operator's references (Options.References), and canaries (canary.go). One that answers proves it: failures
//     count monitorPatience after the outage began.
//   - Name servers with a public address that give an address for a name, not from our cache. A forwarder on this
//     machine or in its network may answer from its cache whatever the network does, so it proves nothing. Nor does a
//     denial, which captive portals and broken forwarders send for all names. And a provider's public server may still
//     answer from its cache when the provider's other links are down, or a filter on our side may drop all but DNS. So
//     such an answer is weaker: fetching continues, but failures count namesPatience after the outage began.
//
// Meanwhile hosts that do not answer are asked ever more rarely (hostgaps.go).
const namesPatience = 6 * time.Hour

// MaxReferences is the greatest number of Options.References.
const MaxReferences = 8

// referencesAtOnce is the number of references asked at once, and nameServersAtOnce that of names looked up.
const referencesAtOnce, nameServersAtOnce = 2, 2

// CheckReference returns the URL that a reference means: a host, or host:port, means its robots.txt by https.
// It refuses what would be asked of another server than the operator means, or of none: lists, patterns, and
// text before an @.
func CheckReference(text string) (string, error) {
	bad := func(why any) (string, error) {
		return "", fmt.Errorf("crawl: reference %q: want a host, or an http or https URL: %v", text, why)
	}
	full := text
	if text != "" && !strings.ContainsAny(text, `/\?#`) {
		full = "https://" + text + "/robots.txt"
	}
	_, rest, _ := strings.Cut(full, ":")
	rest = strings.TrimLeft(rest, `/\`)
	if at := strings.IndexByte(rest, '@'); at >= 0 && !strings.ContainsAny(rest[:at], `/\?#`) {
		return bad("user names and passwords are not sent")
	}
	canonical, err := weburl.Canonical(full)
	if err != nil {
		return bad(err)
	}
	u, err := url.Parse(canonical)
	if err != nil {
		return bad(err)
	}
	host := u.Hostname()
	if i := strings.IndexFunc(host, notOfHost); i >= 0 {
		return bad(fmt.Sprintf("%q in the host", host[i]))
	}
	if strings.HasPrefix(host, ".") || strings.Contains(host, "..") {
		return bad("an empty label in the host")
	}
	return canonical, nil
}

// notOfHost reports a rune that no host of a server has, as a canonical URL writes hosts; the URL standard allows more.
func notOfHost(r rune) bool {
	return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_:", r)) // : in IPv6 addresses
}

// seekEvidence asks references, name servers and the canaries in the list whether the network works. If none of them
// answers, it declares an outage; silent reports that further canaries have not answered just now. asked is the number
// of questions; 0 decides nothing. One goroutine at a time may call it (known.begin).
func (o *Watch) seekEvidence(ctx context.Context, list []canary, silent bool) (asked int) {
	asked, ok := o.askReferences(ctx)
	if ok {
		return asked
	}
	looked, named := o.askNameServers(ctx)
	n, ok := o.askCanaries(ctx, list)
	if asked += n; ok || ctx.Err() != nil {
		return asked + looked
	}
	doubts, _ := o.net.doubts(time.Now())
	if asked == 0 && !silent || named && (doubts || o.net.concedes()) {
		return asked + looked
	}
	if o.net.declare(time.Now()) {
		o.logOutage("network", &o.net)
	}
	if named && o.net.answeredByNames(time.Now(), time.Now()) {
		o.logOutage("network", &o.net)
	}
	return asked + looked
}

// Anticipate asks a reference before a request to a host that last did not answer, unless one has answered a
// short while ago. So if the host fails again, that counts, and needs no further request to be confirmed.
func (o *Watch) Anticipate(addr netip.Addr) {
	if len(o.opt.References) > 0 && !o.InOutage() {
		o.canaryAnswered(false, o.Source(addr))
	}
}

// proved notes that a canary or a reference has answered.
func (o *Watch) proved() {
	if o.net.answered(time.Now()) {
		o.logOutage("network", &o.net)
	}
}

// askReferences asks up to referencesAtOnce references whose delays allow it now, first that which answered last.
func (o *Watch) askReferences(ctx context.Context) (asked int, answered bool) {
	for range min(referencesAtOnce, len(o.opt.References)) {
		url := o.opt.References[o.reference%len(o.opt.References)]
		ok, verdict, err := o.askReference(ctx, url)
		if ctx.Err() != nil {
			return asked, false
		}
		if ok {
			asked++
		}
		// A captive portal answers for every server, but has no certificate for it.
		if ok && err == nil && (verdict == "" || verdict == fetch.VerdictOK) {
			o.known.proved(time.Now())
			o.proved()
			return asked, true
		}
		o.opt.Log.Debug("no evidence from reference", "url", url, "asked", ok, "certificate", verdict, "error", err)
		o.reference++
	}
	return asked, false
}

// askReference asks a reference if its delays allow it now.
func (o *Watch) askReference(ctx context.Context, url string) (asked bool, verdict string, err error) {
	host := weburl.Split([]byte(url)).Host
	if o.others.Rules.BlockedHost(host) {
		return false, "", errBlacklisted
	}
	addrs, _, err := o.Lookup(ctx, host, LookupAgain)
	if err != nil {
		return false, "", err
	}
	if addrs = o.others.Rules.Open(addrs); len(addrs) == 0 {
		return false, "", errBlacklisted
	}
	return o.others.Asker.AskNow(ctx, "reference", url, addrs)
}

var errBlacklisted = errors.New("crawl: the reference or its address is blacklisted")

// askNameServers looks up names that had addresses. named reports that a public name server has answered.
func (o *Watch) askNameServers(ctx context.Context) (asked int, named bool) {
	began := time.Now()
	for _, n := range o.nameCanaries.oldest(nameServersAtOnce) {
		if _, _, err := o.Lookup(ctx, []byte(n.host), LookupKnown|LookupFresh); ctx.Err() != nil {
			return asked, false
		} else if asked++; err == nil && o.namedSince(began) {
			return asked, true
		}
	}
	return asked, false
}

// watchNameServer notes that a name server has given an address, at the end of a lookup that began at a time.
func (o *Watch) watchNameServer(server netip.Addr, began time.Time) {
	if !fetch.PublicAddr(server) {
		return
	}
	o.named.Store(began.UnixNano())
	if o.net.answeredByNames(time.Now(), began) {
		o.logOutage("network", &o.net)
	}
}

// namedSince reports whether a public name server has answered a lookup that began at a time or later.
func (o *Watch) namedSince(at time.Time) bool { return o.named.Load() >= at.UnixNano() }
