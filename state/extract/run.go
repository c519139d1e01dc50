package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/admit"
	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
	"drumbeat/internal/sites"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
)

// WET is the format of conversion records; the others are those of tabular.
const WET tabular.Format = "wet"

// Field is a group of values.
type Field string

// The fields. WET has only Text and Lang.
const (
	Text     Field = "text"
	Lang     Field = "lang"
	Meta     Field = "meta"
	JSONLD   Field = "jsonld"
	Markdown Field = "markdown" // the main text as Markdown
	Quality  Field = "quality"  // measures of the main text: package textquality
	MinHash  Field = "minhash"  // signature of the main text: package minhash
)

// onRequest are the fields that no format has by default, and WET never.
var onRequest = []Field{Markdown, Quality, MinHash}

// Fields returns the fields that a format has by default.
func Fields(f tabular.Format) []Field {
	if f == WET {
		return []Field{Text, Lang}
	}
	return []Field{Text, Lang, Meta, JSONLD}
}

// has tells whether a format may have a field.
func has(format tabular.Format, f Field) bool {
	return slices.Contains(Fields(format), f) || slices.Contains(onRequest, f) && format != WET
}

// ParseFields returns the fields that names say; nil for none, which are all fields of the format. WET needs Text.
func ParseFields(format tabular.Format, names []string) (fields []Field, err error) {
	for i, name := range names {
		f := Field(name)
		switch {
		case !has(tabular.Parquet, f):
			return nil, fmt.Errorf("%s: want text, lang, meta, jsonld, markdown, quality or minhash", name)
		case !has(format, f):
			return nil, fmt.Errorf("%s: not for format %s, which has only text and lang", name, format)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("%s: named twice", strings.Join(names, ","))
		}
		fields = append(fields, f)
	}
	if format == WET && len(fields) > 0 && !slices.Contains(fields, Text) {
		return nil, fmt.Errorf("%s: format wet needs text", strings.Join(names, ","))
	}
	return fields, nil
}

// Options say what to extract, and where to.
type Options struct {
	FS disk.FS // nil: the machine's
	// Dirs are all directories of the crawl, in any order, Out its output directories, if it has separate ones.
	Dirs, Out []string
	Format    tabular.Format
	Fields    []Field // nil: those of Fields
	FullText  bool    // the visible text instead of the main text
	// Target is the directory of the parts. Stream, if set, takes the rows instead (CSV and JSON lines only), by one
	// worker.
	Target string
	Stream io.Writer
	// Compression of Parquet: zstd (default), snappy or uncompressed.
	Compression string
	RAMBytes    int64  // 0: 256 MiB; a worker for each 64 MiB, at most as many as CPUs
	Software    string // for the warcinfo record of WET
	// Sites is a file with settings of sites (package sites): pages of sites with extract = false are left
	// out. Only Run reads it, before Take, which it sets.
	Sites string
	// Take, if set, tells whether the page of a canonical URL is extracted. It is called by several goroutines.
	Take func(url []byte) bool
	// Begin, if set, is called before anything is written.
	Begin func(*Report)
	// Progress, if set, is called from another goroutine every ProgressEvery (0 means 1 s), and at the end.
	Progress      func(state.Progress)
	ProgressEvery time.Duration
}

// Counts says what became of stored responses.
type Counts struct {
	Pages       int64 `json:"pages"`               // rows or records
	Revisits    int64 `json:"revisits"`            // their text is that of another record
	OtherStatus int64 `json:"other_status"`        // not 200 to 299
	OtherType   int64 `json:"other_type"`          // not HTML
	HeadOnly    int64 `json:"head_only,omitempty"` // stored without their body on purpose
	Excluded    int64 `json:"excluded,omitempty"`  // by Options.Take
	// Pages that are longer than what was stored or read, or than a row may be.
	Truncated int64 `json:"truncated"`
	Failed    int64 `json:"failed"`  // a page that cannot be read as HTML
	Damaged   int64 `json:"damaged"` // records
}

func (c *Counts) add(d Counts) {
	c.Pages += d.Pages
	c.Revisits += d.Revisits
	c.OtherStatus += d.OtherStatus
	c.OtherType += d.OtherType
	c.HeadOnly += d.HeadOnly
	c.Excluded += d.Excluded
	c.Truncated += d.Truncated
	c.Failed += d.Failed
	c.Damaged += d.Damaged
}

// Report says what Run wrote.
type Report struct {
	Crawl      string
	Checkpoint uint64
	Time       time.Time // of the checkpoint
	Activity   string    // of the crawl, see state.Reader
	Workers    int
	Counts           // of all parts
	New        int64 // pages of parts that this Run made
	Parts      int   // all
	KeptParts  int   // made by an earlier Run
	Bytes      int64 // of all parts
	Damage     []error
	Notes      []string // what is missing
}

// ErrOther is wrapped by the error of Run if the target has parts of another crawl or of other options.
var ErrOther = errors.New("the directory has other parts")

const (
	defaultRAMBytes = 256 << 20
	workerBytes     = 64 << 20
	maxTries        = 20 // of opening the files of a running crawl before it makes the next checkpoint
	maxDamage       = 20 // errors that are kept
)

// job is one run.
type job struct {
	*state.Reader
	opt    *Options
	files  warc.Options // where the WARC files are
	warc   *warc.State
	agent  string // of the crawl, for X-Robots-Tag
	stream *sink  // of Options.Stream
	meter  *state.ProgressMeter

	mu     sync.Mutex // guards report
	report *Report
}

// Run writes the parts. It ends early if ctx is done; complete parts stay.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultRAMBytes
	}
	if len(opt.Dirs) == 0 {
		return nil, errors.New("extract: no directory given")
	}
	for range maxTries {
		j, err := open(&opt)
		if err != nil {
			return nil, err
		}
		same, err := j.Same()
		if err == nil && same {
			err = j.run(ctx)
		}
		j.Close()
		if err != nil || same {
			return j.report, err
		}
	}
	return nil,
		fmt.Errorf("extract: %s: the crawl made a new checkpoint each of the %d times that its files were opened",
			opt.Dirs[0], maxTries)
}

// complete sets defaults and checks the fields.
func (opt *Options) complete() error {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.Fields == nil {
		opt.Fields = Fields(opt.Format)
	}
	for _, f := range opt.Fields {
		if !has(opt.Format, f) {
			return fmt.Errorf("extract: no field %q of %s", f, opt.Format)
		}
	}
	return nil
}

// open opens what the last checkpoint names of the WARC files.
func open(opt *Options) (*job, error) {
	r, err := state.OpenReader(opt.FS, opt.Dirs, opt.Out)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	j := &job{Reader: r, opt: opt, files: r.WARCFiles(), report: &Report{Crawl: m.Crawl, Checkpoint: m.Gen,
		Time: time.Unix(m.Time, 0).UTC(), Activity: r.Activity()}}
	if m.Run != nil {
		j.agent = m.Run.Agent
	}
	set, err := admit.ReadSettings(opt.FS, opt.Sites,
		sites.Options{Suffixes: r.Suffixes, KeepEscapes: m.Frozen.KeepEscapes})
	if err == nil && set != nil {
		opt.Take = set.Extracts
	}
	if err == nil {
		err = j.pin()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return j, nil
}

// pin keeps the files that the crawl may rename readable, and the list of the others as it is.
func (j *job) pin() (err error) {
	all := false
	if j.warc, all, err = j.PinWARC(); err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	if !all {
		j.report.Notes = append(j.report.Notes,
			"the crawl has more open files than this process may have (ulimit -n); "+
				"the extraction fails if the crawl renames one of them meanwhile")
	}
	return nil
}

func (j *job) run(ctx context.Context) (err error) {
	if err := j.needIndexes(j.warc); err != nil {
		return err
	}
	if j.opt.Stream == nil {
		free, err := j.openTarget()
		if err != nil {
			return err
		}
		defer free()
	}
	j.report.Workers = max(1, min(int(j.opt.RAMBytes/workerBytes), runtime.GOMAXPROCS(0)))
	if j.opt.Stream != nil {
		j.report.Workers = 1
		if j.stream, err = j.newSink(j.opt.Stream, ""); err != nil {
			return err
		}
	}
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	j.meter = j.StartProgress(j.opt.Progress, j.opt.ProgressEvery, "warc")
	defer j.meter.End()
	j.meter.Set("pages")
	j.meter.Add(0)
	if err := j.parts(ctx, j.warc); err != nil {
		return err
	}
	j.meter.Complete()
	if j.stream != nil {
		return j.stream.close()
	}
	return nil
}

// parts makes all parts that are missing.
func (j *job) parts(ctx context.Context, st *warc.State) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	volumes := make(chan *volume)
	var workers sync.WaitGroup
	for range j.report.Workers {
		workers.Add(1)
		go func() {
			defer workers.Done()
			defer bug.Fatal()
			for v := range volumes {
				err := j.part(ctx, v)
				if err = errors.Join(err, v.data.Close()); err != nil {
					cancel(err)
				}
			}
		}()
	}
	err := warc.WalkIndexes(j.files, st, func(x *warc.Index) error {
		v, err := j.volume(x)
		if err != nil || v == nil {
			return err
		}
		select {
		case volumes <- v:
			return nil
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), v.data.Close())
		}
	})
	close(volumes)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// needIndexes returns an error if a WARC file is there without its index, and notes how many were moved away
// or are lost.
func (j *job) needIndexes(st *warc.State) error {
	files, err := warc.WithoutIndex(j.files, st)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return fmt.Errorf("extract: %s without an index, for example %s: move back its .cdxj file, or move both away",
			human.Counted(int64(len(files)), "WARC file is", "WARC files are"), files[0])
	}
	absent, of, err := warc.AbsentIndexes(j.files, st)
	if err == nil && absent > 0 {
		j.report.Notes = append(j.report.Notes,
			fmt.Sprintf("the indexes of %d of the crawl's %s missing (moved away or lost): "+
				"the texts of their pages are missing", absent,
				human.Counted(of, "WARC file is", "WARC files are")))
	}
	return err
}

// damaged counts a damaged record.
func (j *job) damaged(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.report.Damage) < maxDamage {
		j.report.Damage = append(j.report.Damage, err)
	}
}

// finished adds a part to the report.
func (j *job) finished(s *summary, kept bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.report
	r.add(s.Counts)
	r.Parts++
	r.Bytes += s.Bytes
	if kept {
		r.KeptParts++
	} else {
		r.New += s.Counts.Pages
	}
}
