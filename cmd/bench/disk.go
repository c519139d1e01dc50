package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// diskCmd has the flags for benchdisk.Options.
type diskCmd struct {
	Dir    []string       `placeholder:"DIR" required:"" help:"Directory to measure. Repeat it for several disks: each is measured alone, then all together."`
	Size   *flags.Size    `placeholder:"SIZE" help:"Bytes that a measurement moves in a directory. Disk space: 1.5 times as much, or twice with --fio. Default: 1GiB, or 128MiB with --quick."`
	Chunk  []flags.Size   `placeholder:"SIZE" help:"Size of one read or write of one file, a multiple of 4KiB (delta). Repeatable. Default: 64KiB, 256KiB, 1MiB, 4MiB, 32MiB; with --quick 64KiB, 1MiB, 8MiB, or 1MiB alone with --fio."`
	Stream []flags.Count  `placeholder:"N" help:"Number of files written alternately, like the buckets of a pass (k). Repeatable. Default: 64, 512; with --quick 64."`
	Block  []flags.Size   `placeholder:"SIZE" help:"Size of these writes, a multiple of 4KiB (M). Repeatable. Default: 64KiB, 256KiB; with --quick 256KiB."`
	Repeat *flags.Count   `placeholder:"N" help:"Number of repetitions. Default: 3, or 1 with --quick; one more with --fio, so each program goes first equally often."`
	Time   *time.Duration `placeholder:"DURATION" help:"Approximate duration of all measurements; sizes are reduced to fit. 0: no limit. Default: 10m, or 24s with --quick."`
	Quick  bool           `help:"End within 30 s."`
	Fio    bool           `help:"Also measure with fio, which must be installed, alternately with ours. --check then requires our speeds within 10 % of fio's."`

	Alpha        flags.Fraction `placeholder:"N" default:"3.33" help:"How often the text of all links is written and read (alpha). 3.33 is DRUM's value in the paper's Table III for 80 billion pages."`
	Share        flags.Fraction `placeholder:"SHARE" default:"0.15" help:"Share of the disks' time for URLseen, as in the paper."`
	URLBytes     flags.Size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Size of a URL's text (b)."`
	LinksPerPage flags.Fraction `placeholder:"N" default:"59" help:"Links per page (l)."`

	output
}

// The default durations. That of --quick leaves a margin below 30 s, since a measurement may exceed its
// share.
const (
	diskTime  = 10 * time.Minute
	quickTime = 24 * time.Second
)

// options returns the options of the measurement.
func (c *diskCmd) options() (benchdisk.Options, error) {
	d := benchdisk.Options{
		Dirs: c.Dir, Bytes: 1 << 30, Repeats: 3, Budget: diskTime,
		Alpha: float64(c.Alpha), URLBytes: float64(c.URLBytes), LinksPerPage: float64(c.LinksPerPage), Share: float64(c.Share),
	}
	if c.Quick {
		d.Bytes, d.Repeats, d.Budget = 128<<20, 1, quickTime
		d.Chunks, d.Streams, d.Blocks = []int{64 << 10, 1 << 20, 8 << 20}, []int{64}, []int{256 << 10}
	}
	if c.Fio && c.Quick {
		d.Chunks = []int{1 << 20} // each start of fio takes a third of a second
	}
	if c.Fio {
		d.Repeats++ // even, so each goes first equally often: the second may find a file in the host's cache
	}
	if c.Size != nil {
		d.Bytes = int64(*c.Size)
	}
	if c.Repeat != nil {
		d.Repeats = int(*c.Repeat)
	}
	if c.Time != nil {
		d.Budget = *c.Time
	}
	if d.Bytes == 0 || d.Repeats == 0 {
		return d, errors.New("--size and --repeat can't be 0")
	}
	if len(c.Chunk) > 0 {
		d.Chunks = ints(c.Chunk)
	}
	if len(c.Stream) > 0 {
		d.Streams = ints(c.Stream)
	}
	if len(c.Block) > 0 {
		d.Blocks = ints(c.Block)
	}
	if c.Fio {
		program, err := exec.LookPath("fio")
		if err != nil {
			return d, fmt.Errorf("--fio: fio is not installed (Debian: apt install fio): %w", err)
		}
		d.Fio = program
	}
	return d, d.Validate()
}

// ints converts the values of a flag.
func ints[T ~int64](list []T) (out []int) {
	for _, v := range list {
		out = append(out, int(v))
	}
	return out
}

// Run measures and prints.
func (c *diskCmd) Run(a *term.App) error {
	d, err := c.options()
	if err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		d.Progress = progress
		return benchdisk.Run(ctx, d)
	})
}
