package output

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/extract"
	"drumbeat/state/snapshot"
)

// ExtractOptions have the texts of pages extracted while the crawl runs. The parts are those of "drumbeat extract".
type ExtractOptions struct {
	Dir     string          // of the parts
	Format  tabular.Format  // "": Parquet
	Fields  []extract.Field // nil: all of the format
	Workers int             // 0: 1
}

// extractRetry is how long the extraction waits for room.
const extractRetry = time.Minute

// Extraction makes a part of texts for each WARC file that has its final name, while the crawl runs and at
// its end. It reads such files only, which never change, so it takes no lock of the crawl and is in no
// checkpoint: after a crash or a restart the missing parts are made, since a part is complete or absent
// (package extract). An error of it is logged and counted, and never ends the crawl.
//
// Goroutines: "extract", and one for each part under way, at most ExtractOptions.Workers. It takes no URLs;
// its input are the files that the checkpointer's checkpoints finish (checkpointed).
type Extraction struct {
	run    *account.Run
	saved  *state.Saved
	opt    ExtractionOptions
	output *Writer

	space *space.Keeper

	released func()         // some files may be needed no longer
	wake     account.Signal // a checkpoint has given files their names

	live atomic.Pointer[extract.Live]   // nil: off, ended, or its directory cannot be used
	last atomic.Pointer[snapshot.Texts] // the figures when it ended
	told string                         // the last error of a pass, which was logged
}

// ExtractionOptions are the options of an Extraction.
type ExtractionOptions struct {
	Log            *slog.Logger
	FS             disk.FS
	Extract        *ExtractOptions // nil: off
	Agent, Version string
	Takes          func(url []byte) bool // the settings of its site let a page be extracted
}

// NewExtraction returns an Extraction of the files of out. It calls released when it needs some of them no longer.
func NewExtraction(run *account.Run, saved *state.Saved, opt ExtractionOptions, out *Writer, room *space.Keeper,
	released func()) *Extraction {
	return &Extraction{run: run, saved: saved, opt: opt, output: out, space: room, released: released,
		wake: account.NewSignal()}
}

// Checkpointed tells that a checkpoint may have given files their final names.
func (x *Extraction) Checkpointed() { x.wake.Raise() }

// Open locks the directory of the parts, if extraction is on.
func (x *Extraction) Open() {
	o := x.opt.Extract
	if o == nil {
		return
	}
	format := o.Format
	if format == "" {
		format = tabular.Parquet
	}
	live, err := extract.OpenLive(extract.LiveOptions{
		Options: extract.Options{FS: x.opt.FS, Target: o.Dir, Format: format, Fields: o.Fields, Take: x.opt.Takes,
			Software: "drumbeat/" + x.opt.Version},
		Files: x.output.WARCOptions(), Crawl: x.saved.CrawlID, Agent: x.opt.Agent,
		Workers: max(1, o.Workers), Room: x.room, Failed: func(file string, err error) {
			x.opt.Log.Error("could not extract texts", "file", file, "error", err)
		},
	})
	if err != nil {
		x.last.Store(&snapshot.Texts{Faults: 1})
		x.opt.Log.Error("this run extracts no texts", "error", err)
		return
	}
	x.live.Store(live)
}

// room returns an error if some bytes do not fit above the mark of free space, or below --disk.
func (x *Extraction) room(need int64) error {
	return x.space.RoomBeside("a part of texts", []string{x.opt.Extract.Dir}, need)
}

// Run is the goroutine "extract".
func (x *Extraction) Run(ctx context.Context) error {
	seen := int64(-1)
	for ctx.Err() == nil && x.live.Load() != nil {
		wait := account.WakeAfter
		if n := x.output.finishedWARCs(); n != seen {
			seen = n
			if !x.pass(ctx) {
				seen, wait = -1, extractRetry
			}
		}
		x.run.Await(ctx, x.wake, wait)
	}
	return nil
}

// pass makes the parts that are missing. It returns false if there is no room for them now.
func (x *Extraction) pass(ctx context.Context) bool {
	live := x.live.Load()
	x.run.Hook("extract")
	err := live.Pass(ctx)
	if ctx.Err() != nil {
		return true
	}
	text := ""
	if err != nil {
		text = err.Error()
		live.Fault()
	}
	x.released()
	if text != "" && x.told == "" {
		x.opt.Log.Error("text extraction is waiting", "error", err)
	}
	x.told = text
	return !errors.Is(err, space.ErrNoRoom)
}

// needs tells whether a WARC file must stay here, because its part is not made yet.
func (x *Extraction) needs(name string) bool {
	live := x.live.Load()
	return live != nil && !live.Ended(name)
}

// Finish makes the parts that are missing at the end of a crawl, unless it was told to stop: then the next
// run makes them.
func (x *Extraction) Finish(ctx context.Context) {
	if x.live.Load() == nil || ctx.Err() != nil {
		return
	}
	x.opt.Log.Info("extracting the texts of the last WARC files")
	x.pass(ctx)
}

// Close unlocks the directory.
func (x *Extraction) Close() {
	if live := x.live.Swap(nil); live != nil {
		x.last.Store(textsOf(live))
		live.Close()
	}
}

// Show adds the figures to a snapshot.
func (x *Extraction) Show(s *snapshot.Snapshot) {
	if live := x.live.Load(); live != nil {
		s.Texts = *textsOf(live)
	} else if last := x.last.Load(); last != nil {
		s.Texts = *last
	}
}

func textsOf(live *extract.Live) *snapshot.Texts {
	p := live.Progress()
	return &snapshot.Texts{Parts: p.Parts, Pages: p.Pages, Waiting: p.Waiting, Faults: p.Faults}
}
