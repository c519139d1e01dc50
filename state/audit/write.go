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
	for i := range d.Structures {
		s := &d.Structures[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t\n", s.Name, s.Records, s.Damages, s.Lost)
	}
	if err := t.Flush(); err != nil {
		return err
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
		fmt.Fprintf(w, "%d files are newer than the checkpoint; the next start deletes them\n", d.UnnamedCount)
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
		fmt.Fprintf(w, "%d damaged pieces: see drumbeat repair --dry-run\n", d.DamageCount)
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
		fmt.Fprintf(w, "output: %d records with %d responses (%d robots.txt files, %d DNS answers) "+
			"and %d index lines in %d files (%s)",
			v.Records, v.Captures, o.Robots, o.DNS, v.Lines, v.Files, human.Bytes(v.Bytes))
		if v.AbsentFiles+v.AbsentIndexes > 0 {
			fmt.Fprintf(w, "; %d WARC files and %d indexes are not there (moved away)", v.AbsentFiles, v.AbsentIndexes)
		}
		fmt.Fprintln(w)
	}
	if r := &o.Remote; r.Store != "" {
		fmt.Fprintf(w, "object store: %d files in %s, %d asked for", r.Objects, r.Store, r.Checked)
		if r.Unread > 0 {
			fmt.Fprintf(w, "; %d WARC files are only there and were not read (--remote %s)", r.Unread, r.Mode)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "crawl log: %d lines\n", o.LogLines)
	all := func(yes bool) string {
		if yes {
			return "all keys are known"
		}
		return "only number and key sum are known"
	}
	fmt.Fprintf(w, "fetched URLs: %s; refused URLs: %s\n", all(o.StoredAll), all(o.RefusedAll))
}
