// Package erase is the command erase: it takes pages out of a stopped crawl.
//
// Command is its flags and prints the result. Package state/erase does the work: it rewrites the WARC files
// that have the pages, with their indexes, the logs and the queues, bars the URLs, and keeps a record of each
// request, which --report prints by day. --dry-run counts what would go.
//
// Exit codes: 0 if the pages are gone, term.ExitFailure (1) if the object store does not answer or keeps some of
// them, term.ExitUsage (2) for a faulty request, term.ExitDirectory (4) if the crawl is running or the directories
// do not belong to one crawl, term.ExitDamage (5) if a file is damaged, or for --dry-run while an erasure is
// unfinished, term.ExitDiskFull if there is no room for a copy of a file; the same command continues.
//
// The result is printed in words, or with --json as objects: the records that state/erase keeps.
//
// It takes the locks of the directories and runs in the caller's goroutine. Its steps go to standard error.
// --report takes no lock.
package erase

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/erase"
)

// Command is the table of erase's flags.
type Command struct {
	flags.CrawlDirs
	Host   []string `placeholder:"HOST"`
	PLD    []string `name:"pld" placeholder:"PLD"`
	URL    []string `name:"url" placeholder:"URL"`
	List   string   `placeholder:"FILE"`
	Also   []string `placeholder:"PATH"`
	Reason string   `placeholder:"TEXT"`
	Hide   bool
	DryRun bool
	Report bool
	Out    []string   `placeholder:"DIR"`
	RAM    flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
	JSON   bool       `name:"json"`
}

// Run erases pages of a stopped crawl, or prints the requests so far.
func (c *Command) Run(a *term.App) error {
	if c.Report {
		return c.report(a)
	}
	src := erase.Source{Hosts: c.Host, PLDs: c.PLD, URLs: c.URL, ListName: c.List}
	waiting := len(c.Host)+len(c.PLD)+len(c.URL) == 0 && c.List == "" && c.Reason == "" && !c.DryRun
	if c.List != "" {
		f, err := os.Open(c.List)
		if err != nil {
			return term.Usage(err)
		}
		defer f.Close()
		src.List = f
	}
	var also []string
	for _, name := range c.Also {
		name, err := filepath.Abs(name) // the next run may have another working directory
		if err != nil {
			return term.Usage(err)
		}
		also = append(also, name)
	}
	p := term.NewProgress(a.Stderr)
	rep, err := erase.Run(erase.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir),
		Out: flags.Clean(flags.Directories(c.Out)), Source: src, Also: also, Waiting: waiting, Reason: c.Reason,
		Hide: c.Hide, DryRun: c.DryRun, RAMBytes: int64(c.RAM), Progress: p.Say})
	p.Clear()
	if refused := (*erase.RequestError)(nil); errors.As(err, &refused) {
		return term.Usage(err)
	}
	if err != nil {
		return err
	}
	if waiting && rep.Finished == nil && rep.Waited == nil {
		return term.Usage(errors.New("no host, PLD or URL is given, and no request waits"))
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, reportOf(rep))
	} else {
		err = c.print(a.Stdout, rep, waiting)
	}
	return errors.Join(err, remains(rep.Left))
}

// resultJSON is the result of an erasure.
type resultJSON struct {
	Dry      bool          `json:"dry_run"`
	Finished *erase.Record `json:"finished_earlier,omitempty"`
	Waited   *erase.Record `json:"waited,omitempty"` // of requests that waited
	Record   *erase.Record `json:"erasure,omitempty"`
	Left     []erase.Left  `json:"left,omitempty"`
}

func reportOf(rep *erase.Report) resultJSON {
	return resultJSON{Dry: rep.Dry, Finished: rep.Finished, Waited: rep.Waited, Record: rep.Record, Left: rep.Left}
}

// print prints the result in words.
func (c *Command) print(w io.Writer, rep *erase.Report, waiting bool) error {
	if rep.Finished != nil {
		fmt.Fprintf(w, "completed erasure %d, which was interrupted\n", rep.Finished.Number)
		printCounts(w, "", &rep.Finished.Erased)
		printStore(w, "", rep.Finished)
	}
	if rep.Waited != nil {
		fmt.Fprintf(w, "erased %s\n", human.Counted(rep.Served, "request that waited", "requests that waited"))
		printCounts(w, "", &rep.Waited.Erased)
		printStore(w, "", rep.Waited)
	}
	if waiting {
		return nil
	}
	if rep.Record == nil {
		_, err := fmt.Fprintln(w, "that was this request, so nothing else was done")
		return err
	}
	verb := "erased"
	if rep.Dry {
		verb = "to erase"
	}
	r := rep.Record
	fmt.Fprintf(w, "%s: %s\n", verb, targets(r))
	printCounts(w, "", &r.Erased)
	printStore(w, "", r)
	if n := r.Erased.Absent; n > 0 {
		fmt.Fprintf(w, "not searched: %s moved away\n", human.Counted(n, "WARC file that was", "WARC files that were"))
	}
	if rep.Dry {
		_, err := fmt.Fprintln(w, "nothing was changed; run it without --dry-run to erase")
		return err
	}
	_, err := fmt.Fprintf(w, "erasure %d, request digest %s\n", r.Number, r.Digest)
	return err
}

// targets returns the numbers of what a request names.
func targets(r *erase.Record) string {
	return fmt.Sprintf("%s, %s, %s", human.Counted(r.Hosts, "host", "hosts"), human.Counted(r.PLDs, "PLD", "PLDs"),
		human.Counted(r.URLs, "URL", "URLs"))
}

// byWhom returns the reason, and who asked if somebody asked a running crawl.
func byWhom(r *erase.Record) string {
	if r.Who == "" {
		return r.Reason
	}
	return r.Reason + " (" + r.Who + ")"
}

// printCounts prints what an erasure removes.
func printCounts(w io.Writer, indent string, n *erase.Counts) {
	say := func(format string, args ...any) { fmt.Fprintf(w, indent+format+"\n", args...) }
	say("%s removed: %s; %s in total", human.Counted(n.Captures, "capture", "captures"),
		human.Counted(n.Records, "record", "records"), human.Bytes(n.Bytes))
	say("%s rewritten; %s changed, %s the body of an erased one", human.Counted(n.Files, "WARC file", "WARC files"),
		human.Counted(n.Changed, "other record", "other records"),
		human.Counted(n.Moved, "revisit record has", "revisit records have"))
	if n.Bodiless > 0 {
		say("%s no body left: it was in a WARC file that is not here",
			human.Counted(n.Bodiless, "revisit record has", "revisit records have"))
	}
	if n.Outputs > 0 {
		say("%s of other outputs rewritten, %s removed", human.Counted(n.Outputs, "file", "files"),
			human.Counted(n.Rows, "row or line", "rows or lines"))
	}
	say("%s removed, %s changed", human.Counted(n.LogLines, "line of the logs", "lines of the logs"),
		human.Counted(n.LogNamed, "line", "lines"))
	say("%s fetched, %s waiting, %s unknown so far", human.Counted(n.Fetched, "URL was", "URLs were"),
		human.Counted(n.Waiting, "URL was", "URLs were"), human.Counted(n.Barred, "URL was", "URLs were"))
}

// report prints the requests so far, by day.
func (c *Command) report(a *term.App) error {
	all, err := erase.RecordsOf(disk.OS(), flags.Clean(c.Dir))
	if err != nil {
		return err
	}
	waiting, err := erase.RequestsOf(disk.OS(), flags.Clean(c.Dir))
	if err != nil {
		return err
	}
	if c.JSON {
		return term.WriteJSON(a.Stdout, reportJSON{append([]erase.Request{}, waiting...),
			append([]erase.Record{}, all...)})
	}
	w := a.Stdout
	for i := range waiting {
		printWaiting(w, &waiting[i])
	}
	if len(all) == 0 && len(waiting) == 0 {
		_, err := fmt.Fprintln(w, "nothing was erased")
		return err
	}
	for len(all) > 0 {
		day := all[0].Time.Format(time.DateOnly)
		n := 1
		for n < len(all) && all[n].Time.Format(time.DateOnly) == day {
			n++
		}
		var captures, bytes int64
		for i := range all[:n] {
			captures, bytes = captures+all[i].Erased.Captures, bytes+all[i].Erased.Bytes
		}
		fmt.Fprintf(w, "%s: %s, %s, %s\n", day, human.Counted(n, "request", "requests"),
			human.Counted(captures, "capture", "captures"), human.Bytes(bytes))
		for i := range all[:n] {
			printRecord(w, &all[i])
		}
		all = all[n:]
	}
	return nil
}

// reportJSON is the report.
type reportJSON struct {
	Waiting []erase.Request `json:"waiting"`
	Erased  []erase.Record  `json:"erased"`
}

// printWaiting prints a request that waits.
func printWaiting(w io.Writer, r *erase.Request) {
	when := "the crawl erases it now, or at its next start"
	if r.Later {
		when = "until the crawl ends or starts"
	}
	if r.Error != "" {
		when = "until the next stop; it could not be carried out: " + r.Error
	}
	fmt.Fprintf(w, "request %d of %s UTC waits: %s\n", r.Number, r.Time.Format(time.DateTime), when)
	fmt.Fprintf(w, "    by %s: %s\n", r.Who, r.Reason)
	fmt.Fprintf(w, "    digest %s: %s, %s, %s\n", r.Digest, human.Counted(r.Hosts, "host", "hosts"),
		human.Counted(r.PLDs, "PLD", "PLDs"), human.Counted(r.URLs, "URL", "URLs"))
	if r.Hide {
		return
	}
	for _, target := range r.Targets[:min(len(r.Targets), erase.MaxNamed)] {
		fmt.Fprintf(w, "    %s\n", target)
	}
}

// printRecord prints one request.
func printRecord(w io.Writer, r *erase.Record) {
	fmt.Fprintf(w, "  erasure %d, %s to %s UTC: %s\n", r.Number, r.Time.Format(time.TimeOnly),
		r.Ended.Format(time.TimeOnly), byWhom(r))
	fmt.Fprintf(w, "    digest %s: %s\n", r.Digest, targets(r))
	for _, target := range r.Targets {
		fmt.Fprintf(w, "    %s\n", target)
	}
	if n := r.Hosts + r.PLDs + r.URLs - int64(len(r.Targets)); n > 0 && !r.Hidden {
		fmt.Fprintf(w, "    and %d more\n", n)
	}
	if r.With > 0 {
		fmt.Fprintf(w, "    removed with request %d, which has the counts of both\n", r.With)
		return
	}
	printCounts(w, "    ", &r.Erased)
	printStore(w, "    ", r)
}
