package crawl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/weburl"
)

// fetchedNothing reports whether a crawl ended without a single response.
func fetchedNothing(res *crawl.Result) bool {
	return res.Stop == crawl.StopDone && res.Snapshot.Count(state.CountResponses) == 0
}

// Limits of the explanation.
const (
	maxSeedsExplained = 10
	maxSeedLines      = 1000 // read in search of them
	seedLookupTime    = 5 * time.Second
)

// noSeed explains why a crawl has no response.
type noSeed struct {
	seeds  int          // number checked
	faults []seedFaults // of the seeds that the flags forbid
	asked  bool         // a request was sent
}

// seedFaults are the reasons why the flags forbid a seed, each with the flag that would allow it.
type seedFaults struct {
	url   string
	lines []string
}

// whyNoSeed checks the first seeds against the flags, as the crawl did. refusal says why an address is refused.
func whyNoSeed(opt *crawl.Options, refusal func(netip.Addr) fetch.Refusal, res *crawl.Result) *noSeed {
	n := &noSeed{asked: res.Snapshot.Count(state.CountAttempts)+res.Snapshot.Count(state.CountRobotsAttempts) > 0}
	file, err := opt.Disk.FS.OpenRead(opt.Admission.Seeds)
	if err != nil {
		return n
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), seedLookupTime)
	defer cancel()
	size, _ := file.Size()
	lines := bufio.NewScanner(io.NewSectionReader(file, 0, size))
	for range maxSeedLines {
		if !lines.Scan() {
			break
		}
		url, _, err := admit.ParseSeed(lines.Text())
		if err != nil || url == "" {
			continue
		}
		n.seeds++
		if f := seedFaultsOf(ctx, opt, refusal, url); len(f.lines) > 0 && len(n.faults) < maxSeedsExplained {
			n.faults = append(n.faults, f)
		}
	}
	return n
}

// seedFaultsOf returns the flags that a seed needs and the command lacks.
func seedFaultsOf(ctx context.Context, opt *crawl.Options, refusal func(netip.Addr) fetch.Refusal,
	url string) seedFaults {
	f := seedFaults{url: url}
	parts := weburl.Split([]byte(url))
	if !opt.Network.Ports.Contains(parts.Port) {
		f.lines = append(f.lines, fmt.Sprintf("port %d: add --ports %[1]d", parts.Port))
	}
	host := strings.Trim(string(parts.Host), "[]")
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if no := refusal(addr); no.Why != "" {
			f.lines = append(f.lines, fmt.Sprintf("%v is %s: %s", addr, no.Why, flagFor(no)))
		}
		return f
	}
	found, err := opt.Network.Resolver.LookupHost(ctx, host, host)
	if err != nil || slices.ContainsFunc(found.Addrs, opt.Network.AllowedAddr) {
		return f
	}
	for _, a := range found.Addrs {
		f.lines = append(f.lines,
			fmt.Sprintf("%s is at %v, which is %s: %s", host, a, refusal(a).Why, flagFor(refusal(a))))
	}
	return f
}

// flagFor returns the flag that allows a refused address.
func flagFor(no fetch.Refusal) string {
	if !no.Admit.IsValid() {
		return "--allow-net does not allow it"
	}
	return fmt.Sprintf("add --allow-net %v", netip.PrefixFrom(no.Admit, no.Admit.BitLen()))
}

// print prints the reason and what to do.
func (n *noSeed) print(out io.Writer) {
	var b strings.Builder
	switch {
	case n.seeds == 0:
		b.WriteString("drumbeat: no page: the seeds contain no URL; add one\n")
	case len(n.faults) == 0:
		b.WriteString("drumbeat: no page: no seed could be fetched; the summary and the seed log have the reasons\n")
	default:
		who := fmt.Sprintf("%d of %s", len(n.faults), human.Counted(n.seeds, "seed is", "seeds are"))
		if len(n.faults) == maxSeedsExplained {
			who = "seeds are"
		} else if n.seeds == 1 {
			who = "the only seed is"
		}
		fmt.Fprintf(&b, "drumbeat: no page: %s not allowed by this command\n", who)
		width := 0
		for _, f := range n.faults {
			width = max(width, min(60, len(f.url)))
		}
		for _, f := range n.faults {
			url := term.PlainText(f.url)
			for _, l := range f.lines {
				fmt.Fprintf(&b, "  %-"+strconv.Itoa(width)+"s   %s\n", url, term.PlainText(l))
				url = ""
			}
		}
		b.WriteString("  ")
		if !n.asked {
			b.WriteString("No request was sent. ")
		}
		b.WriteString("Add these flags to the command to retry the seeds.\n")
	}
	_, _ = io.WriteString(out, b.String())
}
