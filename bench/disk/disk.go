package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/cputime"
)

// Options holds the parameters of Measure. The fields are flags of command bench. A zero means the default.
type Options struct {
	Dirs    []string      `name:"dir" placeholder:"DIR" required:""`
	Bytes   int64         `name:"size" type:"size" placeholder:"SIZE"`
	Chunks  []int         `name:"chunk" type:"size" placeholder:"SIZE"`
	Streams []int         `name:"stream" type:"count" placeholder:"N"`
	Blocks  []int         `name:"block" type:"size" placeholder:"SIZE"`
	Repeats int           `name:"repeat" type:"count" placeholder:"N"`
	Budget  time.Duration `name:"time" placeholder:"DURATION"`
	Quick   bool

	// FS holds the directories; nil means the system's, the only one on which O_DIRECT is tried.
	FS       disk.FS `kong:"-"`
	progress func(what string)
}

// The kinds of access in a pass.
const (
	opWrite = "write"
	opRead  = "read"
	opMixed = "mixed"
)

// Parameters of Theorem 3: URLseen's share of the disk, alpha, b and l.
const (
	urlSeenShare = 0.15
	alpha        = 3.33
	urlBytes     = 110
	pageLinks    = 59
)

// align is the alignment of offsets, lengths and addresses that O_DIRECT may require.
const align = 4096

// way is a way to transfer bytes.
type way struct {
	// op is write, read or mixed; chunk the size of one access; streams the number of files.
	op             string
	chunk, streams int
	direct         bool // bypasses the page cache
}

// speed holds the measurements of one way in a group of directories.
type speed struct {
	way
	// group is the number of the directory, or "all".
	group string
	// bytes, spans and cpu have one entry per repeat; cpu is the CPU time of this process.
	bytes []int64
	spans []time.Duration
	cpu   []time.Duration
}

// rates returns the bytes/s of all repeats.
func (s *speed) rates() (r result.Sample) {
	for i, span := range s.spans {
		r = append(r, float64(s.bytes[i])/max(span, 1).Seconds())
	}
	return r
}

// rate returns the median of the repeats in bytes/s; NaN if there are none.
func (s *speed) rate() float64 { return s.rates().Median() }

// diskRun is a running measurement and its results.
type diskRun struct {
	opt Options
	// speeds are in order of their first measurement.
	speeds []*speed
	// notes describe directories without O_DIRECT, on one device or in RAM, and reduced sizes.
	notes []string
	// bytes is the number of bytes per measurement and directory.
	bytes int64
}

// Complete fills in defaults and returns all faults, joined. The paper's M is 256 KiB, its Δ 32 MiB.
func (d *Options) Complete() error {
	if d.FS == nil {
		d.FS = disk.OS()
	}
	measure.Default(&d.Bytes, measure.Quick[int64](d.Quick, 128<<20, 1<<30))
	measure.Default(&d.Repeats, measure.Quick(d.Quick, 1, 3))
	// 24 s: some measurements exceed their share.
	measure.Default(&d.Budget, measure.Quick(d.Quick, 24*time.Second, 10*time.Minute))
	measure.DefaultList(&d.Chunks, measure.Quick(d.Quick, []int{64 << 10, 1 << 20, 8 << 20},
		[]int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20}))
	measure.DefaultList(&d.Streams, measure.Quick(d.Quick, []int{64}, []int{64, 512}))
	measure.DefaultList(&d.Blocks, measure.Quick(d.Quick, []int{256 << 10}, []int{64 << 10, 256 << 10}))
	need, faults := measure.Faults("disk")
	need(len(d.Dirs) > 0, "--dir: want at least one directory")
	for i, dir := range d.Dirs {
		need(!slices.Contains(d.Dirs[:i], dir), "--dir %s is given twice", dir)
	}
	for _, c := range slices.Concat(d.Chunks, d.Blocks) {
		need(c > 0 && c%align == 0 && c <= maxChunk, "--chunk, --block: %s: want a multiple of %s, at most %s",
			result.BinaryBytes(c), result.BinaryBytes(align), result.BinaryBytes(maxChunk))
		need(2*int64(c) <= d.Bytes, "--chunk, --block: %s: want at most half of --size %s", result.BinaryBytes(c),
			result.BinaryBytes(int(d.Bytes)))
	}
	for _, k := range d.Streams {
		need(k >= 2 && k <= maxStreams, "--stream %d: want 2 to %d", k, maxStreams)
	}
	need(d.Bytes >= 0 && d.Repeats >= 0 && d.Budget >= 0, "--size, --repeat and --time must not be negative")
	return faults()
}

const (
	// maxChunk bounds the size of a chunk. Two chunks per directory are in RAM.
	maxChunk = 1 << 28
	// maxStreams bounds the number of files of a measurement.
	maxStreams = 960
)

// ways returns the measurements of a group in one repeat, in order. It doesn't combine every size with
// every number of files. One file: write, read and mixed for each chunk, with and without O_DIRECT. k files:
// write and read for each k and block, with and without O_DIRECT.
func (d *Options) ways(direct bool) (list []way) {
	cases := []bool{false, true}
	if !direct {
		cases = cases[:1]
	}
	for _, chunk := range d.Chunks {
		for _, direct := range cases {
			for _, op := range []string{opWrite, opRead, opMixed} {
				list = append(list, way{op, chunk, 1, direct})
			}
		}
	}
	for _, k := range d.Streams {
		for _, block := range d.Blocks {
			for _, direct := range cases {
				list = append(list, way{opWrite, block, k, direct}, way{opRead, block, k, direct})
			}
		}
	}
	return list
}

// Measure checks ctx between chunks and calls progress before each measurement. It removes all its files;
// it joins an error of the removal to its own.
func (d Options) Measure(ctx context.Context, progress func(what string)) (*result.Report, error) {
	if err := d.Complete(); err != nil {
		return nil, err
	}
	d.progress = progress
	r := &diskRun{opt: d, bytes: d.Bytes}
	out := result.New("disk", "sequential I/O of the directories")
	targets, err := r.openTargets()
	if err != nil {
		return nil, err
	}
	defer group{targets: targets}.free()
	groups := make([]group, 0, len(targets)+1)
	for i, t := range targets {
		groups = append(groups, group{strconv.Itoa(i), []*target{t}})
	}
	if len(targets) > 1 {
		groups = append(groups, group{"all", targets})
	}
	if err := r.room(targets); err != nil {
		return nil, err
	}
	if err := r.probe(ctx, targets, groups); err != nil {
		return nil, err
	}
	limit := r.limit(groups)
	for repeat := range d.Repeats {
		for _, g := range groups {
			if err := r.measureGroup(ctx, g, repeat, limit); err != nil {
				return nil, err
			}
		}
	}
	r.fill(out)
	return out, nil
}

// units returns the number of times that Bytes are transferred in total.
func (r *diskRun) units(groups []group) (n int) {
	for _, g := range groups {
		n += len(g.targets) * len(r.opt.ways(g.direct()))
	}
	return n * r.opt.Repeats
}

// limit returns the maximum time of one measurement.
func (r *diskRun) limit(groups []group) time.Duration {
	return r.opt.Budget / time.Duration(r.units(groups))
}

// measureGroup makes one repeat of all measurements of a group.
func (r *diskRun) measureGroup(ctx context.Context, g group, repeat int, limit time.Duration) (err error) {
	defer func() { err = errors.Join(err, g.remove()) }()
	ways := r.opt.ways(g.direct())
	for i, w := range ways {
		if int64(w.chunk)*int64(w.streams) > r.bytes {
			r.note(fmt.Sprintf("Skipped %d streams with blocks of %s: one block for each of them exceeds %s.",
				w.streams, result.BinaryBytes(w.chunk), result.BinaryBytes(int(r.bytes))))
			continue
		}
		if w.op == opWrite { // the other operations use the files written last
			if err := g.remove(); err != nil {
				return err
			}
			r.opt.progress(fmt.Sprintf("repeat %d of %d, directory %s, %d of %d: %v",
				repeat+1, r.opt.Repeats, g.name, i+1, len(ways), w))
		}
		s := setting{way: w, bytes: r.bytes, limit: limit}
		if err := r.measure(ctx, g, s); err != nil {
			return err
		}
	}
	return nil
}

// measure makes one measurement of a group.
func (r *diskRun) measure(ctx context.Context, g group, s setting) error {
	v := r.speed(s.way, g.name)
	before := cputime.Process()
	n, span, err := g.startAll(ctx, s)
	if err != nil {
		return err
	}
	v.bytes, v.spans, v.cpu = append(v.bytes, n), append(v.spans, span), append(v.cpu, cputime.Process()-before)
	return nil
}

// note adds a note once.
func (r *diskRun) note(text string) {
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// find returns the entry of a way, or an empty one.
func (r *diskRun) find(w way, group string) *speed {
	for _, s := range r.speeds {
		if s.way == w && s.group == group {
			return s
		}
	}
	return &speed{way: w, group: group}
}

// speed finds or creates the entry of a way.
func (r *diskRun) speed(w way, group string) *speed {
	s := r.find(w, group)
	if s.spans == nil {
		r.speeds = append(r.speeds, s)
	}
	return s
}

// pages returns the rate of Theorem 3 in pages/s for a bandwidth, with the paper's parameters. URLseen gets a share of
// it.
func pages(bandwidth float64) float64 {
	return drum.DiskRate(urlSeenShare*bandwidth, alpha, urlBytes, pageLinks)
}

// String formats a way for the names of benchmarks.
func (w way) String() string {
	return fmt.Sprintf("op=%s/chunk=%s/streams=%d/direct=%v", w.op, result.BinaryBytes(w.chunk), w.streams, w.direct)
}
