package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/klauspost/compress/gzip"

	"drumbeat/disk"
	"drumbeat/warc"
)

// Subset is a kind of files.
type Subset int

// The subsets.
const (
	Pages Subset = iota
	Robots
	Diagnostics
	WET
	WAT
	numSubsets
)

var subsetNames = [numSubsets]string{"warc", "robotstxt", "crawldiagnostics", "wet", "wat"}

// String returns the name of the directory.
func (s Subset) String() string { return subsetNames[s] }

// Directories in TempDir.
const (
	treeDir    = "tree"
	volumesDir = "volumes"
)

// part is what is made of one WARC file. It is written beside the lines of its index when all files are durable.
type part struct {
	Source   int64             `json:"source_bytes"`
	Lines    int64             `json:"lines_bytes"` // of the index
	Hosts    int64             `json:"hosts_bytes"` // what the host index is made of
	Captures [numSubsets]int64 `json:"captures"`
	Long     int64             `json:"long"` // captures without a line, because of maxRecord
	Files    []file            `json:"files"`

	path string // of the lines, without suffix
}

// Suffixes of the files of lines.
const (
	linesSuffix = ".cdxj"
	hostsSuffix = ".hosts"
)

func filesOf(parts []*part) (files []file) {
	for _, p := range parts {
		files = append(files, p.Files...)
	}
	return files
}

// splitter makes the files of one WARC file.
type splitter struct {
	j       *job
	v       *warc.Volume
	r       *io.SectionReader
	reader  warc.RecordReader
	data    *warc.Data
	segment int
	part    *part
	out     [numSubsets]*output
	ended   [numSubsets]int // files that were full
	wet     *warc.Conversions
	wat     *warc.Conversions
	gzip    *gzip.Writer // of records that are not in gzip members; nil until first used
	lines   *disk.Staged
	hosts   *disk.Staged
	visit   *visit // of the last capture, whose metadata record follows; nil: none, or its line is written

	info     []byte // block of the warcinfo record
	infoDate time.Time
	last     Subset // of the capture before
	asked    bool   // the request of the next capture is copied
	line     []byte
}

// part returns what is made of a WARC file, in a segment.
func (j *job) part(ctx context.Context, v *warc.Volume, segment int) (*part, error) {
	data, err := v.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = data.Close() }() // it was read
	marker := j.opt.TempDir + "/" + volumesDir + "/" + v.Name
	p, err := j.kept(marker, data.Size())
	if err != nil {
		return nil, err
	}
	if p == nil {
		s := &splitter{j: j, v: v, r: data.Reader(), data: data, segment: segment,
			part: &part{Source: data.Size(), path: marker}}
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("publish: %s: %w", v.File(), err)
		}
		p = s.part
		text, err := json.Marshal(p)
		if err == nil {
			err = disk.WriteFileAtomic(j.opt.FS, marker+".json", append(text, '\n'))
		}
		if err != nil {
			return nil, fmt.Errorf("publish: %s: %w", v.File(), err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, n := range p.Captures {
		j.report.Captures[i] += n
	}
	j.report.Long += p.Long
	return p, nil
}

// kept returns what an earlier Run has made of a WARC file of this length; nil if that is not complete.
func (j *job) kept(marker string, size int64) (*part, error) {
	text, err := disk.ReadFile(j.opt.FS, marker+".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	p := &part{path: marker}
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		return nil, fmt.Errorf("publish: read %s.json: %w", marker, err)
	}
	if p.Source != size {
		return nil, nil
	}
	for suffix, bytes := range map[string]int64{linesSuffix: p.Lines, hostsSuffix: p.Hosts} {
		if n, err := j.opt.FS.Size(p.path + suffix); err != nil || n != bytes {
			return nil, nil
		}
	}
	for _, f := range p.Files {
		if n, err := j.opt.FS.Size(j.opt.TempDir + "/" + treeDir + "/" + f.Path); err != nil || n != f.Bytes {
			return nil, nil
		}
	}
	j.meter.Add(size)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.Kept++
	return p, nil
}

func (s *splitter) run(ctx context.Context) (err error) {
	size := s.data.Size()
	defer s.reader.Close()
	defer func() {
		for _, o := range s.out {
			if o != nil {
				o.Abort()
			}
		}
		for _, f := range []*disk.Staged{s.lines, s.hosts} {
			if f != nil {
				f.Abort()
			}
		}
	}()
	if s.lines, err = disk.Stage(s.j.opt.FS, s.part.path+linesSuffix); err != nil {
		return err
	}
	if s.hosts, err = disk.Stage(s.j.opt.FS, s.part.path+hostsSuffix); err != nil {
		return err
	}
	at := int64(0) // all before it is copied
	err = s.v.EachLine(func(x *warc.Indexed) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if x.Offset < at || x.Offset+x.Length > size {
			return s.corrupt(x.Offset, "a record", "a line of the index about another place")
		}
		to := subsetOf(x)
		if err := s.others(at, x.Offset, to); err != nil {
			return err
		}
		if err := s.capture(x, to); err != nil {
			return err
		}
		s.j.meter.Add(x.Offset + x.Length - at)
		at = x.Offset + x.Length
		return nil
	})
	if err == nil {
		err = s.others(at, size, Diagnostics)
	}
	if err == nil {
		err = s.endVisit()
	}
	if failed := s.j.RemoteFailed(); failed != nil { // an outage is no damage
		err = failed
	}
	if err != nil {
		return err
	}
	s.j.meter.Add(size - at)
	s.j.mu.Lock()
	s.j.report.Read += size
	s.j.mu.Unlock()
	return s.close()
}

// end makes the open file of a subset durable, if there is one.
func (s *splitter) end(of Subset) error {
	o := s.out[of]
	if o == nil {
		return nil
	}
	f, err := o.close()
	s.out[of], s.part.Files = nil, append(s.part.Files, f)
	return err
}

// close makes all files durable.
func (s *splitter) close() error {
	for of := range s.out {
		if err := s.end(Subset(of)); err != nil {
			return err
		}
	}
	s.part.Lines, s.part.Hosts = s.lines.Size(), s.hosts.Size()
	for _, f := range []*disk.Staged{s.lines, s.hosts} {
		if err := f.End(); err != nil {
			return err
		}
		if err := f.Rename(); err != nil {
			return err
		}
	}
	return nil
}

// endVisit writes the line of the last capture for the host index.
func (s *splitter) endVisit() error {
	if s.visit == nil {
		return nil
	}
	s.line = s.visit.append(s.line[:0])
	s.visit = nil
	_, err := s.hosts.Write(s.line)
	return err
}

func (s *splitter) corrupt(at int64, want, got string) error {
	return &disk.CorruptError{Path: s.v.Data, Offset: at, Want: want, Got: got}
}

// subsetOf returns the subset of a capture.
func subsetOf(x *warc.Indexed) Subset {
	switch {
	case x.Kind == warc.KindRobots:
		return Robots
	case x.IsRevisit() || x.Status != 200 || x.Kind == warc.KindDNS:
		return Diagnostics
	}
	return Pages
}
