package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"drumbeat/crawl"
)

// logEvery is the time between two lines of progress where there is no terminal.
const logEvery = 10 * time.Second

// view is what a person sees of a running crawl: on a terminal a block of lines that is written anew each second,
// elsewhere a line every 10 s. Everything else that is printed meanwhile goes through Write, which keeps the block last.
type view struct {
	level slog.Level
	quiet bool
	width func() int // columns of the terminal; nil where there is none
	log   *slog.Logger
	watch func(*crawl.Snapshot) // gets each snapshot; nil: nobody

	mu    sync.Mutex // guards what follows; terminal output happens under it
	out   io.Writer
	block []byte // the block as it stands on the terminal
	lines int    // of it
	last  time.Time
}

// newView prints to out, and knows a terminal when it sees one.
func newView(out io.Writer, quiet bool, level slog.Level) *view {
	v := &view{out: out, quiet: quiet, level: level, last: time.Now()}
	if quiet {
		v.level = max(level, slog.LevelWarn)
	}
	v.log = slog.New(slog.NewTextHandler(v, &slog.HandlerOptions{Level: v.level}))
	if f, ok := out.(*os.File); ok && !quiet && terminalWidth(f) > 0 {
		v.width = func() int { return max(20, terminalWidth(f)) }
	}
	return v
}

// terminalWidth is the number of columns of the terminal that f is; 0 if it is none.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal that doesn't know its size
	}
	return int(size.Col)
}

// Write prints whole lines above the block.
func (v *view) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lines == 0 {
		return v.out.Write(p)
	}
	text := append(v.erase(), p...)
	if _, err := v.out.Write(append(text, v.block...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// erase moves to the block's first line and clears to the end of the screen.
func (v *view) erase() []byte { return fmt.Appendf(nil, "\x1b[%dF\x1b[J", v.lines) }

// note prints what the person should know before the crawl begins.
func (v *view) note(text string) {
	if rest, ok := strings.CutPrefix(text, "WARNING: "); ok {
		v.log.Warn(rest)
		return
	}
	v.log.Info(text)
}

// show takes the newest snapshot; it is called once a second.
func (v *view) show(s *crawl.Snapshot) {
	if v.watch != nil {
		v.watch(s)
	}
	if v.quiet {
		return
	}
	if v.width == nil {
		if s.Time.Sub(v.last) >= logEvery {
			v.last = s.Time
			v.log.Info("progress", progressFields(s)...)
		}
		return
	}
	width := v.width()
	var block bytes.Buffer
	var lines []string
	for _, line := range progressLines(s) {
		lines = append(lines, fit(line, width)...)
	}
	for _, line := range lines {
		block.WriteString(line + "\n")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	text := block.Bytes()
	if v.lines > 0 {
		text = append(v.erase(), text...)
	}
	if _, err := v.out.Write(text); err == nil {
		v.block, v.lines = block.Bytes(), len(lines)
	}
}

// fitIndent stands before what a line of the block is continued with.
const fitIndent = "            "

// maxFitLines bounds what one line of the block may take of a narrow terminal; the rest is cut.
const maxFitLines = 4

// fit breaks a line at blanks into lines shorter than width: nothing of it is lost, and the block stays as wide as the terminal.
func fit(line string, width int) (lines []string) {
	rest := []rune(line)
	for len(rest) >= width {
		cut := width - 1
		if len(lines) == maxFitLines-1 {
			return append(lines, string(rest[:cut]))
		}
		for i := cut; i > max(width/2, len(fitIndent)); i-- {
			if rest[i] == ' ' {
				cut = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:cut]), " "))
		next := strings.TrimLeft(string(rest[cut:]), " ")
		if width > 2*len(fitIndent) {
			next = fitIndent + next
		}
		rest = []rune(next)
	}
	return append(lines, string(rest))
}

// close leaves the last block where it is.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = 0
}

// progressFields are the fields of a line of progress.
func progressFields(s *crawl.Snapshot) []any {
	fields := []any{"pages", s.Count(crawl.CountPages), "pages_s", int64(s.PagesPerSecond),
		"mbit_s", fmt.Sprintf("%.1f", s.BitsPerSecond/1e6), "links", s.Count(crawl.CountLinks), "unique", s.Unique,
		"p", fmt.Sprintf("%.3f", uniqueShare(s))}
	for i, name := range crawl.PlaceNames() {
		if n := s.Place(crawl.Place(i)); n > 0 {
			fields = append(fields, name, n)
		}
	}
	fields = append(fields, "exchanges", s.InFlight, "goroutines", runtime.NumGoroutine())
	if c := s.Checkpoint; c.Number > 0 {
		fields = append(fields, "checkpoint", c.Number, "checkpoint_took", short(c.Total), "checkpoint_pause", short(c.Pause),
			"checkpoint_stall", short(c.Stall), "checkpoint_bytes", c.Bytes)
	}
	if c := s.Seen; c.Links > 0 {
		fields = append(fields, "urlseen_link_bytes", oneDecimal(c.Bytes), "predicted_link_bytes", oneDecimal(c.Predicted),
			"alpha", twoDecimals(c.Alpha), "predicted_alpha", twoDecimals(c.PredictedAlpha))
		if c.DiskRate > 0 {
			fields = append(fields, "disk_pages_s", int64(c.DiskRate), "predicted_disk_pages_s", int64(c.PredictedDiskRate))
		}
	}
	if s.Limits != "" {
		fields = append(fields, "limits", s.Limits)
	}
	if s.Waiting != "" {
		fields = append(fields, "waits_for", s.Waiting)
	}
	if s.SlotsNow.Samples > 0 {
		fields = append(fields, "slots", s.SlotsNow.String())
	}
	return fields
}

// progressLines are the block on a terminal.
func progressLines(s *crawl.Snapshot) []string {
	n := humanize.Comma
	places := func(from, to crawl.Place) string {
		var parts []string
		for p := from; p <= to; p++ {
			parts = append(parts, fmt.Sprintf("%s %s", p, n(s.Place(p))))
		}
		return strings.Join(parts, "  ")
	}
	limits := "none"
	if s.Limits != "" {
		limits = s.Limits
	}
	waiting := "nothing: all connections are busy"
	if s.Waiting != "" {
		waiting = s.Waiting
	}
	checkpoint := "none yet"
	if c := s.Checkpoint; c.Number > 0 {
		checkpoint = fmt.Sprintf("no. %d, %s ago, took %s, wrote %s, steps paused for %s (longest %s)", c.Number,
			short(s.Time.Sub(c.When)), short(c.Total), bytesText(c.Bytes), short(c.Pause), short(c.LongestPause))
	}
	return []string{
		fmt.Sprintf("%s  pages %s  %.0f/s  %.1f Mb/s", short(s.Elapsed), n(s.Count(crawl.CountPages)), s.PagesPerSecond, s.BitsPerSecond/1e6),
		fmt.Sprintf("  links     %s  %.0f/s  unique URLs %s  p %.3f", n(s.Count(crawl.CountLinks)), s.LinksPerSecond, n(s.Unique), uniqueShare(s)),
		"  upstream  " + places(crawl.PlaceUnstreamed, crawl.PlaceFailed),
		"  stock     " + places(crawl.PlaceRobotsCheck, crawl.PlaceRAM),
		"  waiting   " + places(crawl.PlaceLater, crawl.PlaceLater) + reasons(s.Later),
		"  ended     " + places(crawl.PlaceFetched, crawl.PlaceHeld) + reasons(s.Refused),
		fmt.Sprintf("  network   %d of %d connections  robots.txt %d under way, %s queued  hosts %s  servers %s  PLDs %s",
			s.InFlight, s.Connections, s.RobotsInFlight, n(s.RobotsQueued), n(s.Hosts), n(s.Servers), n(s.PLDs)),
		fmt.Sprintf("  disk      read %s  written %s  URLseen %s keys, %d passes  checkpoint %s",
			bytesText(s.DiskRead), bytesText(s.DiskWritten), n(s.URLSeenKeys), s.URLSeenPasses, checkpoint),
		"  model     " + modelText(&s.Seen),
		"  limits    " + limits,
		"  waits for " + waiting,
		"  slots     " + s.SlotsNow.String(),
	}
}

// modelText puts what URLseen and the disks did beside what was predicted of them.
func modelText(c *crawl.SeenCheck) string {
	if c.Links == 0 {
		return "no merge of URLseen yet"
	}
	text := fmt.Sprintf("URLseen I/O %s B a link, %s predicted (%s in full passes); alpha %s, %s predicted", oneDecimal(c.Bytes),
		oneDecimal(c.Predicted), oneDecimal(c.Full), twoDecimals(c.Alpha), twoDecimals(c.PredictedAlpha))
	if c.DiskRate > 0 {
		text += fmt.Sprintf("; at %s/s disks admit %s pages/s, %s predicted", bytesText(int64(c.DiskBandwidth)),
			humanize.Comma(int64(c.DiskRate)), humanize.Comma(int64(c.PredictedDiskRate)))
	}
	return text
}

func oneDecimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func twoDecimals(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// uniqueShare is the paper's p: how many of the links found led to a URL that had not been seen before.
func uniqueShare(s *crawl.Snapshot) float64 {
	if n := s.Count(crawl.CountLinks); n > 0 {
		return float64(s.Unique) / float64(n)
	}
	return 0
}

// reasons lists numbers by reason, the largest first.
func reasons(m map[string]int64) string {
	if len(m) == 0 {
		return ""
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, name := range names {
		names[i] = name + " " + humanize.Comma(m[name])
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func bytesText(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

// short is a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
