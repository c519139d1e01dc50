package crawl

import (
	"errors"
	"fmt"
	"path/filepath"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/crawl/output"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state/extract"
)

// extractFlags have texts extracted while the crawl runs.
type extractFlags struct {
	Extract        []string    `group:"output" placeholder:"LIST"`
	ExtractDir     string      `group:"output" placeholder:"DIR"`
	ExtractFormat  string      `group:"output" enum:"parquet,wet,jsonl,csv" default:"parquet"`
	ExtractWorkers flags.Count `group:"output" placeholder:"N" default:"1"`
}

const mostExtractWorkers = 64

// checkExtract returns the first fault of the flags.
func (c *Command) checkExtract() error {
	f := &c.extractFlags
	_, err := extract.ParseFields(tabular.Format(f.ExtractFormat), f.Extract)
	switch {
	case err != nil:
		return fmt.Errorf("--extract %w", err)
	case f.ExtractWorkers < 1 || f.ExtractWorkers > mostExtractWorkers:
		return fmt.Errorf("--extract-workers %d: must be between 1 and %d", f.ExtractWorkers, mostExtractWorkers)
	case len(f.Extract) == 0 && f.ExtractDir != "":
		return errors.New("--extract-dir needs --extract")
	case len(f.Extract) > 0 && c.Store.Kind != "warc":
		return errors.New("--extract needs --store warc: it reads the WARC files")
	}
	return nil
}

// options returns the options of the flags for the directories of a crawl, nil without --extract.
func (f *extractFlags) options(o *crawl.DiskOptions) *output.ExtractOptions {
	if len(f.Extract) == 0 {
		return nil
	}
	x := &output.ExtractOptions{Dir: f.ExtractDir, Format: tabular.Format(f.ExtractFormat),
		Workers: int(f.ExtractWorkers)}
	x.Fields, _ = extract.ParseFields(x.Format, f.Extract) // checked
	if x.Dir == "" {
		first := o.Dirs
		if len(o.Out) > 0 {
			first = o.Out
		}
		x.Dir = filepath.Join(first[0], "texts")
	}
	x.Dir = filepath.Clean(x.Dir)
	return x
}

// extractText says what was extracted to dir; "" without --extract.
func extractText(s *crawl.Snapshot, dir string) string {
	if dir == "" {
		return ""
	}
	t := s.Texts
	text := fmt.Sprintf("%s, %s made in %s", human.Counted(t.Pages, "page", "pages"),
		human.Counted(t.Parts, "part", "parts"), dir)
	if t.Waiting > 0 {
		text += fmt.Sprintf("; %s none yet: the next run, or \"drumbeat extract\" with the same "+
			"options, makes them", human.Counted(t.Waiting, "WARC file has", "WARC files have"))
	}
	if t.Faults > 0 {
		text += fmt.Sprintf("; %s, see the log", human.Counted(t.Faults, "fault", "faults"))
	}
	return text
}
