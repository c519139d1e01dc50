package crawl

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/output"
	"drumbeat/internal/cputime"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// Summary holds what PrintSummary prints.
type Summary struct {
	Result   *crawl.Result
	Dirs     []string
	out      []string
	format   warc.Format // of new WARC files
	extract  string      // where texts go; "" without --extract
	RAM      int64
	Finished bool     // the crawl had ended before, so this run did nothing
	More     []string // further lines, "name: text"
	Page     string   // a URL that get may ask for; "" for none
	Next     []string // suggested commands
	Removed  bool     // the directory is temporary
}

// lines are the lines of a summary, each with a name.
type lines struct{ bytes.Buffer }

func (l *lines) add(name, format string, args ...any) {
	fmt.Fprintf(l, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
}

// addText adds a line unless its text is "".
func (l *lines) addText(name, text string) {
	if text != "" {
		l.add(name, "%s", text)
	}
}

// PrintSummary prints the summary of a crawl in words.
func PrintSummary(out io.Writer, sum Summary) error {
	s := &sum.Result.Snapshot
	var l lines
	l.WriteString(firstLine(&sum))
	l.addExchanges(s)
	l.addPages(s)
	l.addParts(s, sum.extract)
	l.addEnds(s)
	l.addMachine(&sum)
	for _, text := range sum.More {
		name, rest, _ := strings.Cut(text, ": ")
		l.add(name, "%s", rest)
	}
	l.Write(seedsText(sum.Result.Seeds))
	l.Write(placesText(&sum))
	_, err := out.Write(l.Bytes())
	return err
}

// firstLine says how the crawl ended, and how many pages it has.
func firstLine(sum *Summary) string {
	var text strings.Builder
	s := &sum.Result.Snapshot
	pages := s.Count(state.CountPages)
	if sum.Finished {
		fmt.Fprintf(&text, "This crawl is finished: %s. To continue it, add new seeds.\n",
			human.Counted(pages, "page", "pages"))
	} else {
		fmt.Fprintf(&text, "Ended (%s) after %s: %s", sum.Result.Stop, human.Duration(s.Elapsed),
			human.Counted(pages, "page", "pages"))
		if sec := s.Active.Seconds(); sec > 0 && pages > 0 {
			fmt.Fprintf(&text, ", %s by wall time", condition.Rate(float64(pages)/sec))
			if s.Active > s.Elapsed+s.Elapsed/100 {
				fmt.Fprintf(&text, " of all runs (%s)", human.Duration(s.Active))
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// addExchanges adds lines of responses, links and bodies.
func (l *lines) addExchanges(s *crawl.Snapshot) {
	n := humanize.Comma
	l.add("responses", "%s (%s), %s received, %s", n(s.Count(state.CountResponses)), statusText(s.Status),
		human.Bytes(s.Count(state.CountBytesWire)),
		human.Counted(s.Count(state.CountRetries), "retry", "retries"))
	if two := s.Count(state.CountHTTP2); two > 0 {
		l.add("HTTP/2", "%s", human.Counted(two, "response", "responses"))
	}
	l.addText("certificates", certificatesText(s))
	l.addText("signatures", condition.Signatures(s.Count))
	l.addText("compressed", codingsText(s))
	l.add("links", "%s found, %s%s", n(s.Count(state.CountLinks)),
		human.Counted(s.Unique, "unique URL", "unique URLs"), shareText(s))
	if text := droppedText(s); text != "" {
		l.add("dropped", "links: %s", text)
	}
	if rewritten, unread := s.Count(state.CountURLsRewritten), s.Count(state.CountBodiesRefused); rewritten+unread > 0 {
		l.add("by rules", "%s rewritten, %s skipped by type", human.Counted(rewritten, "link", "links"),
			human.Counted(unread, "body", "bodies"))
	}
	if cut, odd := s.Count(state.CountTruncated), s.Count(state.CountDecodeCut); cut+odd > 0 {
		l.add("cut", "%s at a limit or by the server, %s during decoding",
			human.Counted(cut, "body", "bodies"), n(odd))
	}
	if spooled := s.Count(state.CountSpooled); spooled > 0 {
		l.add("spooled", "%s, %s", human.Counted(spooled, "body", "bodies"),
			human.Bytes(s.Count(state.CountBytesSpooled)))
	}
}

// addPages adds lines of pages that are visited again, repeat others, or wait.
func (l *lines) addPages(s *crawl.Snapshot) {
	n := humanize.Comma
	if same := s.Count(state.CountDuplicates); same > 0 {
		l.add("duplicates", "%s seen before; %s stored as revisits, without %s of bodies",
			human.Counted(same, "body", "bodies"),
			n(s.Count(state.CountRevisits)), human.Bytes(s.Count(state.CountBytesRevisits)))
	}
	if near := s.Count(state.CountNearCopies); near > 0 {
		l.add("near-duplicates", "%s a kept page of the host; %s stored without %s of bodies",
			human.Counted(near, "page nearly repeats", "pages nearly repeat"),
			n(s.Count(state.CountNearNotes)), human.Bytes(s.Count(state.CountBytesNear)))
	}
	if visits := s.Count(state.CountVisits); visits > 0 {
		l.add("visited",
			"%s of URLs that were visited before: %s unchanged (%s with status 304); %s given up",
			human.Counted(visits, "response", "responses"), n(s.Count(state.CountUnchanged)),
			n(s.Count(state.CountNotModified)),
			human.Counted(s.Count(state.CountGone), "URL", "URLs"))
	}
	if watched := s.Count(state.CountWatched); watched > 0 {
		met, missed := s.Count(state.CountWatchMet), s.Count(state.CountWatchMissed)
		l.add("watched", "%s: %s fetched in time, %s missed, %s waiting", human.Counted(watched, "URL", "URLs"), n(met),
			n(missed), n(watched-met-missed))
	}
	if traps := s.Count(state.CountTrapURLs); traps > 0 {
		l.add("traps",
			"%s repeat others of their host; hosts with a part of their PLD's budget: %s, with %s",
			human.Counted(s.Count(state.CountRepeated), "page", "pages"), n(s.TrapHosts),
			human.Counted(traps, "URL", "URLs"))
	}
	if s.LevelsForgotten > 0 {
		l.add("levels", "hosts or directories had no room in RAM %s, and may count as those without links; "+
			"a larger --ram has room for more", human.Counted(s.LevelsForgotten, "time", "times"))
	}
	if waiting := s.Place(state.PlaceContent); waiting > 0 {
		l.add("waiting", "%s for the comparison of their bodies; the next run stores them",
			human.Counted(waiting, "fetched page waits", "fetched pages wait"))
	}
}

// addParts adds lines of the parts of a crawl that it has only if flags ask for them.
func (l *lines) addParts(s *crawl.Snapshot, extract string) {
	l.addText("rendered", renderText(s))
	l.addText("texts", extractText(s, extract))
	l.addText("store", uploadsText(s))
	l.addText("backup", backupText(s))
	if s.Cluster.Nodes > 0 {
		l.add("cluster", "%s", brokerText(s))
		l.addText("leases", leaseText(s))
	}
	for _, text := range pairTexts(s) {
		l.add("", "%s", text)
	}
	l.addText("hook", hookText(s))
}

// addEnds adds lines of URLs that were refused or not fetched.
func (l *lines) addEnds(s *crawl.Snapshot) {
	n := humanize.Comma
	l.add("refused", "%s%s", n(s.Place(state.PlaceRefused)), reasons(s.Refused))
	if n := s.Count(state.CountRefusals) + s.Count(state.CountHostRests) + s.Count(state.CountHostsGivenUp); n > 0 {
		l.add("refusals", "%s", refusalsText(s))
	}
	if asked := s.Count(state.CountPayments); asked > 0 {
		l.add("payment", "%s for payment, and nothing was paid: export hosts lists their prices",
			human.Counted(asked, "response asked", "responses asked"))
	}
	if bugs := s.Count(state.CountInternalErrors); bugs > 0 {
		l.add("bugs",
			"%s caused a contained panic in this program: please report the stack traces in the log",
			human.Counted(bugs, "response", "responses"))
	}
	for _, left := range condition.LeftOf(s) {
		l.add("left", "%s: %s", left.Text, left.Do)
	}
	if dropped := s.Count(state.CountLinksDraining); dropped > 0 {
		l.add("draining", "%s not queued", human.Counted(dropped, "link", "links"))
	}
}

// addMachine adds lines of the sites, the disk and the machine.
func (l *lines) addMachine(sum *Summary) {
	s := &sum.Result.Snapshot
	n := humanize.Comma
	l.add("hosts", "%s on %s (estimated), %s", n(s.Hosts), human.Counted(s.Servers, "server", "servers"),
		human.Counted(s.PLDs, "PLD", "PLDs"))
	if large(s) {
		l.add("disk", "%s read, %s written", human.Bytes(s.DiskRead), human.Bytes(s.DiskWritten))
	}
	if s.Seen.Links > 0 && large(s) {
		l.add("model", "%s; %s of URLseen", modelText(&s.Seen),
			human.Counted(s.URLSeenPasses, "pass", "passes"))
	}
	if maps := s.Count(state.CountSitemaps); maps > 0 {
		l.add("sitemaps", "%s read with %s; %s or URLs refused as bad or out of place", n(maps),
			human.Counted(s.Count(state.CountSitemapURLs), "URL", "URLs"),
			human.Counted(s.Count(state.CountSitemapFaults), "sitemap", "sitemaps"))
	}
	if c := s.Checkpoint; c.Number > 0 && large(s) {
		l.add("checkpoints", "%s; longest %s; longest pause of all transactions %s, longest delay of one %s",
			n(s.Count(state.CountCheckpoints)), human.Duration(c.LongestTotal), human.Duration(c.LongestPause),
			human.Duration(c.LongestStall))
	}
	if f := &sum.Result.Finished; f.Files > 0 {
		l.add("output", "%s", finishedText(f))
	}
	l.add("machine", "%s", machineText(sum.RAM))
}

// shownFinished is the largest number of finished files to list by name.
const shownFinished = 6

// finishedText describes the finished output files.
func finishedText(f *outfile.Finished) string {
	text := fmt.Sprintf("%s finished, %s", human.Counted(f.Files, "file", "files"), human.Bytes(f.Bytes))
	if f.Files > shownFinished {
		return text
	}
	for _, path := range f.Paths {
		text += "\n              " + path
	}
	return text
}

// certificatesText formats the number of exchanges with bad certificates by verdict; "" without any.
func certificatesText(s *crawl.Snapshot) string {
	var parts []string
	for i, verdict := range state.TLSVerdicts {
		if n := s.Count(state.CountTLSBad + state.Counter(i)); n > 0 {
			parts = append(parts, verdict+" "+humanize.Comma(n))
		}
	}
	if parts == nil {
		return ""
	}
	return "exchanges with servers whose certificate is not good: " + strings.Join(parts, ", ")
}

// droppedText formats the number of dropped links by reason.
func droppedText(s *crawl.Snapshot) string {
	var parts []string
	for _, c := range [...]struct {
		name string
		n    state.Counter
	}{{"not a URL", state.CountLinksInvalid}, {"other schemes", state.CountLinksScheme},
		{"other ports", state.CountLinksPort}, {"too long", state.CountLinksTooLong},
		{"out of scope", state.CountLinksScope}, {"by rules", state.CountLinksRules},
		{"blacklisted", state.CountLinksBlocked}, {"too deep", state.CountLinksDepth},
		{"too many redirects", state.CountLinksRedirects},
		{"skipped by extension", state.CountLinksExtension}, {"too many path segments", state.CountLinksPathDepth},
		{"repeated path segments", state.CountLinksRepeated}, {"too many parameters", state.CountLinksParams},
		{"nofollow", state.CountLinksFiltered}, {"by the hook", state.CountLinksHook},
		{"to sites with secrets", state.CountLinksForeign}, {"over the limit per page", state.CountLinksDropped}} {
		if n := s.Count(c.n); n > 0 {
			parts = append(parts, c.name+" "+humanize.Comma(n))
		}
	}
	return strings.Join(parts, ", ")
}

// hookText formats what the hook did; "" without one.
func hookText(s *crawl.Snapshot) string {
	asked := int64(0)
	for _, c := range [...]state.Counter{state.CountHookAnswers, state.CountHookTimeouts, state.CountHookFailures,
		state.CountHookRefused} {
		asked += s.Count(c)
	}
	none := s.Count(state.CountHookUnasked)
	if asked+none == 0 {
		return ""
	}
	n := func(c state.Counter) string { return humanize.Comma(s.Count(c)) }
	wait := time.Duration(s.Count(state.CountHookMicros)) * time.Microsecond / time.Duration(asked+none)
	text := fmt.Sprintf("%s answered for, %s not stored, %s not followed, %s added; mean wait %s",
		human.Counted(s.Count(state.CountHookAnswers), "page", "pages"), n(state.CountHookDropped),
		n(state.CountHookUnfollowed), human.Counted(s.Count(state.CountHookLinks), "link", "links"),
		human.Duration(wait))
	if asked+none > s.Count(state.CountHookAnswers) {
		text += fmt.Sprintf("; without an answer: %s too late, %s failed, %s over a limit, %s not asked; %s",
			n(state.CountHookTimeouts), n(state.CountHookFailures), n(state.CountHookRefused),
			n(state.CountHookUnasked), human.Counted(s.Count(state.CountHookRestarts), "restart", "restarts"))
	}
	return text
}

// renderText formats what the browser did; "" if no page was to be rendered.
func renderText(s *crawl.Snapshot) string {
	if s.Count(state.CountRenderWanted) == 0 {
		return ""
	}
	n := func(c state.Counter) string { return humanize.Comma(s.Count(c)) }
	left := s.Count(state.CountRenderWanted) - s.Count(state.CountRendered) - s.Count(state.CountRenderFailed) -
		s.Count(state.CountRenderSkipped)
	return fmt.Sprintf("%s of %s, %s of them cut at a limit; %s without the browser, %s too large or over "+
		"--render-limits queue, %s wait; %s, %s from RAM, %s refused; %s for replay; browser lost %s",
		n(state.CountRendered), human.Counted(s.Count(state.CountRenderWanted), "page", "pages"),
		n(state.CountRenderedCut), n(state.CountRenderFailed),
		n(state.CountRenderSkipped), humanize.Comma(left),
		human.Counted(s.Count(state.CountRenderRequests), "request", "requests"),
		n(state.CountRenderCached),
		n(state.CountRenderRefused), human.Counted(s.Count(state.CountRenderParts), "page resource", "page resources"),
		human.Counted(s.Count(state.CountRenderLost), "time", "times"))
}

// codingsText formats responses and bytes by content coding, "" without a compressed body.
func codingsText(s *crawl.Snapshot) string {
	var parts []string
	for i, coding := range state.Codings {
		c := state.Counter(i)
		if n := s.Count(state.CountCoded + c); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s for %s)", coding, humanize.Comma(n),
				human.Bytes(s.Count(state.CountBytesCoded+c)), human.Bytes(s.Count(state.CountBytesUncoded+c))))
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
			parts = append(parts, state.PlaceText(name)+" "+humanize.Comma(n))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// refusalsText formats the numbers of refusals and of hosts that failed.
func refusalsText(s *crawl.Snapshot) string {
	n := humanize.Comma
	return fmt.Sprintf("%s, %s of them challenge pages; %s long back-offs of hosts, %s given up",
		n(s.Count(state.CountRefusals)), n(s.Count(state.CountChallenges)), n(s.Count(state.CountHostRests)),
		human.Counted(s.Count(state.CountHostsGivenUp), "host", "hosts"))
}

// seedsText lists the failed seeds.
func seedsText(seeds []string) []byte {
	if len(seeds) == 0 {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Failed seeds (%d", len(seeds))
	if len(seeds) >= output.MaxSeedReports {
		b.WriteString(" or more; the seed log has all")
	}
	b.WriteString("):\n")
	for _, seed := range seeds {
		if i := strings.LastIndex(seed, ": "); i >= 0 {
			words, _ := state.ReasonText(seed[i+2:])
			seed = seed[:i+2] + words
		}
		fmt.Fprintf(&b, "  %s\n", term.PlainText(seed)) // a seed may contain anything
	}
	return b.Bytes()
}

// placesText names the output files and suggests commands.
func placesText(sum *Summary) []byte {
	var b bytes.Buffer
	if sum.Removed {
		b.WriteString("Output: removed with the temporary directory; --dir DIR keeps it.\nNext:\n")
		for _, text := range sum.Next {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		return b.Bytes()
	}
	out := sum.out
	if len(out) == 0 {
		out = sum.Dirs
	}
	b.WriteString("Output:\n")
	suffix := "gz"
	if sum.format == warc.Zstd {
		suffix = "zst"
	}
	if sum.Result.Snapshot.Count(state.CountResponses) == 0 {
		out = nil // no response, no file
	}
	for _, dir := range out {
		fmt.Fprintf(&b, "  pages   %s/warc/*.warc.%s and *.cdxj\n", dir, suffix)
	}
	for _, dir := range sum.Dirs {
		fmt.Fprintf(&b, "  logs    %s/log\n", dir)
	}
	b.WriteString("Next:\n")
	for _, text := range nextSteps(sum) {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	return b.Bytes()
}

// nextSteps suggests what to do with a crawl, the most useful first.
func nextSteps(sum *Summary) (next []string) {
	if sum.Result.Stop != crawl.StopDone && !sum.Finished {
		next = append(next, "the same command resumes this crawl")
	}
	dirs := strings.Join(sum.Dirs, " ")
	next = append(next, "drumbeat report "+dirs+"   writes the results as a page, report.html")
	switch {
	case sum.Page == "":
	case sum.Result.Snapshot.Count(state.CountPages) == 0:
		next = append(next, "drumbeat explain url "+sum.Page+" --dir "+strings.Join(sum.Dirs, " --dir ")+
			"   says why it was not fetched")
	default:
		get := "drumbeat get " + sum.Page + " " + dirs + " --text"
		for _, out := range sum.out {
			get += " --out " + out
		}
		next = append(next, get+"   prints a stored page")
	}
	if sum.Result.Snapshot.Count(state.CountWatchMissed) > 0 {
		next = append(next, "drumbeat audit --known "+filepath.Join(sum.Dirs[0], WatchCopy)+" "+dirs+
			"   lists the missed URLs, with reasons")
	}
	next = append(next, sum.Next...)
	return append(next, "drumbeat audit "+dirs+"   checks that no URL was lost")
}

// machineText formats the RAM and the garbage collection of the process.
func machineText(ram int64) string {
	share, _ := gcShare()
	text := fmt.Sprintf("garbage collection took %.0f %% of the CPU time", 100*share)
	if peak := peakRSS(); peak > 0 {
		text = fmt.Sprintf("peak RAM %s (--ram %s), %s", human.Bytes(peak), human.Bytes(ram), text)
	}
	return text
}

// gcShare returns the share of the process's CPU time spent in garbage collection, and that CPU time in seconds.
func gcShare() (share, busy float64) {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
	metrics.Read(samples)
	v := func(i int) float64 { return samples[i].Value.Float64() }
	if busy = v(1) - v(2); busy > 0 {
		share = (v(0) - v(3)) / busy
	}
	return share, busy
}

// gcCounts is the CPU time in seconds from which the share of garbage collection is judged. In less, the start counts
// too much, and so does a machine that is busy with other work: time without a CPU counts as work, too.
const gcCounts = 10

// ramUsed returns the RAM of this process in bytes; 0 if it is unknown.
func ramUsed() int64 {
	now, _ := cputime.RSS(0)
	return now
}

// peakRSS returns the peak RAM of this process in bytes; 0 if it is unknown.
func peakRSS() int64 {
	_, peak := cputime.RSS(0)
	return peak
}

// WithinBounds returns an error if the peak RAM exceeds 1.1 ram, or garbage collection a quarter of the CPU
// time.
func WithinBounds(ram int64) error {
	if peak := peakRSS(); peak > ram+ram/10 {
		return fmt.Errorf("peak RAM %s exceeds --ram %s by more than 10 %%", human.Bytes(peak),
			human.Bytes(ram))
	}
	if share, busy := gcShare(); busy >= gcCounts && share > 0.25 {
		return fmt.Errorf("garbage collection took %.0f %% of the CPU time, more than 25 %%", 100*share)
	}
	return nil
}
