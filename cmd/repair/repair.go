// Package repair is the command repair: it brings a stopped crawl with damaged files to a state that balances and can go
// on, and says what is lost.
//
// Command is its flags and what is done with them; --out, --ram, --tmp and --json, which audit has as well, are
// flags.Audit. The work is done by package crawl/repair, which reads all files as audit --deep does, writes new ones beside the
// damaged ones, and moves what it replaces to DIR/state/damaged: nothing is deleted. With --dry-run nothing is changed.
//
// A repair that was cut off is ended by the next one, which says so; audit, explain and crawl refuse the directories until
// then. The damages that were found are printed first, fifty at most, then what stays, what was done, and what is lost by
// kinds: URLs that links and seeds will bring again, URLs that can't be named, links. With --json all of it is one object,
// whose field found is audit's report.
//
// Exit codes: 0 when the crawl is sound now, term.ExitFailure (1) when --dry-run found something to do, which has been
// printed then, term.ExitDirectory (4) when the crawl runs or the directories aren't one crawl's.
//
// It takes the locks of the directories and runs in the caller's goroutine; progress goes to standard error, as audit's.
package repair

import (
	"fmt"
	"io"
	"strings"

	auditcmd "drumbeat/cmd/audit"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl/audit"
	"drumbeat/crawl/repair"
	"drumbeat/disk"
)

// Command is the table of repair's flags.
type Command struct {
	Dir    []string `arg:"" name:"dir" help:"Directories of the crawl, all of them."`
	DryRun bool     `help:"Say what would be done and what is lost, and change nothing."`
	flags.Audit
}

// Run repairs a stopped crawl.
func (c *Command) Run(a *term.App) error {
	p := term.NewProgress(a.Stderr)
	rep, err := repair.Run(repair.Options{DryRun: c.DryRun, Options: audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir),
		Out: flags.Clean(c.Out), RAMBytes: int64(c.RAM), TempDir: c.Tmp, Progress: p.Show}})
	p.Clear()
	if err != nil {
		return err
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, repairOf(rep))
	} else {
		err = c.print(a.Stdout, rep)
	}
	if err == nil && c.DryRun && !rep.Nothing() {
		return &term.Ended{Code: term.ExitFailure, Why: "there is something to repair", Quiet: true}
	}
	return err
}

func (c *Command) print(w io.Writer, rep *repair.Report) error {
	say := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	if rep.Finished {
		say("an earlier repair had been cut off; it has been brought to its end")
	}
	for i := range rep.Deep.Damages {
		if i == shownDamage {
			say("DAMAGE: and %d more; see drumbeat audit --deep --json", rep.Deep.DamageCount-shownDamage)
			break
		}
		say("DAMAGE: %s", rep.Deep.Damages[i].String())
	}
	for _, text := range rep.Left {
		say("stays: %s", text)
	}
	verb := "done"
	if rep.Dry {
		verb = "to do"
	}
	for _, text := range rep.Actions {
		say("%s: %s", verb, text)
	}
	if rep.Nothing() {
		say("there is nothing to repair")
		return nil
	}
	say("lost: %d URLs that can be found again (by links and seeds), %d that can't be named, %d links; %d URLs may be fetched again; "+
		"%d records of URLs that were elsewhere too were dropped", rep.Forgotten, rep.Unnamed, rep.Links, rep.Unseen, rep.Doubled)
	dirs := strings.Join(c.Dir, " ")
	if rep.Dry {
		_, err := fmt.Fprintf(w, "nothing was changed; drumbeat repair %s does it\n", dirs)
		return err
	}
	if rep.Aside != "" {
		say("what was replaced is in %s of each directory; delete it when you like", rep.Aside)
	}
	_, err := fmt.Fprintf(w, "now: drumbeat audit %s, and the crawl's own command to go on\n", dirs)
	return err
}

// shownDamage bounds the damages that are printed.
const shownDamage = 50

type repairJSON struct {
	Dry       bool            `json:"dry_run"`
	Finished  bool            `json:"finished_earlier"`
	Actions   []string        `json:"actions"`
	Left      []string        `json:"left"`
	Forgotten int64           `json:"lost_can_be_found_again"`
	Unnamed   int64           `json:"lost_cannot_be_named"`
	Links     int64           `json:"lost_links"`
	Unseen    int64           `json:"may_be_fetched_again"`
	Doubled   int64           `json:"doubled_records_dropped"`
	Aside     string          `json:"aside"`
	Found     auditcmd.Report `json:"found"`
}

func repairOf(rep *repair.Report) repairJSON {
	return repairJSON{Dry: rep.Dry, Finished: rep.Finished, Actions: append([]string{}, rep.Actions...),
		Left: append([]string{}, rep.Left...), Forgotten: rep.Forgotten, Unnamed: rep.Unnamed, Links: rep.Links, Unseen: rep.Unseen,
		Doubled: rep.Doubled, Aside: rep.Aside, Found: auditcmd.ReportOf(rep.Deep)}
}
