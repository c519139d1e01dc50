package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/extract"
)

// Kind is a kind of table.
type Kind string

// The kinds.
const (
	PLDs     Kind = "plds"
	PLDEdges Kind = "pld-edges"
	Hosts    Kind = "hosts"
	Refused  Kind = "refused"
	Queue    Kind = "queue"
	Robots   Kind = "robots"
	Pages    Kind = "pages"
	Near     Kind = "near-duplicates"
	Texts    Kind = "texts"
	Links    Kind = "links"
	Sample   Kind = "sample"
	URLs     Kind = "state"
	Changes  Kind = "changes"
	Payments Kind = "payments" // for the report: Hosts has its columns

	HostEdges Kind = "host-edges"
	HostRanks Kind = "host-ranks"
	PLDRanks  Kind = "pld-ranks"

	Reputation Kind = "reputation"
)

// Arc is a format of PLDEdges, HostEdges and Links alone: edges as numbers of nodes, and numbers and names of the
// nodes, as WebGraph and the tools of Common Crawl read them.
const Arc tabular.Format = "arc"

// Options say what to export, and where to.
type Options struct {
	FS disk.FS // nil: the machine's
	// Dirs are all directories of the crawl, in any order, Out its output directories, if it has separate ones.
	Dirs, Out []string
	Kind      Kind
	Format    tabular.Format
	// Target is the directory of the table. Stream, if set, takes the rows instead (CSV and JSON lines only).
	Target string
	Stream io.Writer
	// Compression and PartBytes are as in tabular.Options.
	Compression string
	PartBytes   int64
	RAMBytes    int64       // 0: 256 MiB; at least 32 MiB
	TempDir     string      // for sorting; it should not exist, and is removed at the end
	Queued      bool        // PLDs: count the waiting URLs of each, which needs all queues
	CountLinks  bool        // PLDEdges and URLs: count the links, which reads all stored pages
	Languages   bool        // Pages: find the language of each, which reads all stored pages; needs Out
	About       state.About // WACZ: replaces those texts of the crawl that it has
	// Changes: only rows after that with Token, if set, or else from Since on; with unchanged pages; with texts.
	Token            string
	Since            time.Time
	Unchanged, Texts bool
	// Texts: the copies that it leaves out, and its columns (nil: those of extract.Fields).
	Dedup  Dedup
	Fields []extract.Field
	// Texts with DedupNear: the least estimated similarity of a pair, LeastSimilarity (0 means that) to 1.
	Similarity float64
	// Begin, if set, is called when the target is open, and before anything is written.
	Begin func(*Report)
	// Progress, if set, is called from another goroutine every ProgressEvery (0 means 1 s), and at the end.
	Progress      func(state.Progress)
	ProgressEvery time.Duration

	site  func(*job) error // for Site, Coverage and EachFetched
	carry *carry           // for Follow
}

// Report says what Run wrote.
type Report struct {
	Crawl      string
	Checkpoint uint64
	Time       time.Time // of the checkpoint
	Activity   string    // of the crawl, see state.Reader
	Rows       int64     // written now
	Kept       int64     // rows of parts that an earlier Run finished
	KeptParts  int
	Complete   bool // an earlier Run finished the table
	// Replaced is the number of parts of another checkpoint that were deleted; ReplacedSource names it.
	Replaced       int
	ReplacedSource string
	Parts          int
	Bytes          int64
	Notes          []string // what the rows lack
	Token          string   // Changes: it names the end of this run
	Damaged        int      // records that are damaged, whose rows are missing
}

const (
	defaultRAMBytes = 256 << 20
	leastRAMBytes   = 32 << 20
	maxTries        = 20 // of opening the files of a running crawl before it makes the next checkpoint
)

// job is one run of an export.
type job struct {
	*state.Reader
	ctx    context.Context
	opt    *Options
	report *Report
	meter  *state.ProgressMeter
	rows   *tabular.Writer
	row    []tabular.Value // scratch
	ends   []func() error  // of sorters and scans
	sorts  int
	calls  int
	noted  bool // by noteAbsent
	now    mark // of Changes
	// unnamed is the number of origins without a name.
	unnamed int
}

// table is what Run needs to know of a kind.
type table struct {
	columns []tabular.Column
	// files returns the files that fill reads and that the crawl may delete.
	files func(j *job) ([]string, error)
	fill  func(j *job) error
	logs  []string // subdirectories of log or output files that fill lists
	parts []string // directories whose size is the total of the progress
	// indexed says that fill finds pages by the indexes, and that each WARC file must have its own.
	indexed bool
}

func tableOf(k Kind) (t table, ok bool) {
	switch k {
	case PLDs:
		return pldTable(), true
	case PLDEdges:
		return edgeTable(), true
	case Hosts:
		return hostTable(), true
	case Refused:
		return refusedTable(), true
	case Payments:
		return paymentTable(), true
	case Queue:
		return queueTable(), true
	case URLs:
		return stateTable(), true
	case Changes:
		return changeTable(), true
	case Robots:
		return robotsTable(), true
	case Pages:
		return pageTable(), true
	case Near:
		return nearTable(), true
	case Texts:
		return textTable(), true
	case Links:
		return linkTable(), true
	case HostEdges:
		return hostEdgeTable(), true
	case HostRanks:
		return rankTable("host"), true
	case PLDRanks:
		return rankTable("pld"), true
	case Reputation:
		return reputationTable(), true
	case Sample:
		return sampleTable(), true
	case Index:
		return indexTable(), true
	case WACZ:
		return waczTable(), true
	case site:
		return siteTable(), true
	case coverage:
		return coverageTable(), true
	}
	return table{}, false
}

// Run exports one table. It ends early if ctx is done.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultRAMBytes
	}
	opt.RAMBytes = max(opt.RAMBytes, leastRAMBytes)
	t, ok := tableOf(opt.Kind)
	if !ok || len(opt.Dirs) == 0 {
		return nil, fmt.Errorf("export: no table %q, or no directory given", opt.Kind)
	}
	if opt.Stream == nil {
		r, err := state.OpenReader(opt.FS, opt.Dirs, opt.Out) // no directory is made in what is no crawl
		if err != nil {
			return nil, err
		}
		r.Close()
		free, err := lock(&opt)
		if err != nil {
			return nil, err
		}
		defer free()
	}
	for range maxTries {
		j, err := open(ctx, &opt, &t)
		if err != nil {
			return nil, err
		}
		same, err := j.Same()
		if err == nil && same {
			err = j.run(&t)
		}
		j.Close()
		if err != nil || same {
			return j.report, err
		}
	}
	return nil,
		fmt.Errorf("export: %s: the crawl made a new checkpoint each of the %d times that its files were opened",
			opt.Dirs[0], maxTries)
}

// lock takes the directory for sorting, so that no other export writes to the same target.
func lock(opt *Options) (free func(), err error) {
	if err := opt.FS.MkdirAll(opt.TempDir); err != nil {
		return nil, fmt.Errorf("export: make %s: %w", opt.TempDir, err)
	}
	l, err := opt.FS.Lock(opt.TempDir)
	if err != nil {
		if errors.Is(err, disk.ErrLocked) {
			err = disk.ErrLocked // its directory is none of a crawl
		}
		return nil, fmt.Errorf("export: another export uses %s: %w", opt.TempDir, err)
	}
	return func() {
		// Errors leave an empty directory.
		_ = opt.FS.Remove(disk.LockPath(opt.TempDir))
		_ = l.Close()
		_ = opt.FS.Remove(opt.TempDir)
	}, nil
}

// open opens all files of the last checkpoint that the table needs.
func open(ctx context.Context, opt *Options, t *table) (*job, error) {
	r, err := state.OpenReader(opt.FS, opt.Dirs, opt.Out)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	j := &job{Reader: r, ctx: ctx, opt: opt, report: &Report{Crawl: m.Crawl, Checkpoint: m.Gen,
		Time: time.Unix(m.Time, 0).UTC(), Activity: r.Activity()}}
	files, err := t.files(j)
	if err == nil && !r.Pin(files) && j.report.Activity == state.StateRunning {
		j.report.Notes = append(j.report.Notes, "the checkpoint has more files than this process may open at once "+
			"(ulimit -n); the export fails if the crawl deletes one of them meanwhile")
	}
	logs := t.logs
	if opt.CountLinks {
		logs = append(logs, "warc")
	}
	for _, sub := range logs {
		for _, set := range []disk.Set{r.Set, r.Out} {
			for dir := range set.Paths {
				err = errors.Join(err, r.PinList(set.Path(dir, sub)))
			}
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return j, nil
}

// source names the rows that a table is made of.
func (j *job) source() string {
	s := fmt.Sprintf("checkpoint %d of crawl %s", j.report.Checkpoint, j.report.Crawl)
	if j.opt.Queued {
		s += ", with queued URLs"
	}
	if j.opt.CountLinks {
		s += ", with counted links"
	}
	if j.opt.Languages {
		s += ", with languages"
	}
	if j.opt.Kind == Changes {
		s += j.opt.changesSource()
	}
	if j.opt.Kind == Texts {
		s += fmt.Sprintf(", without %s copies", j.opt.Dedup)
		if j.opt.Similarity > 0 {
			s += fmt.Sprintf(" of similarity %g", j.opt.Similarity)
		}
	}
	return s
}

func (j *job) run(t *table) (err error) {
	parts := t.parts
	if j.opt.CountLinks || j.opt.Languages || j.opt.Texts {
		parts = append(parts, "warc")
	}
	j.meter = j.StartProgress(j.opt.Progress, j.opt.ProgressEvery, parts...)
	defer j.meter.End()
	defer func() {
		if err == nil {
			err = j.RemoteFailed()
		}
		for _, end := range slices.Backward(j.ends) {
			err = errors.Join(err, end())
		}
		if j.opt.Stream != nil && j.sorts > 0 {
			_ = j.opt.FS.Remove(j.opt.TempDir) // an error leaves an empty directory
		}
	}()
	if t.indexed || j.opt.CountLinks || j.opt.Languages {
		if err := j.needIndexes(); err != nil {
			return err
		}
	}
	switch {
	case j.opt.Kind == Index:
		return j.index()
	case j.opt.Kind == WACZ:
		return j.wacz()
	case j.opt.Kind == site || j.opt.Kind == coverage:
		return j.opt.site(j)
	case j.opt.Kind == Texts:
		return j.texts()
	case j.opt.Format == Arc && j.opt.Kind == Links:
		return j.graph("url", j.linkGraph)
	case j.opt.Format == Arc && j.opt.Kind == HostEdges:
		return j.graph("host_rev", j.hostGraph)
	case j.opt.Format == Arc:
		return j.graph("pld_rev", j.pldGraph)
	}
	if j.opt.Kind == Changes {
		if err := j.endOfFeed(); err != nil {
			return err
		}
	}
	if j.rows, err = j.create("", j.opt.Format, t.columns); err != nil {
		return err
	}
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	if j.report.Complete {
		return nil
	}
	j.row = make([]tabular.Value, len(t.columns))
	return j.finish(j.rows, errors.Join(t.fill(j), j.RemoteFailed()))
}

// create opens the writer of a table, in a subdirectory of the target, and reports what it found.
func (j *job) create(sub string, format tabular.Format, columns []tabular.Column) (*tabular.Writer, error) {
	o := j.opt
	if o.Stream != nil {
		return tabular.NewStream(o.Stream, tabular.Options{Format: format, Columns: columns})
	}
	dir := o.Target
	if sub != "" {
		dir += "/" + sub
	}
	w, err := tabular.Create(tabular.Options{FS: o.FS, Dir: dir, Format: format, Columns: columns,
		Kind: string(o.Kind), Source: j.source(), Compression: o.Compression, PartBytes: o.PartBytes,
		GroupBytes: min(32<<20, o.RAMBytes/8)})
	if err != nil {
		return nil, err
	}
	r, found := j.report, w.Resumed()
	r.Kept += found.Rows
	r.KeptParts += found.Parts
	r.Replaced += found.Replaced
	r.Complete = found.Complete
	if found.Complete {
		j.count(w)
	}
	if found.ReplacedSource != "" {
		r.ReplacedSource = found.ReplacedSource
	}
	return w, nil
}

// finish closes a writer and counts what it wrote.
func (j *job) finish(w *tabular.Writer, err error) error {
	if err != nil {
		w.Abort()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	j.count(w)
	return nil
}

// count adds a finished table to the report.
func (j *job) count(w *tabular.Writer) {
	j.report.Rows += w.Rows()
	j.report.Parts += len(w.Parts())
	for _, p := range w.Parts() {
		j.report.Bytes += p.Bytes
	}
}

// write writes a row of the table.
func (j *job) write(row ...tabular.Value) error {
	if err := j.live(); err != nil {
		return err
	}
	return j.rows.Write(row)
}

// live returns the cause if the context is done. It looks once in 256 calls.
func (j *job) live() error {
	if j.calls++; j.calls%256 == 0 && j.ctx.Err() != nil {
		return context.Cause(j.ctx)
	}
	return nil
}

// sorter returns a sorter with a quarter of the RAM, which run closes. At most two are full at a time.
func (j *job) sorter() *extsort.Sorter { return j.sorterOf(4) }

// sorterOf is sorter for a fraction of the RAM, down to an eighth.
func (j *job) sorterOf(part int64) *extsort.Sorter {
	j.sorts++
	s := extsort.New(extsort.Options{FS: j.opt.FS, Dir: fmt.Sprintf("%s/%d", j.opt.TempDir, j.sorts),
		RAMBytes: j.opt.RAMBytes / part})
	j.ends = append(j.ends, s.Close)
	return s
}

func (j *job) note(format string, args ...any) {
	j.report.Notes = append(j.report.Notes, fmt.Sprintf(format, args...))
}

// part decodes the state of a structure, which must be there.
func part[S any](j *job, name string) (*S, error) {
	s, err := state.Part[S](j.Manifest, name)
	if err == nil && s == nil {
		err = fmt.Errorf("export: the manifest has no state of %s: %w", name, state.ErrIncompatible)
	}
	return s, err
}

// unixOrNull is a time of whole seconds; 0 is null.
func unixOrNull(seconds int64) tabular.Value {
	if seconds <= 0 {
		return tabular.Null
	}
	return tabular.At(time.Unix(seconds, 0))
}

// timeOrNull is null for the zero time.
func timeOrNull(t time.Time) tabular.Value {
	if t.IsZero() {
		return tabular.Null
	}
	return tabular.At(t)
}
