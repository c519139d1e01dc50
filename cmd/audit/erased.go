package audit

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/erase"
)

// erased searches the crawl, and other files, for what is left of the targets in a list.
func (c *Command) erased(a *term.App) error {
	if c.Deep {
		return term.Usage(errors.New("--erased: not with --deep"))
	}
	src := erase.Source{List: a.Stdin, ListName: "standard input"}
	if c.Erased != "-" {
		f, err := os.Open(c.Erased)
		if err != nil {
			return term.Usage(fmt.Errorf("--erased: %w", err))
		}
		defer f.Close()
		src.List, src.ListName = f, c.Erased
	}
	p := term.NewProgress(a.Stderr)
	rep, err := erase.Prove(erase.ProofOptions{FS: disk.OS(), Dirs: flags.Clean(c.Dir),
		Out: flags.Clean(flags.Directories(c.Out)), Also: flags.Clean(c.Also), Source: src, Progress: p.Say})
	p.Clear()
	if refused := (*erase.RequestError)(nil); errors.As(err, &refused) {
		return term.Usage(fmt.Errorf("--erased: %w", err))
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, rep)
	} else {
		err = printProof(a.Stdout, rep)
	}
	if err == nil && rep.Found > 0 {
		err = &term.Ended{Code: term.ExitDamage, Why: "files still name what was to be erased", Quiet: true}
	}
	return err
}

func printProof(w io.Writer, rep *erase.Proof) error {
	for i := range rep.Leftovers {
		l := &rep.Leftovers[i]
		at := ""
		if l.Offset >= 0 {
			at = fmt.Sprintf(" at %d", l.Offset)
		}
		fmt.Fprintf(w, "%s%s: %s: %s\n", l.File, at, l.Kind, term.PlainText(l.Text))
	}
	if n := rep.Found - int64(len(rep.Leftovers)); n > 0 {
		fmt.Fprintf(w, "and %s more\n", humanize.Comma(n))
	}
	fmt.Fprintf(w, "searched for %s, %s, %s, request digest %s\n", human.Counted(rep.Hosts, "host", "hosts"),
		human.Counted(rep.PLDs, "PLD", "PLDs"), human.Counted(rep.URLs, "URL", "URLs"), rep.Digest)
	fmt.Fprintf(w, "read %s of %s, %s\n", human.Bytes(rep.Bytes), human.Counted(rep.Files, "file", "files"),
		human.Counted(rep.Records, "record", "records"))
	if rep.Away > 0 {
		fmt.Fprintf(w, "not searched: %s moved away\n",
			human.Counted(rep.Away, "WARC file that was", "WARC files that were"))
	}
	fmt.Fprintf(w, "not counted: %s in what other pages published, %s in the operator's rules and events, "+
		"%s in records of erasures\n", human.Counted(rep.Links, "name", "names"),
		human.Counted(rep.Rules, "name", "names"), human.Counted(rep.Kept, "name", "names"))
	result := "nothing is left"
	if rep.Found > 0 {
		result = "LEFT: " + human.Counted(rep.Found, "place", "places")
	}
	_, err := fmt.Fprintln(w, result)
	return err
}
