package export

import (
	"github.com/dustin/go-humanize"

	"drumbeat/internal/crawllog"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc/outfile"
)

// logDir is the subdirectory of the logs.
const logDir = "log"

// refusedTable has a row for each URL that ended with a refusal, and for seeds that yielded nothing.
func refusedTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "reason", Type: tabular.String, Few: true},
			{Name: "time", Type: tabular.Time},
			{Name: "status", Type: tabular.Int64, Nullable: true},
			{Name: "depth", Type: tabular.Int64},
			{Name: "via", Type: tabular.String, Nullable: true},
			{Name: "attempts", Type: tabular.Int64},
		},
		files: func(j *job) ([]string, error) { return logFiles(j, crawlLog()) },
		fill: func(j *job) error {
			return j.scanLog(crawlLog(), func(e *crawllog.Entry) error {
				if e.Reason == "" || e.Order {
					return j.live()
				}
				status := tabular.Null
				if e.Status != 0 {
					status = tabular.Int(int64(e.Status))
				}
				return j.write(tabular.Str(e.URL), tabular.Str(e.Reason), tabular.At(e.Time), status,
					tabular.Int(int64(e.Depth)), tabular.StrOrNull(e.Via), tabular.Int(int64(e.Attempts)))
			})
		},
		logs:  []string{logDir},
		parts: []string{logDir},
	}
}

// logOf is a log and its name in the manifest.
type logOf struct{ name, prefix string }

func crawlLog() logOf  { return logOf{state.NameCrawlLog, "crawl"} }
func robotsLog() logOf { return logOf{state.NameRobotsLog, "robots"} }

func (j *job) logOptions(l logOf) crawllog.Options {
	return crawllog.Options{Set: j.Set, Prefix: l.prefix}
}

// logFiles returns the open files of a log.
func logFiles(j *job, l logOf) (files []string, err error) {
	st, err := part[crawllog.State](j, l.name)
	if err != nil {
		return nil, err
	}
	for _, v := range st.Files.Volumes {
		files = append(files, outfile.OpenFiles(j.logOptions(l).Files(), v)...)
	}
	return files, nil
}

// scanLog calls fn with each entry of a log. The first damage ends it.
func (j *job) scanLog(l logOf, fn func(e *crawllog.Entry) error) error {
	j.meter.Set(l.name)
	st, err := part[crawllog.State](j, l.name)
	if err != nil {
		return err
	}
	sum, err := crawllog.Scan(j.logOptions(l), st, fn, func(err error) error { return err })
	if sum.Absent > 0 {
		j.note(
			"%s of the crawl's %s files of the %s log are missing (moved away or lost), and their lines with them",
			humanize.Comma(sum.Absent), humanize.Comma(sum.Of), l.prefix)
	}
	return err
}
