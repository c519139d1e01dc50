package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"time"

	"drumbeat/bench/report"
	"drumbeat/disk"
	"drumbeat/drum"
)

// Disk is what RunDisk measures. A Disk is a value.
type Disk struct {
	// FS holds the directories; nil is that of the system. O_DIRECT is tried with the latter alone.
	FS disk.FS
	// Dirs are existing directories, one per disk as a rule.
	Dirs []string
	// Bytes is what one measurement moves in a directory, at most; 1.5 times as much lies there meanwhile.
	// 0: 1 GiB.
	Bytes int64
	// Chunks are the sizes of single reads and writes in bytes, multiples of 4 KiB. Empty: 64 KiB to 8 MiB.
	Chunks []int
	// Repeats is how often all is measured. 0: 3.
	Repeats int
	// Budget is the time that everything together should take: Bytes shrinks to what a short probe says
	// fits in, and a measurement ends early when it takes more than its share. 0: no limit.
	Budget time.Duration

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

// Speed is what was measured of one kind of access to a group of directories.
type Speed struct {
	// Op is write, read or mixed; ChunkBytes the size of one access; Direct says that it passed by the page
	// cache.
	Op         string
	ChunkBytes int
	Direct     bool
	// Group is the number of the directory, or "all".
	Group string
	// Bytes and Spans are those of every repeat.
	Bytes []int64
	Spans []time.Duration
}

// rates are the bytes/s of the repeats, ascending.
func (s Speed) rates() []float64 {
	var r []float64
	for i, span := range s.Spans {
		r = append(r, float64(s.Bytes[i])/max(span, 1).Seconds())
	}
	slices.Sort(r)
	return r
}

// Rate is the median of the repeats in bytes/s.
func (s Speed) Rate() float64 {
	r := s.rates()
	return (r[(len(r)-1)/2] + r[len(r)/2]) / 2
}

// DiskReport is what RunDisk found.
type DiskReport struct {
	// Speeds are in the order in which they were measured first.
	Speeds []*Speed
	// Notes say what a reader must know: directories without O_DIRECT, on one device, in RAM; sizes cut down.
	Notes []string
	// Bytes is what a measurement moved in a directory.
	Bytes int64
	opt   Disk
}

// Validate returns all faults, joined.
func (d Disk) Validate() error { return d.complete() }

// complete fills in defaults and returns all faults, joined.
func (d *Disk) complete() error {
	if d.FS == nil {
		d.FS = disk.OS()
	}
	if d.Bytes == 0 {
		d.Bytes = 1 << 30
	}
	if len(d.Chunks) == 0 {
		d.Chunks = []int{64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20}
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
	for _, c := range d.Chunks {
		if c <= 0 || c%align != 0 || c > maxChunk {
			fault("chunk of %d bytes: want a multiple of %d up to %d", c, align, maxChunk)
		} else if 2*int64(c) > d.Bytes {
			fault("chunk of %d bytes: at most half of the %d bytes that are moved", c, d.Bytes)
		}
	}
	if d.Bytes < 0 || d.Repeats < 0 || d.Budget < 0 {
		fault("bytes, repeats and budget must not be negative: %d, %d, %v", d.Bytes, d.Repeats, d.Budget)
	}
	if d.Alpha <= 0 || d.URLBytes <= 0 || d.LinksPerPage <= 0 || d.Share <= 0 || d.Share > 1 {
		fault("alpha, URL bytes, links per page and share must be above 0, share at most 1: %v, %v, %v, %v",
			d.Alpha, d.URLBytes, d.LinksPerPage, d.Share)
	}
	return errors.Join(faults...)
}

// maxChunk bounds a chunk, two of which are in RAM for each directory.
const maxChunk = 1 << 28

// RunDisk measures. It checks ctx between chunks. Nothing of it is left on disk when it returns; an error
// of removing is joined to what it returns.
func RunDisk(ctx context.Context, d Disk) (*DiskReport, error) {
	if err := d.complete(); err != nil {
		return nil, err
	}
	r := &DiskReport{opt: d, Bytes: d.Bytes}
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
	for repeat := range d.Repeats {
		for _, g := range groups {
			if err := r.measureGroup(ctx, g, repeat); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// kinds is how many measurements there are in one repeat for each group.
func (r *DiskReport) kinds() int { return 3 * 2 * len(r.opt.Chunks) }

// measureGroup makes one repeat of all measurements of a group.
func (r *DiskReport) measureGroup(ctx context.Context, g group, repeat int) error {
	for _, chunk := range r.opt.Chunks {
		for _, direct := range []bool{false, true} {
			if direct && !g.direct() {
				continue
			}
			r.opt.Progress(fmt.Sprintf("repeat %d of %d, directory %s, chunks of %s, direct %v",
				repeat+1, r.opt.Repeats, g.name, binaryBytes(chunk), direct))
			err := g.measure(ctx, setting{chunk: chunk, direct: direct, bytes: r.Bytes, limit: r.limit()},
				func(op string, bytes int64, span time.Duration) {
					s := r.speed(op, chunk, direct, g.name)
					s.Bytes, s.Spans = append(s.Bytes, bytes), append(s.Spans, span)
				})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// limit is the longest time of one measurement; 0 is none.
func (r *DiskReport) limit() time.Duration {
	groups := len(r.opt.Dirs)
	if groups > 1 {
		groups++
	}
	return r.opt.Budget / time.Duration(r.kinds()*groups*r.opt.Repeats)
}

// speed finds or makes the entry of a kind of access.
func (r *DiskReport) speed(op string, chunk int, direct bool, group string) *Speed {
	for _, s := range r.Speeds {
		if s.Op == op && s.ChunkBytes == chunk && s.Direct == direct && s.Group == group {
			return s
		}
	}
	s := &Speed{Op: op, ChunkBytes: chunk, Direct: direct, Group: group}
	r.Speeds = append(r.Speeds, s)
	return s
}

// pages is the rate of Theorem 3 for a bandwidth of which URLseen has Share.
func (d Disk) pages(bandwidth float64) float64 {
	return drum.DiskRate(d.Share*bandwidth, d.Alpha, d.URLBytes, d.LinksPerPage)
}

// Write prints the benchmark lines and then the table.
func (r *DiskReport) Write(w io.Writer) error {
	if err := r.WriteLines(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("bench: write report: %w", err)
	}
	return r.Table().Write(w)
}

// WriteLines prints one line a measurement, in the form of Go's benchmarks.
func (r *DiskReport) WriteLines(w io.Writer) error {
	fail := func(err error) error { return fmt.Errorf("bench: write report: %w", err) }
	if _, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: drumbeat/bench\n", runtime.GOOS, runtime.GOARCH); err != nil {
		return fail(err)
	}
	for i, dir := range r.opt.Dirs {
		if _, err := fmt.Fprintf(w, "dir%d: %s\n", i, dir); err != nil {
			return fail(err)
		}
	}
	for _, s := range r.Speeds {
		for i, span := range s.Spans {
			_, err := fmt.Fprintf(w, "BenchmarkDisk/op=%s/chunk=%s/direct=%v/dir=%s \t%8d\t%12d ns/op\t%10.2f MB/s\n", s.Op,
				binaryBytes(s.ChunkBytes), s.Direct, s.Group, 1, span.Nanoseconds(), float64(s.Bytes[i])/max(span, 1).Seconds()/1e6)
			if err != nil {
				return fail(err)
			}
		}
	}
	return nil
}

// Table is the readable form: medians with their spread, W, and what it is worth.
func (r *DiskReport) Table() report.Table {
	d := r.opt
	t := report.Table{
		Title: fmt.Sprintf("Sequential MB/s, %s a measurement in a directory, medians of %d (least-most)", binaryBytes(int(r.Bytes)), d.Repeats),
		Head:  []string{"directory", "direct", "chunk", opWrite, "spread", opRead, "spread", opMixed, "spread", "W", "pages/s"},
	}
	best := map[string]*Speed{} // by group, with the W below
	bestW := map[string]float64{}
	for _, s := range r.Speeds {
		if s.Op != opWrite {
			continue
		}
		row := []string{s.Group, fmt.Sprint(s.Direct), binaryBytes(s.ChunkBytes)}
		sum := 0.0
		for _, op := range []string{opWrite, opRead, opMixed} {
			v := r.speed(op, s.ChunkBytes, s.Direct, s.Group)
			rates := v.rates()
			if op != opMixed {
				sum += v.Rate()
			}
			row = append(row, report.Number(v.Rate()/1e6), fmt.Sprintf("%.0f-%.0f", rates[0]/1e6, rates[len(rates)-1]/1e6))
		}
		w := sum / 2
		if w > bestW[s.Group] {
			bestW[s.Group], best[s.Group] = w, s
		}
		t.Add(append(row, report.Number(w/1e6), report.Number(d.pages(w)))...)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("W is the mean of write and read. pages/s = W x %v / (alpha b l), Theorem 3, with alpha = %v, b = %v, l = %v.",
		d.Share, d.Alpha, d.URLBytes, d.LinksPerPage))
	for _, s := range r.Speeds {
		if best[s.Group] == s {
			t.Notes = append(t.Notes, fmt.Sprintf("Best of directory %s: W = %s MB/s with chunks of %s, direct %v: %s pages/s.",
				s.Group, report.Number(bestW[s.Group]/1e6), binaryBytes(s.ChunkBytes), s.Direct, report.Number(d.pages(bestW[s.Group]))))
		}
	}
	t.Notes = append(t.Notes, r.Notes...)
	return t
}

// binaryBytes writes a size as the flags take it.
func binaryBytes(n int) string {
	for _, u := range []struct {
		n    int
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.n && n%u.n == 0 {
			return strconv.Itoa(n/u.n) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}
