package audit

import (
	"context"
	"encoding/json"
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
	"drumbeat/internal/urllist"
	"drumbeat/state"
	"drumbeat/state/export"
)

// knownJSON is a line of the JSON form: a URL that is not met, or, as the last line, the counts.
type knownJSON struct {
	URL      string `json:"url,omitempty"`
	Verdict  string `json:"verdict,omitempty"`
	Deadline string `json:"deadline,omitempty"`
	Answered string `json:"answered,omitempty"`
	Status   int    `json:"fetch_status,omitempty"`
	Place    string `json:"place,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Fault    string `json:"fault,omitempty"`

	*knownCounts
}

type knownCounts struct {
	Checkpoint uint64 `json:"checkpoint"`
	URLs       int64  `json:"urls"`
	Met        int64  `json:"met"`
	Late       int64  `json:"late"`
	Missed     int64  `json:"missed"`
	Open       int64  `json:"open"`
	Elsewhere  int64  `json:"elsewhere"`
	Skipped    int64  `json:"skipped"` // lines without a URL
}

// known checks which URLs of a list the crawl has answers for.
func (c *Command) known(a *term.App) error {
	if c.Deep || c.Erased != "" {
		return term.Usage(errors.New("--known: not with --deep or --erased"))
	}
	f, err := os.Open(c.Known)
	if err != nil {
		return term.Usage(fmt.Errorf("--known: %w", err))
	}
	defer f.Close()
	dirs, tmp := flags.Clean(c.Dir), c.Tmp
	if tmp == "" {
		tmp = dirs[0]
	}
	p := term.NewProgress(a.Stderr)
	opt := export.Options{FS: disk.OS(), Dirs: dirs, Out: flags.Clean(flags.Directories(c.Out)), RAMBytes: int64(c.RAM),
		TempDir: filepath.Join(tmp, "audit-known-tmp"), Progress: p.Show}
	n, out := knownCounts{}, a.Stdout
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	rep, err := export.Coverage(ctx, opt,
		func(fn func(string, time.Time) error) error { return readKnown(f, c.Known, &n, fn) },
		func(u *export.Covered) error {
			if n.count(u.Verdict); u.Verdict == export.Met {
				return nil
			}
			p.Clear()
			if c.JSON {
				return json.NewEncoder(out).Encode(knownLine(u))
			}
			_, err := fmt.Fprintln(out, knownText(u))
			return err
		})
	p.Clear()
	if err != nil {
		return err
	}
	n.Checkpoint = rep.Checkpoint
	for _, note := range rep.Notes {
		term.Say(a.Stderr, "drumbeat: "+note+"\n")
	}
	if c.JSON {
		err = json.NewEncoder(out).Encode(knownJSON{knownCounts: &n})
	} else {
		err = n.print(out)
	}
	if err == nil && n.Late+n.Missed > 0 {
		err = &term.Ended{Code: term.ExitFailure, Why: "the crawl has not answered each URL of the list in time",
			Quiet: true}
	}
	return err
}

// readKnown passes on the lines of the list. It may be called again, if the crawl makes a checkpoint meanwhile.
func readKnown(f *os.File, name string, n *knownCounts, fn func(string, time.Time) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return term.Usage(fmt.Errorf("--known %s: it is not a file", name))
	}
	l, err := urllist.NewReader(f)
	if err != nil {
		return term.Usage(fmt.Errorf("--known %s: %w", name, err))
	}
	defer l.Close()
	*n = knownCounts{}
	for {
		url, deadline, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return term.Usage(fmt.Errorf("--known %s: %w", name, err))
		}
		n.URLs++
		if err := fn(url, deadline); err != nil {
			return err
		}
	}
	if n.Skipped = l.Skipped; n.URLs == 0 {
		return term.Usage(fmt.Errorf("--known %s: it has no URL", name))
	}
	return nil
}

func (n *knownCounts) count(v export.Verdict) {
	switch v {
	case export.Met:
		n.Met++
	case export.Late:
		n.Late++
	case export.Open:
		n.Open++
	case export.Elsewhere:
		n.Elsewhere++
	default:
		n.Missed++
	}
}

func (n *knownCounts) print(out io.Writer) error {
	fmt.Fprintf(out, "%s (checkpoint %d): %d answered in time, %d late, %d missed",
		human.Counted(n.URLs, "URL", "URLs"), n.Checkpoint, n.Met, n.Late, n.Missed)
	if n.Open > 0 {
		fmt.Fprintf(out, ", %d with a later deadline", n.Open)
	}
	if n.Elsewhere > 0 {
		fmt.Fprintf(out, ", %d of other nodes", n.Elsewhere)
	}
	if n.Skipped > 0 {
		fmt.Fprintf(out, "; %s without a URL", human.Counted(n.Skipped, "line", "lines"))
	}
	_, err := fmt.Fprintln(out)
	return err
}

// stamp is a time as RFC 3339 has it, "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func knownLine(u *export.Covered) knownJSON {
	return knownJSON{URL: u.URL, Verdict: string(u.Verdict), Deadline: stamp(u.Deadline), Answered: stamp(u.Answered),
		Status: u.Status, Place: u.Place, Reason: u.Reason, Fault: u.Fault}
}

// knownText is the line of a URL that is not met, with the reason.
func knownText(u *export.Covered) string {
	text := fmt.Sprintf("%s: %s: ", u.Verdict, term.PlainText(u.URL))
	switch {
	case u.Verdict == export.Late:
		return text + fmt.Sprintf("answered at %s, %s after the deadline", stamp(u.Answered),
			human.Duration(u.Answered.Sub(u.Deadline)))
	case u.Fault != "":
		return text + "no URL: " + u.Fault
	case u.Verdict == export.Elsewhere:
		return text + "another node of the cluster owns it, or visits its host"
	case u.Place == "":
		return text + "the crawl does not know it: no seed or link led to it, or a rule dropped the link"
	}
	text += state.PlaceText(u.Place)
	if u.Reason != "" {
		words, _ := state.ReasonText(u.Reason)
		text += ", " + words
	}
	if u.Status != 0 {
		text += fmt.Sprintf(", last answer %d", u.Status)
	}
	if !u.Deadline.IsZero() {
		text += ", deadline " + stamp(u.Deadline)
	}
	return text
}
