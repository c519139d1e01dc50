package audit

import (
	"fmt"
	"io"
	"text/tabwriter"

	"drumbeat/internal/human"
)

// shownDamages and shownUnnamed limit what Write prints of the report's lists.
const (
	shownDamages = 50
	shownUnnamed = 10
)

// Write prints the report as tables.
func (d *DeepReport) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "structure\trecords\tdamaged pieces\trecords lost\t\n")
	empty := 0
	for i := range d.Structures {
		s := &d.Structures[i]
		if s.Records == 0 && s.Damages == 0 && s.Lost == 0 {
			empty++
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t\n", s.Name, s.Records, s.Damages, s.Lost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if empty > 0 {
		fmt.Fprintf(w, "%s without records: no damage\n", human.Counted(int64(empty), "structure", "structures"))
	}
	for i := range d.Damages {
		if i == shownDamages {
			fmt.Fprintf(w, "DAMAGE: and %d more\n", d.DamageCount-shownDamages)
			break
		}
		fmt.Fprintln(w, "DAMAGE:", d.Damages[i].String())
	}
	d.writeOutput(w)
	k := &d.Keys
	fmt.Fprintf(w, "keys: %d not in URLseen, %d more than once, %d in no place and not known to be done\n",
		k.NotSeen, k.Twice, k.Nowhere)
	for _, text := range k.Examples {
		fmt.Fprintln(w, "  ", text)
	}
	if d.UnnamedCount > 0 {
		fmt.Fprintf(w, "%s newer than the checkpoint; the next start deletes them\n",
			human.Counted(d.UnnamedCount, "file is", "files are"))
		for i, name := range d.Unnamed {
			if i == shownUnnamed {
				break
			}
			fmt.Fprintln(w, "  ", name)
		}
	}
	if err := d.Report.Write(w); err != nil {
		return err
	}
	if d.DamageCount > 0 {
		fmt.Fprintf(w, "%s: see drumbeat repair --dry-run\n",
			human.Counted(d.DamageCount, "damaged piece", "damaged pieces"))
	}
	_, err := fmt.Fprintf(w, "read %s in %s, %s/s\n", human.Bytes(d.Bytes), human.Duration(d.Elapsed),
		human.Bytes(float64(d.Bytes)/max(d.Elapsed.Seconds(), 1e-3)))
	return err
}

// writeOutput prints the results of output and crawl log.
func (d *DeepReport) writeOutput(w io.Writer) {
	o := &d.Output
	if !o.Checked {
		fmt.Fprintln(w, "output: not read; give its directories with --out")
	} else {
		v := &o.WARC
		fmt.Fprintf(w, "output: %s with %s (%s, %s) "+
			"and %s in %s (%s)",
			human.Counted(v.Records, "record", "records"),
			human.Counted(v.Captures, "response", "responses"),
			human.Counted(o.Robots, "robots.txt file", "robots.txt files"),
			human.Counted(o.DNS, "DNS answer", "DNS answers"),
			human.Counted(v.Lines, "index line", "index lines"), human.Counted(v.Files, "file", "files"),
			human.Bytes(v.Bytes))
		if v.AbsentFiles+v.AbsentIndexes > 0 {
			fmt.Fprintf(w, "; %s and %s not there (moved away)",
				human.Counted(v.AbsentFiles, "WARC file", "WARC files"),
				human.Counted(v.AbsentIndexes, "index is", "indexes are"))
		}
		fmt.Fprintln(w)
	}
	if r := &o.Remote; r.Store != "" {
		fmt.Fprintf(w, "object store: %s in %s, %d asked for", human.Counted(r.Objects, "file", "files"),
			r.Store, r.Checked)
		if r.Unread > 0 {
			fmt.Fprintf(w, "; %s only there and were not read (--remote %s)",
				human.Counted(r.Unread, "WARC file is", "WARC files are"), r.Mode)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "crawl log: %s\n", human.Counted(o.LogLines, "line", "lines"))
	all := func(yes bool) string {
		if yes {
			return "all keys are known"
		}
		return "only number and key sum are known"
	}
	fmt.Fprintf(w, "fetched URLs: %s; refused URLs: %s\n", all(o.StoredAll), all(o.RefusedAll))
}
