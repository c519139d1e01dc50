package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/state/export"
)

// leastRAM is the least value of --ram.
const leastRAM = 32 << 20

// run is an export as a command shows it.
type run struct {
	app     *term.App
	command string // its name
	kind    string // of what it writes
	output  string // -o
	opt     export.Options
	stopped string // what a signal leaves
	// begin, if set, adds to what is said at the beginning.
	begin func(r *export.Report, say func(format string, args ...any))
	// end, if set, adds to the notes.
	end func(r *export.Report, say func(format string, args ...any))
}

// to sets where output, sorted runs and the result go.
func (r *run) to(output, tmp string) {
	r.output = output
	if output == "-" {
		r.opt.Stream = r.app.Stdout
		r.opt.TempDir = filepath.Join(os.TempDir(), fmt.Sprintf("drumbeat-%s-%d", r.command, os.Getpid()))
	} else {
		r.opt.Target = filepath.Clean(output)
		r.opt.TempDir = r.opt.Target + ".tmp"
	}
	if tmp != "" {
		r.opt.TempDir = filepath.Join(tmp, r.command+"-tmp")
	}
}

// do runs the export and prints notes, progress and the result: unit is what its rows are called.
func (r *run) do(unit string) error {
	if err := r.checkTarget(); err != nil {
		return err
	}
	ctx, release := r.app.StopOnSignal(context.Background())
	defer release()
	r.opt.RAMBytes = term.HeapBytes(r.opt.RAMBytes)
	defer term.LimitMemory(r.opt.RAMBytes)()
	p := term.NewProgress(r.app.Stderr)
	say := func(format string, args ...any) {
		p.Clear()
		fmt.Fprintf(r.app.Stderr, r.command+": "+format+"\n", args...)
	}
	r.opt.Progress = p.Show
	r.opt.Begin = func(rep *export.Report) {
		say("%s as of checkpoint %d, %s UTC; the crawl is %s", r.kind, rep.Checkpoint, rep.Time.Format(time.DateTime),
			rep.Activity)
		if r.begin != nil {
			r.begin(rep, say)
		}
	}
	began := time.Now()
	rep, err := export.Run(ctx, r.opt)
	p.Clear()
	if errors.Is(err, term.ErrSignal) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; " + r.stopped}
	} else if errors.Is(err, export.ErrToken) {
		return term.Usage(err)
	} else if err != nil {
		return err
	}
	for _, note := range rep.Notes {
		say("%s", note)
	}
	if r.end != nil {
		r.end(rep, say)
	}
	result, to := fmt.Sprintf("%s: %s", r.kind, human.Counted(rep.Rows+rep.Kept, strings.TrimSuffix(unit, "s"), unit)),
		io.Writer(r.app.Stderr)
	if r.output != "-" {
		result, to = fmt.Sprintf("%s, %s, %s in %s", result, human.Counted(int64(rep.Parts), "part", "parts"),
			human.Bytes(rep.Bytes), r.output), r.app.Stdout
	}
	elapsed := time.Since(began)
	_, err = fmt.Fprintf(to, "%s; %s, %s %s/s\n", result, human.Duration(elapsed),
		humanize.Comma(int64(float64(rep.Rows)/max(elapsed.Seconds(), 1e-3))), unit)
	if err == nil && rep.Damaged > 0 {
		return &term.Ended{Code: term.ExitDamage, Why: "files of the crawl are damaged", Quiet: true}
	}
	return err
}
