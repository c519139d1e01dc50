package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// Run repairs a stopped crawl.
func (c *repairCmd) Run(a *app) error {
	p := &auditProgress{out: a.stderr, began: time.Now(), terminal: isTerminal(a.stderr)}
	rep, err := crawl.Repair(crawl.RepairOptions{DryRun: c.DryRun, AuditOptions: crawl.AuditOptions{FS: disk.OS(), Dirs: clean(c.Dir),
		Out: clean(c.Out), RAMBytes: int64(c.RAM), TempDir: c.Tmp, Progress: p.show}})
	p.clear()
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(a.stdout, repairOf(rep))
	} else {
		err = c.print(a.stdout, rep)
	}
	if err == nil && c.DryRun && !rep.Nothing() {
		return &ended{code: exitFailure, why: "there is something to repair", quiet: true}
	}
	return err
}

func (c *repairCmd) print(w io.Writer, rep *crawl.RepairReport) error {
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
	Dry       bool     `json:"dry_run"`
	Finished  bool     `json:"finished_earlier"`
	Actions   []string `json:"actions"`
	Left      []string `json:"left"`
	Forgotten int64    `json:"lost_can_be_found_again"`
	Unnamed   int64    `json:"lost_cannot_be_named"`
	Links     int64    `json:"lost_links"`
	Unseen    int64    `json:"may_be_fetched_again"`
	Doubled   int64    `json:"doubled_records_dropped"`
	Aside     string   `json:"aside"`
	Found     deepJSON `json:"found"`
}

func repairOf(rep *crawl.RepairReport) repairJSON {
	return repairJSON{Dry: rep.Dry, Finished: rep.Finished, Actions: append([]string{}, rep.Actions...),
		Left: append([]string{}, rep.Left...), Forgotten: rep.Forgotten, Unnamed: rep.Unnamed, Links: rep.Links, Unseen: rep.Unseen,
		Doubled: rep.Doubled, Aside: rep.Aside, Found: deepOf(rep.Deep)}
}
