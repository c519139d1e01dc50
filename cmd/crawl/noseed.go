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

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/weburl"
)

// fetchedNothing is true for a crawl that came to its end without a single response.
func fetchedNothing(res *crawl.Result) bool {
	return res.Stop == crawl.StopDone && res.Snapshot.Count(state.CountResponses) == 0
}

// Bounds of what is said of seeds.
const (
	maxSeedsExplained = 10
	maxSeedLines      = 1000 // that are looked at for them
	seedLookupTime    = 5 * time.Second
)

// noSeed is why a crawl has no response.
type noSeed struct {
	seeds  int          // that were looked at
	faults []seedFaults // of those that the flags forbid
	asked  bool         // something was asked of somebody
}

// seedFaults are what keeps a seed from being fetched, and which flag would help.
type seedFaults struct {
	url   string
	lines []string
}

// whyNoSeed looks at the first seeds as the crawl did.
func whyNoSeed(opt *crawl.Options, res *crawl.Result) *noSeed {
	n := &noSeed{asked: res.Snapshot.Count(state.CountAttempts)+res.Snapshot.Count(state.CountRobotsAttempts) > 0}
	file, err := opt.FS.OpenRead(opt.Seeds)
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
		if f := seedFaultsOf(ctx, opt, url); len(f.lines) > 0 && len(n.faults) < maxSeedsExplained {
			n.faults = append(n.faults, f)
		}
	}
	return n
}

// seedFaultsOf says which flags a seed lacks.
func seedFaultsOf(ctx context.Context, opt *crawl.Options, url string) seedFaults {
	f := seedFaults{url: url}
	parts := weburl.Split([]byte(url))
	if !opt.AllowedPort(parts.Port) {
		f.lines = append(f.lines, fmt.Sprintf("port %d: add --ports %[1]d", parts.Port))
	}
	host := strings.Trim(string(parts.Host), "[]")
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if !opt.AllowedAddr(addr) {
			f.lines = append(f.lines, fmt.Sprintf("%v is not public: add --allow-net %v", addr, netip.PrefixFrom(addr, addr.BitLen())))
		}
		return f
	}
	found, err := opt.Resolver.LookupHost(ctx, host, host)
	if err != nil || slices.ContainsFunc(found.Addrs, opt.AllowedAddr) {
		return f
	}
	for _, a := range found.Addrs {
		f.lines = append(f.lines, fmt.Sprintf("%s is at %v, which is not public: add --allow-net %v", host, a, netip.PrefixFrom(a, a.BitLen())))
	}
	return f
}

// print says what to do.
func (n *noSeed) print(out io.Writer) {
	var b strings.Builder
	switch {
	case n.seeds == 0:
		b.WriteString("drumbeat: no page: there is no URL among the seeds\n")
	case len(n.faults) == 0:
		b.WriteString("drumbeat: no page: no seed could be fetched; the summary and the seed log say why\n")
	default:
		who := fmt.Sprintf("%d of %d seeds are", len(n.faults), n.seeds)
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
			b.WriteString("Nothing was asked of anybody. ")
		}
		b.WriteString("The same command with these flags tries them again.\n")
	}
	_, _ = io.WriteString(out, b.String())
}
