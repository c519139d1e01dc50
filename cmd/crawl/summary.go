package crawl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/state"
	"drumbeat/warc/outfile"
)

// Summary is what the end of a crawl is told from.
type Summary struct {
	Result   *crawl.Result
	Dirs     []string
	out      []string
	RAM      int64
	Finished bool     // nothing was done: the crawl had ended before
	More     []string // further lines, "name: text"
	Next     []string // what to try next
	Removed  bool     // the directory is temporary
}

// PrintSummary prints the end of a crawl for a person.
func PrintSummary(out io.Writer, sum Summary) error {
	s := &sum.Result.Snapshot
	n := humanize.Comma
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	pages := s.Count(state.CountPages)
	if sum.Finished {
		fmt.Fprintf(&b, "This crawl is finished: %s pages. Seeds that are new in the file would be added.\n", n(pages))
	} else {
		fmt.Fprintf(&b, "Ended (%s) after %s: %s pages", sum.Result.Stop, short(s.Elapsed), n(pages))
		if sec := s.Active.Seconds(); sec > 0 {
			fmt.Fprintf(&b, ", %.0f pages/s by wall time", float64(pages)/sec)
			if s.Active > s.Elapsed+s.Elapsed/100 {
				fmt.Fprintf(&b, " of all runs (%s)", short(s.Active))
			}
		}
		b.WriteString("\n")
	}
	line("responses", "%s (%s), %s received, %s retries", n(s.Count(state.CountResponses)), statusText(s.Status),
		bytesText(s.Count(state.CountBytesWire)), n(s.Count(state.CountRetries)))
	line("links", "%s found, %s unique URLs, p = %.3f", n(s.Count(state.CountLinks)), n(s.Unique), uniqueShare(s))
	if text := droppedText(s); text != "" {
		line("not taken", "%s", text)
	}
	if rewritten, unread := s.Count(state.CountURLsRewritten), s.Count(state.CountBodiesRefused); rewritten+unread > 0 {
		line("by rules", "%s links rewritten, %s bodies not read for their type", n(rewritten), n(unread))
	}
	if cut, odd := s.Count(state.CountTruncated), s.Count(state.CountDecodeCut); cut+odd > 0 {
		line("cut", "%s bodies at a limit or by their server, %s while being decoded", n(cut), n(odd))
	}
	line("refused", "%s%s", n(s.Place(state.PlaceRefused)), reasons(s.Refused))
	if n := s.Count(state.CountRefusals) + s.Count(state.CountHostRests) + s.Count(state.CountHostsGivenUp); n > 0 {
		line("trouble", "%s", troubleText(s))
	}
	if bugs := s.Count(state.CountInternalErrors); bugs > 0 {
		line("bugs", "%s answers made this program panic, which was contained: please report the stacks in the log", n(bugs))
	}
	if waiting := waitingText(s); waiting != "" {
		line("not fetched", "%s", waiting)
	}
	if dropped := s.Count(state.CountLinksDraining); dropped > 0 {
		line("draining", "%s links not queued", n(dropped))
	}
	line("hosts", "%s on %s servers (estimated), %s PLDs", n(s.Hosts), n(s.Servers), n(s.PLDs))
	line("disk", "%s read, %s written; URLseen made %d passes", bytesText(s.DiskRead), bytesText(s.DiskWritten), s.URLSeenPasses)
	if s.Seen.Links > 0 {
		line("model", "%s", modelText(&s.Seen))
	}
	if maps := s.Count(state.CountSitemaps); maps > 0 {
		line("sitemaps", "%s read, %s URLs in them; %s that could not be read or may not be there", n(maps),
			n(s.Count(state.CountSitemapURLs)), n(s.Count(state.CountSitemapFaults)))
	}
	if c := s.Checkpoint; c.Number > 0 {
		line("checkpoints", "%s; the longest took %s, paused all steps for %s, held up one for %s", n(s.Count(state.CountCheckpoints)),
			short(c.LongestTotal), short(c.LongestPause), short(c.LongestStall))
	}
	if f := &sum.Result.Finished; f.Files > 0 {
		line("output", "%s", finishedText(f))
	}
	line("machine", "%s", machineText(sum.RAM))
	for _, text := range sum.More {
		name, rest, _ := strings.Cut(text, ": ")
		line(name, "%s", rest)
	}
	b.Write(seedsText(sum.Result.Seeds))
	b.Write(placesText(&sum))
	_, err := out.Write(b.Bytes())
	return err
}

// shownFinished is how many finished files are named.
const shownFinished = 6

// finishedText says which output files are finished.
func finishedText(f *outfile.Finished) string {
	text := fmt.Sprintf("%s files finished, %s", humanize.Comma(f.Files), bytesText(f.Bytes))
	if f.Files > shownFinished {
		return text
	}
	for _, path := range f.Paths {
		text += "\n              " + path
	}
	return text
}

// droppedText lists the links that never became URLs of the crawl, by reason.
func droppedText(s *crawl.Snapshot) string {
	var parts []string
	for _, c := range [...]struct {
		name string
		n    state.Counter
	}{{"no URL", state.CountLinksInvalid}, {"other schemes", state.CountLinksScheme}, {"other ports", state.CountLinksPort},
		{"too long", state.CountLinksTooLong}, {"out of scope", state.CountLinksScope}, {"by rules", state.CountLinksRules},
		{"blacklisted", state.CountLinksBlocked}, {"too deep", state.CountLinksDepth}, {"too many redirects", state.CountLinksRedirects},
		{"no HTML by their names", state.CountLinksExtension}, {"too many path segments", state.CountLinksPathDepth},
		{"repeated path segments", state.CountLinksRepeated}, {"too many parameters", state.CountLinksParams},
		{"nofollow", state.CountLinksFiltered}, {"beyond a page's limit", state.CountLinksDropped}} {
		if n := s.Count(c.n); n > 0 {
			parts = append(parts, c.name+" "+humanize.Comma(n))
		}
	}
	return strings.Join(parts, ", ")
}

func statusText(status [6]int64) string {
	var parts []string
	for i, n := range status {
		if n > 0 {
			name := fmt.Sprintf("%dxx", i)
			if i == 0 {
				name = "other"
			}
			parts = append(parts, name+" "+humanize.Comma(n))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// troubleText says how hosts treated us that didn't serve us.
func troubleText(s *crawl.Snapshot) string {
	n := humanize.Comma
	return fmt.Sprintf("%s refusals (%s of them challenge pages); hosts rested for long %s times, %s were given up for good",
		n(s.Count(state.CountRefusals)), n(s.Count(state.CountChallenges)), n(s.Count(state.CountHostRests)), n(s.Count(state.CountHostsGivenUp)))
}

// waitingText lists the places where URLs still are.
func waitingText(s *crawl.Snapshot) string {
	var parts []string
	for i, name := range crawl.PlaceNames() {
		p := state.Place(i)
		if n := s.Place(p); n > 0 && p != state.PlaceFetched && p != state.PlaceRefused {
			parts = append(parts, name+" "+humanize.Comma(n))
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" && s.Place(state.PlaceDeferred) > 0 {
		text += reasons(s.Deferred)
	}
	return text
}

// seedsText lists the seeds without yield.
func seedsText(seeds []string) []byte {
	if len(seeds) == 0 {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Seeds that yielded nothing (%d", len(seeds))
	if len(seeds) >= crawl.MaxSeedReports {
		b.WriteString(" and maybe more; the seed log has all")
	}
	b.WriteString("):\n")
	for _, seed := range seeds {
		fmt.Fprintf(&b, "  %s\n", term.PlainText(seed)) // one line, whatever the seed file held
	}
	return b.Bytes()
}

// placesText says where the output lies and what can be done with it.
func placesText(sum *Summary) []byte {
	var b bytes.Buffer
	if sum.Removed {
		b.WriteString("Output: removed with the temporary directory; --dir DIR keeps it.\nNext:\n")
		for _, text := range append(slices.Clone(sum.Next), "drumbeat demo --dir demo && drumbeat audit demo   proves that no URL was lost") {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		return b.Bytes()
	}
	out := sum.out
	if len(out) == 0 {
		out = sum.Dirs
	}
	b.WriteString("Output:\n")
	for _, dir := range out {
		fmt.Fprintf(&b, "  pages   %s/warc/*.warc.gz and *.cdxj\n", dir)
	}
	for _, dir := range sum.Dirs {
		fmt.Fprintf(&b, "  logs    %s/log\n", dir)
	}
	next := slices.Clone(sum.Next)
	if sum.Result.Stop != crawl.StopDone && !sum.Finished {
		next = append(next, "the same command goes on from here")
	}
	next = append(next, "drumbeat audit "+strings.Join(sum.Dirs, " ")+"   proves that no URL was lost")
	b.WriteString("Next:\n")
	for _, text := range next {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	return b.Bytes()
}

// machineText says what the process took of the machine.
func machineText(ram int64) string {
	text := fmt.Sprintf("garbage collection took %.0f %% of the CPU time", 100*gcShare())
	if peak := peakRSS(); peak > 0 {
		text = fmt.Sprintf("at most %s of RAM (--ram %s), %s", humanize.IBytes(uint64(peak)), flags.Size(ram), text)
	}
	return text
}

// gcShare is the share of the process's CPU time that went into garbage collection.
func gcShare() float64 {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
	metrics.Read(samples)
	v := func(i int) float64 { return samples[i].Value.Float64() }
	if busy := v(1) - v(2); busy > 0 {
		return (v(0) - v(3)) / busy
	}
	return 0
}

// peakRSS is the most RAM that the process has held, in bytes; 0 if the system doesn't tell.
func peakRSS() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int64
	if _, after, ok := strings.Cut(string(data), "VmHWM:"); ok {
		if _, err := fmt.Sscan(after, &kib); err != nil {
			return 0
		}
	}
	return kib << 10
}

// WithinBounds says whether the process kept to what it was given: --ram and a tenth more, a quarter of the CPU time for
// garbage collection.
func WithinBounds(ram int64) error {
	if peak := peakRSS(); peak > ram+ram/10 {
		return fmt.Errorf("%s of RAM were in use, --ram is %s", humanize.IBytes(uint64(peak)), flags.Size(ram))
	}
	if share := gcShare(); share > 0.25 {
		return fmt.Errorf("garbage collection took %.0f %% of the CPU time, want 25 %% at most", 100*share)
	}
	return nil
}
