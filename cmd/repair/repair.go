// Package repair is the command repair: it makes the damaged files of a stopped crawl consistent, so the
// crawl can resume, and prints what is lost.
//
// Command is its flags and prints the result; flags.Audit has those that audit shares (--out, --ram, --tmp
// and --json). Package state/repair reads all files as audit --deep does, writes new ones beside the damaged
// ones, and moves the replaced files to DIR/state/damaged: it deletes nothing. --dry-run changes nothing.
//
// With --resync it repairs no damage, but the accounts of a node of a cluster that was set back to an older copy of its
// directories, or of another node of this cluster (repair.Resync); --cluster-file names the file of the cluster.
//
// The next repair completes an interrupted one and says so; until then audit, explain and crawl refuse the
// directories. The output lists first the damages, at most fifty, then what stays, the actions, and the
// losses by kind: URLs that links and seeds will bring again, URLs that cannot be named, links. --json
// prints all of it as one object, whose field found is audit's report.
//
// Of a crawl with an object store, repair also fetches damaged files and missing indexes from there, and puts whole
// files there again whose objects are damaged or missing; --remote off leaves the store out.
//
// Exit codes: 0 if the crawl is sound now, term.ExitFailure (1) if --dry-run found something to repair,
// term.ExitDirectory (4) if the crawl is running or the directories do not belong to one crawl, or a resync is
// refused, term.ExitDamage (5) if the outbox of a cluster's node has lost messages that another node may lack.
//
// It takes the locks of the directories and runs in the caller's goroutine; progress goes to standard error,
// as audit's.
package repair

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"drumbeat/cluster"
	auditcmd "drumbeat/cmd/audit"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// Command is the table of repair's flags.
type Command struct {
	flags.CrawlDirs
	DryRun      bool
	Taken       []string `placeholder:"FILE"`
	Remote      string   `placeholder:"MODE" enum:"head,read,off" default:"head"`
	Resync      *int     `placeholder:"N"`
	ClusterFile string   `placeholder:"FILE"`
	flags.Audit
}

// Run repairs a stopped crawl.
func (c *Command) Run(a *term.App) error {
	others, err := c.others()
	if err != nil {
		return term.Usage(err)
	}
	p := term.NewProgress(a.Stderr)
	rep, err := c.repair(repair.Options{DryRun: c.DryRun, Others: others,
		Options: audit.Options{FS: disk.OS(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
			RAMBytes: int64(c.RAM), TempDir: c.Tmp, Progress: p.Show, Remote: audit.Remote(c.Remote)}})
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

// repair repairs or resyncs.
func (c *Command) repair(opt repair.Options) (*repair.Report, error) {
	if c.Resync == nil {
		if c.ClusterFile != "" {
			return nil, term.Usage(errors.New("--cluster-file needs --resync"))
		}
		return repair.Run(opt)
	}
	if c.ClusterFile == "" {
		return nil, term.Usage(errors.New("--resync needs --cluster-file"))
	}
	data, err := os.ReadFile(c.ClusterFile)
	if err != nil {
		return nil, term.Usage(err)
	}
	f, err := cluster.DecodeFile(data)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("%s: %w", c.ClusterFile, err))
	}
	return repair.Resync(repair.ResyncOptions{Options: opt, Back: *c.Resync, File: f})
}

// others reads the audits of the other nodes.
func (c *Command) others() (nodes []audit.Node, _ error) {
	for _, path := range flags.Clean(c.Taken) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		n, err := audit.ReadNode(path, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (c *Command) print(w io.Writer, rep *repair.Report) error {
	say := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	if rep.Finished {
		say("completed an earlier repair that was interrupted")
		if c.Resync != nil {
			say("nothing else was done; if it was not a resync, audit all nodes again, then run this command again")
			return nil
		}
	}
	for i := range rep.Deep.Damages {
		if i == shownDamage {
			say("DAMAGE: and %d more; see drumbeat audit --deep --json", rep.Deep.DamageCount-shownDamage)
			break
		}
		say("DAMAGE: %s", rep.Deep.Damages[i].String())
	}
	for _, text := range rep.Left {
		say("unchanged: %s", text)
	}
	verb := "done"
	if rep.Dry {
		verb = "to do"
	}
	for _, text := range rep.Actions {
		say("%s: %s", verb, text)
	}
	if rep.Nothing() {
		say("nothing to repair")
		return nil
	}
	say("lost: %s that links and seeds can bring again, %d that cannot be named, %s; %s "+
		"may be fetched again; %d duplicate records dropped", human.Counted(rep.Forgotten, "URL", "URLs"),
		rep.Unnamed, human.Counted(rep.Links, "link", "links"),
		human.Counted(rep.Unseen, "URL", "URLs"), rep.Doubled)
	dirs := strings.Join(c.Dir, " ")
	if rep.Dry {
		_, err := fmt.Fprintf(w, "nothing was changed; run it without --dry-run to repair %s\n", dirs)
		return err
	}
	if rep.Aside != "" {
		say("replaced files are in %s of each directory; you may delete them", rep.Aside)
	}
	next := "the crawl's own command to resume"
	if c.Resync != nil {
		next = fmt.Sprintf("the resync of the other nodes with the audit of node %d after its own (--taken); do not "+
			"start a node before", *c.Resync)
	}
	_, err := fmt.Fprintf(w, "next: drumbeat audit %s, then %s\n", dirs, next)
	return err
}

// shownDamage is the largest number of damages to print.
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
		Left: append([]string{}, rep.Left...), Forgotten: rep.Forgotten, Unnamed: rep.Unnamed,
		Links: rep.Links, Unseen: rep.Unseen, Doubled: rep.Doubled, Aside: rep.Aside,
		Found: auditcmd.ReportOf(rep.Deep)}
}
