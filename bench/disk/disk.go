package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/disk"
	"drumbeat/drum"
)

// Options are what Run measures. Options are a value.
type Options struct {
	// FS holds the directories; nil is that of the system. O_DIRECT and fio are tried with the latter alone.
	FS disk.FS
	// Dirs are existing directories, one per disk as a rule.
	Dirs []string
	// Bytes is what one measurement moves in a directory, at most; 1.5 times as much lies there meanwhile, twice
	// as much with Fio. 0: 1 GiB.
	Bytes int64
	// Chunks are the sizes of single reads and writes of one file in bytes, multiples of 4 KiB (the paper's Δ).
	// Empty: 64 KiB to 32 MiB.
	Chunks []int
	// Streams are numbers of files that are written in turns, as bucket files are (k), and Blocks the sizes of
	// such writes (M). Empty: 64 and 512; 64 and 256 KiB.
	Streams []int
	Blocks  []int
	// Repeats is how often all is measured. 0: 3.
	Repeats int
	// Budget is the time that everything together should take: Bytes shrinks to what a short probe says
	// fits in, and a measurement ends early when it takes more than its share. 0: no limit.
	Budget time.Duration
	// Fio is the path of the program fio, which then does every measurement beside us, in turns. "": none.
	Fio string

	// Alpha, URLBytes, LinksPerPage and Share turn a bandwidth into pages/s by Theorem 3; Share is that of
	// the disks' time that is left to URLseen. All must be above 0.
	Alpha, URLBytes, LinksPerPage, Share float64

	// Progress is called before each measurement, with what comes. May be nil.
	Progress func(what string)
}

// The kinds of access, as a pass has them.
const (
	opWrite = "write"
	opRead  = "read"
	opMixed = "mixed"
)

// align is what O_DIRECT may ask of offsets, lengths and addresses.
const align = 4096

// way is how bytes are moved.
type way struct {
	// op is write, read or mixed; chunk the size of one access; streams the number of files.
	op             string
	chunk, streams int
	// direct says that it passes by the page cache, prealloc that space was reserved before.
	direct, prealloc bool
}

// speed is what was measured of one way in a group of directories.
type speed struct {
	way
	// group is the number of the directory, or "all"; fio says that fio did it.
	group string
	fio   bool
	// bytes, spans and cpu are those of every repeat; cpu is the time of this process, 0 for fio.
	bytes []int64
	spans []time.Duration
	cpu   []time.Duration
}

// rates are the bytes/s of the repeats.
func (s *speed) rates() (r report.Sample) {
	for i, span := range s.spans {
		r = append(r, float64(s.bytes[i])/max(span, 1).Seconds())
	}
	return r
}

// rate is the median of the repeats in bytes/s; NaN if there are none.
func (s *speed) rate() float64 { return s.rates().Median() }

// diskRun is a measurement under way, and what it found.
type diskRun struct {
	opt Options
	// speeds are in the order in which they were measured first.
	speeds []*speed
	// notes say what a reader must know: directories without O_DIRECT, on one device, in RAM; sizes cut down.
	notes []string
	// bytes is what a measurement moves in a directory.
	bytes int64
}

// Validate returns all faults, joined.
func (d Options) Validate() error { return d.complete() }

// The defaults. The paper's M is 256 KiB, its Δ 32 MiB.
var (
	diskChunks  = [...]int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20}
	diskStreams = [...]int{64, 512}
	diskBlocks  = [...]int{64 << 10, 256 << 10}
)

// complete fills in defaults and returns all faults, joined.
func (d *Options) complete() error {
	if d.FS == nil {
		d.FS = disk.OS()
	}
	if d.Bytes == 0 {
		d.Bytes = 1 << 30
	}
	if len(d.Chunks) == 0 {
		d.Chunks = diskChunks[:]
	}
	if len(d.Streams) == 0 {
		d.Streams = diskStreams[:]
	}
	if len(d.Blocks) == 0 {
		d.Blocks = diskBlocks[:]
	}
	if d.Repeats == 0 {
		d.Repeats = 3
	}
	if d.Progress == nil {
		d.Progress = func(string) {}
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("bench: disk: "+format, args...)) }
	if len(d.Dirs) == 0 {
		fault("no directory")
	}
	for i, dir := range d.Dirs {
		if slices.Contains(d.Dirs[:i], dir) {
			fault("directory %s is given twice", dir)
		}
	}
	for _, c := range slices.Concat(d.Chunks, d.Blocks) {
		if c <= 0 || c%align != 0 || c > maxChunk {
			fault("chunk of %d bytes: want a multiple of %d up to %d", c, align, maxChunk)
		} else if 2*int64(c) > d.Bytes {
			fault("chunk of %d bytes: at most half of the %d bytes that are moved", c, d.Bytes)
		}
	}
	for _, k := range d.Streams {
		if k < 2 || k > maxStreams {
			fault("%d streams: want 2 to %d", k, maxStreams)
		}
	}
	if d.Bytes < 0 || d.Repeats < 0 || d.Budget < 0 {
		fault("bytes, repeats and budget must not be negative: %d, %d, %v", d.Bytes, d.Repeats, d.Budget)
	}
	if d.Fio != "" && !disk.IsOS(d.FS) {
		fault("fio knows the system's files alone")
	}
	if d.Alpha <= 0 || d.URLBytes <= 0 || d.LinksPerPage <= 0 || d.Share <= 0 || d.Share > 1 {
		fault("alpha, URL bytes, links per page and share must be above 0, share at most 1: %v, %v, %v, %v",
			d.Alpha, d.URLBytes, d.LinksPerPage, d.Share)
	}
	return errors.Join(faults...)
}

const (
	// maxChunk bounds a chunk, two of which are in RAM for each directory.
	maxChunk = 1 << 28
	// maxStreams bounds the files of a measurement: fio holds all of them open, and has 1,024 descriptors as a rule.
	maxStreams = 960
)

// ways are all that is measured of a group in a repeat, in order. Not every size goes with every property: that
// would be 200 measurements. One file: each chunk, with and without O_DIRECT, is written, read and mixed, and written
// once more into reserved space. k files: each k and block with and without O_DIRECT is written and read, for the
// largest block into reserved space too.
func (d *Options) ways(direct bool) (list []way) {
	cases := []bool{false, true}
	if !direct {
		cases = cases[:1]
	}
	for _, chunk := range d.Chunks {
		for _, direct := range cases {
			for _, op := range []string{opWrite, opRead, opMixed} {
				list = append(list, way{op, chunk, 1, direct, false})
			}
			list = append(list, way{opWrite, chunk, 1, direct, true})
		}
	}
	for _, k := range d.Streams {
		for _, block := range d.Blocks {
			for _, direct := range cases {
				list = append(list, way{opWrite, block, k, direct, false}, way{opRead, block, k, direct, false})
				if block == slices.Max(d.Blocks) {
					list = append(list, way{opWrite, block, k, direct, true}, way{opRead, block, k, direct, true})
				}
			}
		}
	}
	return list
}

// Run measures. It checks ctx between chunks. Nothing of it is left on disk when it returns; an error
// of removing is joined to what it returns.
func Run(ctx context.Context, d Options) (*report.Report, error) {
	if err := d.complete(); err != nil {
		return nil, err
	}
	r := &diskRun{opt: d, bytes: d.Bytes}
	out := report.New("disk", "sequential I/O of the directories")
	targets, err := r.openTargets()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range targets {
			t.free()
		}
	}()
	groups := make([]group, 0, len(targets)+1)
	for i, t := range targets {
		groups = append(groups, group{strconv.Itoa(i), []*target{t}})
	}
	if len(targets) > 1 {
		groups = append(groups, group{"all", targets})
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

// units is how many times Bytes are moved in all.
func (r *diskRun) units(groups []group) (n int) {
	for _, g := range groups {
		n += len(g.targets) * len(r.opt.ways(g.direct()))
	}
	if r.opt.Fio != "" {
		n *= 2
	}
	return n * r.opt.Repeats
}

// left is the part of the budget in which bytes are moved.
func (r *diskRun) left(groups []group) time.Duration {
	left := r.opt.Budget
	if r.opt.Fio != "" {
		left -= time.Duration(r.units(groups)/2) * fioStart
	}
	return max(left, r.opt.Budget/10)
}

// limit is the longest time of one measurement; 0 is none.
func (r *diskRun) limit(groups []group) time.Duration {
	return r.left(groups) / time.Duration(r.units(groups))
}

// measureGroup makes one repeat of all measurements of a group.
func (r *diskRun) measureGroup(ctx context.Context, g group, repeat int, limit time.Duration) (err error) {
	defer func() { err = errors.Join(err, g.remove()) }()
	ways := r.opt.ways(g.direct())
	for i, w := range ways {
		if int64(w.chunk)*int64(w.streams) > r.bytes {
			r.note(fmt.Sprintf("%d streams of %s blocks are left out: %s have no room for one block each.",
				w.streams, report.BinaryBytes(w.chunk), report.BinaryBytes(int(r.bytes))))
			continue
		}
		if w.op == opWrite { // all others use what was written last
			if err := g.remove(); err != nil {
				return err
			}
			r.opt.Progress(fmt.Sprintf("repeat %d of %d, directory %s, %d of %d: %v",
				repeat+1, r.opt.Repeats, g.name, i+1, len(ways), w))
		}
		s := setting{way: w, bytes: r.bytes, limit: limit}
		turns := []bool{false, true}
		if r.opt.Fio == "" {
			turns = turns[:1]
		} else if repeat%2 == 1 {
			slices.Reverse(turns)
		}
		for _, fio := range turns {
			if err := r.measure(ctx, g, s, fio); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure makes one measurement of a group, by this process or by fio.
func (r *diskRun) measure(ctx context.Context, g group, s setting, fio bool) error {
	v := r.speed(s.way, g.name, fio)
	before := measure.CPUTime()
	var n int64
	var span time.Duration
	var err error
	if fio {
		n, span, err = g.runFio(ctx, r.opt.Fio, s)
	} else {
		n, span, err = g.startAll(ctx, s)
	}
	if err != nil {
		return err
	}
	v.bytes, v.spans = append(v.bytes, n), append(v.spans, span)
	if !fio {
		v.cpu = append(v.cpu, measure.CPUTime()-before)
	}
	return nil
}

// note adds a remark, once.
func (r *diskRun) note(text string) {
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// find returns the entry of a kind of access, or an empty one.
func (r *diskRun) find(w way, group string, fio bool) *speed {
	for _, s := range r.speeds {
		if s.way == w && s.group == group && s.fio == fio {
			return s
		}
	}
	return &speed{way: w, group: group, fio: fio}
}

// speed finds or makes the entry of a kind of access.
func (r *diskRun) speed(w way, group string, fio bool) *speed {
	s := r.find(w, group, fio)
	if s.spans == nil {
		r.speeds = append(r.speeds, s)
	}
	return s
}

// pages is the rate of Theorem 3 for a bandwidth of which URLseen has Share.
func (d Options) pages(bandwidth float64) float64 {
	return drum.DiskRate(d.Share*bandwidth, d.Alpha, d.URLBytes, d.LinksPerPage)
}

// String is how a way is written in the names of benchmarks.
func (w way) String() string {
	return fmt.Sprintf("op=%s/chunk=%s/streams=%d/direct=%v/prealloc=%v", w.op, report.BinaryBytes(w.chunk), w.streams, w.direct, w.prealloc)
}
