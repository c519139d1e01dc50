package crawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"drumbeat/internal/tabular"
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

// Texts says what became of the texts of pages (Options.Extract), in this run.
type Texts = snapshot.Texts

// extractRetry is how long the extraction waits for room.
const extractRetry = time.Minute

// extractRAM returns the bytes of the Go heap that extraction may take.
func (o *Options) extractRAM() int64 {
	if o.Extract == nil {
		return 0
	}
	return int64(max(1, o.Extract.Workers)) * extract.WorkerBytes
}

// extraction makes a part of texts for each WARC file that has its final name, while the crawl runs and at its end. It reads
// such files only, which never change, so it takes no lock of the crawl and is in no checkpoint: after a crash or a restart
// the missing parts are made, since a part is complete or absent (package extract). An error of it is logged and counted,
// and never ends the crawl.
//
// Goroutines: "extract", and one for each part under way, at most ExtractOptions.Workers. It takes no URLs; its input are the
// files that the checkpointer's checkpoints finish (checkpointed).
type extraction struct {
	*engine
	output *output
	space  *space

	uploads *uploads
	wake    signal // a checkpoint has given files their names

	live atomic.Pointer[extract.Live] // nil: off, ended, or its directory cannot be used
	last atomic.Pointer[Texts]        // the figures when it ended
	told string                       // the last error of a pass, which was logged
}

func newExtraction(e *engine) *extraction { return &extraction{engine: e, wake: newSignal()} }

// checkpointed tells that a checkpoint may have given files their final names.
func (x *extraction) checkpointed() { x.wake.raise() }

// open locks the directory of the parts, if extraction is on.
func (x *extraction) open() {
	o := x.opt.Extract
	if o == nil {
		return
	}
	format := o.Format
	if format == "" {
		format = tabular.Parquet
	}
	live, err := extract.OpenLive(extract.LiveOptions{
		Options: extract.Options{FS: x.opt.Disk.FS, Target: o.Dir, Format: format, Fields: o.Fields, Take: x.takes,
			Software: "drumbeat/" + x.opt.Identity.Version},
		Files: x.output.warcOptions(), Crawl: x.CrawlID, Agent: x.opt.Identity.Agent, Workers: max(1, o.Workers), Room: x.room,
		Failed: func(file string, err error) {
			x.opt.Observe.Log.Error("no text was extracted", "file", file, "error", err)
		},
	})
	if err != nil {
		x.last.Store(&Texts{Faults: 1})
		x.opt.Observe.Log.Error("no texts are extracted in this run", "error", err)
		return
	}
	x.live.Store(live)
}

// takes tells whether the settings of its site let a page be extracted.
func (x *extraction) takes(url []byte) bool { return x.sites.Load().Extracts(url) }

// room returns an error if some bytes do not fit above the mark of free space, or below --disk.
func (x *extraction) room(need int64) error {
	return x.space.roomBeside("a part of texts", []string{x.opt.Extract.Dir}, need)
}

// run is the goroutine "extract".
func (x *extraction) run(ctx context.Context) error {
	seen := int64(-1)
	for ctx.Err() == nil && x.live.Load() != nil {
		wait := wakeAfter
		if n := x.output.finishedWARCs(); n != seen {
			seen = n
			if !x.pass(ctx) {
				seen, wait = -1, extractRetry
			}
		}
		x.await(ctx, x.wake, wait)
	}
	return nil
}

// pass makes the parts that are missing. It returns false if there is no room for them now.
func (x *extraction) pass(ctx context.Context) bool {
	live := x.live.Load()
	x.testHook("extract")
	err := live.Pass(ctx)
	if ctx.Err() != nil {
		return true
	}
	text := ""
	if err != nil {
		text = err.Error()
		live.Fault()
	}
	x.uploads.released()
	if text != "" && x.told == "" {
		x.opt.Observe.Log.Error("the extraction of texts waits", "error", err)
	}
	x.told = text
	return !errors.Is(err, errNoRoom)
}

// needs tells whether a WARC file must stay here, because its part is not made yet.
func (x *extraction) needs(name string) bool {
	live := x.live.Load()
	return live != nil && !live.Ended(name)
}

// finish makes the parts that are missing at the end of a crawl, unless it was told to stop: then the next run makes them.
func (x *extraction) finish(ctx context.Context) {
	if x.live.Load() == nil || ctx.Err() != nil {
		return
	}
	x.opt.Observe.Log.Info("extracting the texts of the last WARC files")
	x.pass(ctx)
}

// close unlocks the directory.
func (x *extraction) close() {
	if live := x.live.Swap(nil); live != nil {
		x.last.Store(textsOf(live))
		live.Close()
	}
}

// show adds the figures to a snapshot.
func (x *extraction) show(s *Snapshot) {
	if live := x.live.Load(); live != nil {
		s.Texts = *textsOf(live)
	} else if last := x.last.Load(); last != nil {
		s.Texts = *last
	}
}

func textsOf(live *extract.Live) *Texts {
	p := live.Progress()
	return &Texts{Parts: p.Parts, Pages: p.Pages, Waiting: p.Waiting, Faults: p.Faults}
}
