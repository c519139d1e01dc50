package queue

import (
	"fmt"
	"math"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/result"
)

// report fills in rep.
func (r *queueRun) report(rep *result.Report) {
	b := r.opt
	rep.SetDirs(b.Dirs)
	rep.Set("urls", "generated links, in order of arrival: %.1f B of text on average, %.1f B as records "+
		"(with referrer, depth, time, budget)", float64(r.urls.text)/float64(len(r.urls.ends)), r.urls.mean())
	rep.Set("bytes", "%s of records in each measurement, in blocks of %s if no other size is named",
		result.BinaryBytes(int(b.Bytes)), result.BinaryBytes(b.BlockBytes))
	r.lines(rep)
	rep.Tables = append(rep.Tables, r.diskTable(), r.table())
	rep.Checks = r.checks()
	rep.Notes = append(rep.Notes, r.notes...)
	rep.Notes = append(rep.Notes,
		"The time of appends ends when all segment files are synced. The files are dropped from the page "+
			"cache before they are read.",
		"Every block has a checksum (xxhash64). CPU is user and system time of this process. It includes "+
			"access to the records in memory, which are generated before.",
		"Each record read is compared with the record appended. wrong: those that are lost, duplicated, "+
			"reordered or changed.")
}

// name returns the name of a line.
func (m *queueMeasure) name() string {
	kind := m.kind
	if m.record > 0 {
		kind = fmt.Sprintf("%s-%dB", m.kind, m.record)
	}
	return fmt.Sprintf("BenchmarkQueue/op=%s/records=%s/block=%s/appenders=%d/queues=%d", m.op, kind,
		result.BinaryBytes(m.block), m.appenders, m.queues)
}

func (r *queueRun) lines(rep *result.Report) {
	for _, op := range []string{benchdisk.Write, benchdisk.Read} {
		for _, direct := range []bool{false, true} {
			for _, rate := range r.disk[diskKey{op, r.opt.BlockBytes, direct}] {
				rep.Add(fmt.Sprintf("BenchmarkQueueDisk/op=%s/chunk=%s/direct=%v", op,
					result.BinaryBytes(r.opt.BlockBytes), direct), 1, result.Metric{Value: rate / 1e6, Unit: "MB/s"})
			}
		}
	}
	for _, m := range r.measures {
		for _, s := range m.samples {
			rep.Add(m.name(), s.records,
				result.Metric{Value: s.nanos(), Unit: "ns/op"}, result.Metric{Value: s.cpuNanos(), Unit: "cpu-ns/op"},
				result.Metric{Value: 1e9 / s.nanos(), Unit: "records/s"},
				result.Metric{Value: s.rawRate() / 1e6, Unit: "raw-MB/s"},
				result.Metric{Value: s.storedRate() / 1e6, Unit: "stored-MB/s"}, result.Metric{Value: s.perRecord(),
					Unit: "stored-B/op"}, result.Metric{Value: s.ratio(), Unit: "ratio"},
				result.Metric{Value: 100 * s.rawShare(), Unit: "raw-%disk"},
				result.Metric{Value: 100 * s.storedShare(), Unit: "stored-%disk"},
				result.Metric{Value: float64(s.rss) / (1 << 20), Unit: "MiB"},
				result.Metric{Value: float64(s.wrong), Unit: "wrong"})
		}
	}
}

// diskTable is the table of the bare disk.
func (r *queueRun) diskTable() result.Table {
	t := result.Table{
		Title: fmt.Sprintf("The bare disk, MB/s in chunks of %s, one file at a time, medians of %d",
			result.BinaryBytes(r.opt.BlockBytes), r.opt.Repeats),
		Head:  []string{"direct", benchdisk.Write, "spread", benchdisk.Read, "spread"},
		Notes: []string{"Writes are synced; files are dropped from the page cache before they are read."},
	}
	for _, direct := range []bool{false, true} {
		row := []string{fmt.Sprint(direct)}
		for _, op := range []string{benchdisk.Write, benchdisk.Read} {
			var sample result.Sample
			for _, v := range r.disk[diskKey{op, r.opt.BlockBytes, direct}] {
				sample = append(sample, v/1e6)
			}
			if sample == nil {
				continue
			}
			row = append(row, result.Number(sample.Median()), sample.Spread())
		}
		if len(row) > 1 {
			t.Add(row...)
		}
	}
	return t
}

func (r *queueRun) table() result.Table {
	t := result.Table{
		Title: fmt.Sprintf("Queues, medians of %d", r.opt.Repeats),
		Head: []string{"operation", "records", "B", "block", "appenders", "queues", "M records/s", "spread",
			"CPU ns", "raw MB/s", "% of disk", "stored MB/s", "% of disk", "B stored", "ratio", "RSS MiB", "wrong"},
		Notes: []string{
			"% of disk: of the higher of the two lines above (write for append).",
			"queues: records are appended in runs of 10. Queues are read one after another.",
			"B stored: per record in a block. Records in the queues' tail buffers are not on disk.",
		},
	}
	median := func(m *queueMeasure, f func(s queueSample) float64) string { return result.Number(m.of(f).Median()) }
	for _, m := range r.measures {
		rate := m.of(func(s queueSample) float64 { return 1e3 / s.nanos() })
		t.Add(m.op, m.kind, median(m, queueSample.rawPerRecord), result.BinaryBytes(m.block),
			fmt.Sprint(m.appenders), fmt.Sprint(m.queues), result.Number(rate.Median()), rate.Spread(),
			median(m, queueSample.cpuNanos), median(m, func(s queueSample) float64 { return s.rawRate() / 1e6 }),
			median(m, func(s queueSample) float64 { return 100 * s.rawShare() }),
			median(m, func(s queueSample) float64 { return s.storedRate() / 1e6 }),
			median(m, func(s queueSample) float64 { return 100 * s.storedShare() }), median(m, queueSample.perRecord),
			median(m, queueSample.ratio),
			median(m, func(s queueSample) float64 { return float64(s.rss) / (1 << 20) }),
			median(m, func(s queueSample) float64 { return float64(s.wrong) }))
	}
	return t
}

// find returns the median of a figure, or NaN if it was not measured.
func (r *queueRun) find(way queueWay, f func(s queueSample) float64) float64 {
	for _, m := range r.measures {
		if m.queueWay == way {
			return m.of(f).Median()
		}
	}
	return math.NaN()
}

func (r *queueRun) checks() (checks []result.Check) {
	b := r.opt
	plain := queueWay{kind: kindRandom, record: recordBytes, block: b.BlockBytes, appenders: 1, queues: 1}
	urls := queueWay{kind: kindURL, block: b.BlockBytes, appenders: 1, queues: 1}
	share := func(way queueWay, op, what string, f func(s queueSample) float64) {
		way.op = op
		checks = append(checks, result.AtLeast(op+what, 100*r.find(way, f), 100*queueShare, "% of the disk's"))
	}
	share(plain, opAppend, ", incompressible records, bytes on disk", queueSample.storedShare)
	share(plain, benchdisk.Read, ", incompressible records, bytes on disk", queueSample.storedShare)
	many := urls
	many.appenders = b.Appenders
	share(many, opAppend, fmt.Sprintf(", URLs, %d appenders, bytes before compression", b.Appenders),
		queueSample.rawShare)
	share(urls, benchdisk.Read, ", URLs, bytes before compression", queueSample.rawShare)
	urls.op = opAppend
	wrong := int64(0)
	for _, m := range r.measures {
		for _, s := range m.samples {
			wrong += s.wrong
		}
	}
	return append(checks,
		result.AtMost("size of a queued URL on disk", r.find(urls, queueSample.perRecord), queueURLBytes, "B"),
		result.AtMost("records lost, duplicated, reordered or changed", float64(wrong), 0, "records"))
}
