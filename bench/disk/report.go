package disk

import (
	"fmt"
	"slices"

	"drumbeat/bench/result"
)

// fill adds the results to a report.
func (r *diskRun) fill(out *result.Report) {
	d := &r.opt
	out.SetDirs(d.Dirs)
	out.Set("bytes", "%s per measurement and directory", result.BinaryBytes(int(r.bytes)))
	out.Set("repeats", "%d", d.Repeats)
	r.lines(out)
	out.Tables = append(out.Tables, r.oneFile(), r.manyFiles())
	out.Notes = append(r.verdicts(), r.notes...)
}

// lines adds one line per measurement; one operation is one chunk.
func (r *diskRun) lines(out *result.Report) {
	for _, s := range r.speeds {
		for i, span := range s.spans {
			n := s.bytes[i] / int64(s.chunk)
			out.Add("BenchmarkDisk/"+s.way.String()+"/dir="+s.group, n,
				result.Metric{Value: float64(span.Nanoseconds()) / float64(n), Unit: "ns/op"},
				result.Metric{Value: float64(s.bytes[i]) / span.Seconds() / 1e6, Unit: "MB/s"},
				result.Metric{Value: s.cpu[i].Seconds() * 1e12 / float64(s.bytes[i]), Unit: "cpu-ms/GB"})
		}
	}
}

// groups returns the names of the groups in order.
func (r *diskRun) groups() (names []string) {
	for _, s := range r.speeds {
		if !slices.Contains(names, s.group) {
			names = append(names, s.group)
		}
	}
	return names
}

// with returns the same way with another operation.
func (w way) with(op string) way {
	w.op = op
	return w
}

// bandwidth returns W of a way in bytes/s: the mean of the write and the read speed, as in the paper.
func (r *diskRun) bandwidth(w way, group string) float64 {
	return (r.find(w.with(opWrite), group).rate() + r.find(w.with(opRead), group).rate()) / 2
}

// mbps formats a median and its spread in MB/s.
func mbps(s *speed) []string {
	rates := s.rates()
	if len(rates) == 0 {
		return []string{"-", ""}
	}
	return []string{result.Number(rates.Median() / 1e6),
		fmt.Sprintf("%.0f-%.0f", slices.Min(rates)/1e6, slices.Max(rates)/1e6)}
}

// oneFile is the table of single files.
func (r *diskRun) oneFile() result.Table {
	d := &r.opt
	t := result.Table{
		Title: fmt.Sprintf("One file at a time, MB/s, medians of %d (minimum-maximum)", d.Repeats),
		Head: []string{"directory", "direct", "chunk", "write", "spread", "read", "spread", "mixed", "spread",
			"W", "pages/s"},
		Notes: []string{"mixed reads one file and writes another at the same time, as a pass does with the " +
			"cache, and counts the bytes of both. Writes end with a sync."},
	}
	for _, s := range r.speeds {
		if s.streams > 1 || s.op != opWrite {
			continue
		}
		row := []string{s.group, fmt.Sprint(s.direct), result.BinaryBytes(s.chunk)}
		for _, v := range []way{s.way, s.with(opRead), s.with(opMixed)} {
			row = append(row, mbps(r.find(v, s.group))...)
		}
		w := r.bandwidth(s.way, s.group)
		t.Add(append(row, result.Number(w/1e6), result.Number(pages(w)))...)
	}
	return t
}

// manyFiles is the table of k files.
func (r *diskRun) manyFiles() result.Table {
	d := &r.opt
	t := result.Table{
		Title: fmt.Sprintf("k files written alternately and read one after the other, MB/s, medians of %d "+
			"(minimum-maximum)",
			d.Repeats),
		Head: []string{"directory", "direct", "k", "block", "write", "spread", "read", "spread", "W", "pages/s"},
		Notes: []string{"Each block opens its file again, as drum does. Without O_DIRECT every file is " +
			"synced at the end, unlike in a pass."},
	}
	for _, s := range r.speeds {
		if s.streams == 1 || s.op != opWrite {
			continue
		}
		row := []string{s.group, fmt.Sprint(s.direct), fmt.Sprint(s.streams), result.BinaryBytes(s.chunk)}
		row = append(append(row, mbps(s)...), mbps(r.find(s.with(opRead), s.group))...)
		w := r.bandwidth(s.way, s.group)
		t.Add(append(row, result.Number(w/1e6), result.Number(pages(w)))...)
	}
	return t
}

// verdicts names the best W of each group, for one file and for many, with the rate and CPU use that follow.
func (r *diskRun) verdicts() []string {
	notes := []string{fmt.Sprintf(
		"W is the mean of write and read. pages/s = W x %v / (alpha b l), Theorem 3, with alpha = %v, b = %v, l = %v.",
		urlSeenShare, alpha, urlBytes, pageLinks)}
	for _, g := range r.groups() {
		for _, many := range []bool{false, true} {
			var best *speed
			for _, s := range r.speeds {
				if s.group != g || s.op != opWrite || many != (s.streams > 1) {
					continue
				}
				if best == nil || r.bandwidth(s.way, g) > r.bandwidth(best.way, g) {
					best = s
				}
			}
			if best == nil {
				continue
			}
			w, files := r.bandwidth(best.way, g), "one file"
			if many {
				files = fmt.Sprintf("%d files", best.streams)
			}
			notes = append(notes,
				fmt.Sprintf("Best of directory %s with %s: W = %s MB/s with chunks of %s, direct %v: %s "+
					"pages/s. Writing takes %.0f %% of a core, reading %.0f %%.",
					g, files, result.Number(w/1e6), result.BinaryBytes(best.chunk), best.direct,
					result.Number(pages(w)), 100*best.cores(), 100*r.find(best.with(opRead), g).cores()))
		}
	}
	return notes
}

// cores returns the number of busy CPUs during the measurement.
func (s *speed) cores() float64 {
	var share result.Sample
	for i, cpu := range s.cpu {
		share = append(share, cpu.Seconds()/max(s.spans[i], 1).Seconds())
	}
	return share.Median()
}
