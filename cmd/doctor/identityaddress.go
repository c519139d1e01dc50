package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"drumbeat/internal/bug"
	"drumbeat/internal/human"
)

// reverseAtOnce bounds the addresses that are looked up at a time.
const reverseAtOnce = 8

// checkAddresses looks at the addresses of the crawl: whether the published ranges have them, and their names.
func (i *identity) checkAddresses(ctx context.Context) []finding {
	list := i.addresses
	if list == nil {
		list = outward()
		list = slices.DeleteFunc(list, func(a netip.Addr) bool {
			return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
		})
	}
	if len(list) == 0 {
		return []finding{{Check: "addresses", Status: unknown, Need: "the addresses that sites see",
			Now: "this machine has no public address, so it is behind NAT",
			Fix: []string{"--addresses with those of the router"}}}
	}
	return append(i.checkInRanges(list), i.checkReverse(ctx, list)...)
}

// checkInRanges compares the addresses with the published ranges.
func (i *identity) checkInRanges(list []netip.Addr) []finding {
	if i.ranges == nil {
		return nil // said before
	}
	r := finding{Check: "addresses in the ranges", Now: "all of " + some(list), Need: "all published"}
	missing := slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return contains(i.ranges, a) })
	if len(missing) > 0 {
		r.Now = "without " + some(missing)
		r.at(fail, true, "add them to --addresses of bot-page, and publish its files")
	}
	i.facts.inRanges = factOf(len(missing) == 0)
	return []finding{r}
}

// checkReverse confirms the reverse DNS of the addresses: each has a name that has the address.
func (i *identity) checkReverse(ctx context.Context, list []netip.Addr) []finding {
	type outcome struct {
		names     []string
		confirmed bool
		err       error
	}
	found := make([]outcome, len(list))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(reverseAtOnce, len(list)) {
		wg.Go(func() {
			defer bug.Fatal()
			for n := range next {
				o := &found[n]
				o.names, o.err = i.dns.names(ctx, list[n])
				for _, name := range o.names {
					addrs, err := i.dns.lookup(ctx, name)
					o.confirmed = o.confirmed || err == nil && slices.Contains(addrs, list[n])
				}
			}
		})
	}
	for n := range list {
		next <- n
	}
	close(next)
	wg.Wait()

	r := finding{Check: "reverse DNS", Need: "a name that has the address, for each"}
	var bad, unclear []string
	var names []string
	for n, o := range found {
		switch {
		case o.err != nil:
			unclear = append(unclear, o.err.Error())
		case len(o.names) == 0:
			bad = append(bad, list[n].String()+" has no name")
		case !o.confirmed:
			bad = append(bad, fmt.Sprintf("%s is %s, which has other addresses", list[n], o.names[0]))
		default:
			names = append(names, o.names[0])
		}
	}
	switch {
	case len(bad) > 0:
		i.facts.reverse = fails
		r.Now = strings.Join(bad[:min(2, len(bad))], ", ")
		if more := len(bad) - 2; more > 0 {
			r.Now += " and " + human.Counted(more, "other", "others")
		}
		r.at(warn, true, "give each address a PTR record with a name of yours, and that name an A or AAAA record; "+
			"the provider of the addresses sets PTR records")
	case len(unclear) > 0:
		r.Status, r.Now = unknown, unclear[0]
	default:
		i.facts.reverse = holds
		r.Now = names[0]
		if len(names) > 1 {
			r.Now += " and " + human.Counted(len(names)-1, "other", "others")
		}
	}
	if i.left > 0 {
		r.Now += fmt.Sprintf(" (%d of %d addresses)", len(list), len(list)+i.left)
	}
	return []finding{r}
}
