package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/langid"
	"drumbeat/internal/maintext"
	"drumbeat/internal/response"
	"drumbeat/state/extract"
	"drumbeat/warc"
	"drumbeat/weburl"
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

// file is a file of the tree.
type file struct {
	Path  string `json:"path"` // in the tree
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
}

// part is what is made of one WARC file. It is written beside the lines of its index when all files are durable.
type part struct {
	Source   int64             `json:"source_bytes"`
	Lines    int64             `json:"lines_bytes"` // of the index
	Hosts    int64             `json:"hosts_bytes"` // what the host index is made of
	Captures [numSubsets]int64 `json:"captures"`
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

// output is a file of the tree that is being written.
type output struct {
	*disk.Staged
	path string
	sum  hash.Hash
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.sum.Write(b)
	return o.Staged.Write(b)
}

// create begins a file of the tree.
func (j *job) create(name string) (*output, error) {
	full := j.opt.TempDir + "/" + treeDir + "/" + name
	err := j.opt.FS.MkdirAll(path.Dir(full))
	if err != nil {
		return nil, fmt.Errorf("publish: make the directory of %s: %w", name, err)
	}
	f, err := disk.Stage(j.opt.FS, full)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return &output{f, name, sha256.New()}, nil
}

// close makes the file durable and gives it its name.
func (o *output) close() (file, error) {
	err := o.End()
	if err == nil {
		err = o.Rename()
	}
	return file{o.path, o.Size(), hex.EncodeToString(o.sum.Sum(nil))}, err
}

// random returns the source of record ids of a file, which is the same in each Run.
func (j *job) random(name string) warc.Random {
	return rand.NewChaCha8(sha256.Sum256([]byte(j.seed + "\n" + name)))
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
	wet     *warc.Conversions
	wat     *warc.Conversions
	lines   *disk.Staged
	hosts   *disk.Staged
	visit   *visit // of the last capture, whose metadata record follows; nil: none, or its line is written

	info     []byte // block of the warcinfo record
	infoDate time.Time
	last     Subset // of the capture before
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

// maxTableOffset bounds the offsets and lengths of the columnar index, which have 32 bits.
const maxTableOffset = math.MaxInt32

func (s *splitter) run(ctx context.Context) (err error) {
	size := s.data.Size()
	switch {
	case !strings.HasSuffix(s.v.File(), ".gz"):
		return errors.New("it is compressed with Zstandard; Common Crawl's layout has gzip alone: crawl with --warc gz")
	case size > maxTableOffset:
		return fmt.Errorf("it has %s, and the columnar index has offsets of 32 bits: crawl with smaller WARC files",
			human.Bytes(size))
	}
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

// close makes all files durable.
func (s *splitter) close() error {
	for _, o := range s.out {
		if o == nil {
			continue
		}
		f, err := o.close()
		if err != nil {
			return err
		}
		s.part.Files = append(s.part.Files, f)
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

// output returns the file of a subset. It begins with a warcinfo record, that of the WARC file with another name.
func (s *splitter) output(to Subset) (*output, error) {
	if s.out[to] != nil {
		return s.out[to], nil
	}
	name := s.v.Name + ".warc.gz"
	made := to == WET || to == WAT
	if made {
		name = fmt.Sprintf("%s.warc.%s.gz", s.v.Name, to)
	}
	o, err := s.j.create(fmt.Sprintf("%s/%s/%s", s.j.segment(s.segment), to, name))
	if err != nil {
		return nil, err
	}
	s.out[to] = o
	random := s.j.random(o.path)
	if made {
		w, err := warc.NewConversions(o, name, []warc.Field{{Name: "software", Value: s.j.opt.Software},
			{Name: "isPartOf", Value: s.j.report.Name}}, s.infoDate, random)
		if to == WET {
			s.wet = w
		} else {
			s.wat = w
		}
		return o, err
	}
	block := fmt.Appendf(s.info[:len(s.info):len(s.info)], "isPartOf: %s\r\n", s.j.report.Name)
	_, err = o.Write(warc.Warcinfo(name, block, s.infoDate, random))
	return o, err
}

// copy copies a range of the WARC file, and returns where it begins.
func (s *splitter) copy(to Subset, from, length int64) (offset int64, err error) {
	o, err := s.output(to)
	if err != nil {
		return 0, err
	}
	offset = o.Size()
	n, err := io.Copy(o, io.NewSectionReader(s.r, from, length))
	if err == nil && n < length {
		err = s.corrupt(from+n, "a record", "the end of the file")
	}
	return offset, err
}

// others copies the records between two captures: metadata follows the one before, requests precede the next.
func (s *splitter) others(from, end int64, next Subset) error {
	type record struct {
		at int64
		to Subset
	}
	var list []record
	err := s.reader.Each(s.r, from, end, func(rec *warc.Record, block io.Reader) (err error) {
		r := record{rec.Offset, Diagnostics}
		switch {
		case rec.Type() == "warcinfo":
			if s.info, err = io.ReadAll(io.LimitReader(block, warc.MaxSifted)); err == nil {
				s.infoDate, err = time.Parse(time.RFC3339, rec.Get("WARC-Date"))
			}
			r.to = numSubsets // each file has its own
		case rec.Type() == "request":
			r.to = next
		case rec.Get("WARC-Concurrent-To") != "":
			r.to = s.last
			if rec.Type() == "metadata" && s.visit != nil {
				var meta []byte
				meta, err = io.ReadAll(io.LimitReader(block, warc.MaxSifted))
				s.visit.meta(meta)
			}
		}
		list = append(list, r)
		return err
	})
	if err != nil {
		return s.corrupt(from, "records", err.Error())
	}
	for i, r := range list {
		to := end
		if i+1 < len(list) {
			to = list[i+1].at
		}
		if r.to == numSubsets {
			continue
		}
		if _, err := s.copy(r.to, r.at, to-r.at); err != nil {
			return err
		}
	}
	return nil
}

// capture copies a capture, after it was read to its end, and writes its line.
func (s *splitter) capture(x *warc.Indexed, to Subset) error {
	c := &captured{URL: x.URL, MIME: x.MIME, Status: fmt.Sprint(x.Status), Redirect: x.Redirect,
		Digest: strings.TrimPrefix(x.Digest, "sha1:"), Truncated: x.Truncated}
	if err := s.endVisit(); err != nil {
		return err
	}
	if err := s.examine(x, to, c); err != nil {
		return err
	}
	offset, err := s.copy(to, x.Offset, x.Length)
	if err != nil {
		return err
	}
	s.last = to
	s.part.Captures[to]++
	if !strings.HasPrefix(x.URL, "http") {
		return nil // a rendered page or a DNS answer
	}
	c.Filename, c.Offset, c.Length = s.out[to].path, fmt.Sprint(offset), fmt.Sprint(x.Length)
	if s.line, err = c.append(s.line[:0], x.Time); err != nil {
		return err
	}
	_, err = s.lines.Write(s.line)
	host := weburl.TrimDot(weburl.Split([]byte(x.URL)).Host)
	s.visit = &visit{host: string(host), at: x.Time.Unix(), to: to, status: x.Status,
		length: x.Length, language: c.Languages}
	if err == nil && to == Pages && !s.j.opt.NoTexts {
		err = s.describe(x, c)
	}
	return err
}

// examine reads a capture, verifies it, and writes the text of a page.
func (s *splitter) examine(x *warc.Indexed, to Subset, c *captured) error {
	if to == Pages && !s.j.opt.NoTexts && extract.HasPage(x) {
		var counts extract.Counts
		err := extract.WithDoc(s.data, x, &counts,
			func(rec *warc.StoredRecord, _ *response.Response, doc *maintext.Doc) error {
				c.RecordID, c.Detected, c.Charset = recordID(rec.Record), "text/html", charsetName(doc.Charset)
				return s.text(x, rec, doc, c)
			})
		if err != nil || c.RecordID != "" {
			return err
		}
	}
	rec, err := s.data.Record(x)
	if err != nil {
		return err
	}
	defer func() { _ = rec.Close() }() // the file stays open
	c.RecordID = recordID(rec.Record)
	if x.IsRevisit() || x.Kind == warc.KindDNS {
		if _, err := io.Copy(io.Discard, rec); err != nil {
			return s.corrupt(x.Offset, "a record", err.Error())
		}
		return nil
	}
	resp, err := response.Open(rec, func(string) {})
	if err != nil {
		return err
	}
	defer resp.Close()
	return resp.End(c.sniff(resp))
}

// text writes the text of a page.
func (s *splitter) text(x *warc.Indexed, rec *warc.StoredRecord, doc *maintext.Doc, c *captured) error {
	if _, err := s.output(WET); err != nil {
		return err
	}
	if code, _ := langid.Language(doc.Main); code != langid.Undetermined {
		c.Languages = code
	}
	s.part.Captures[WET]++
	return s.wet.Write(&warc.Conversion{URL: x.URL, Date: x.Time, RefersTo: rec.Get("WARC-Record-ID"),
		Languages: c.Languages, Text: doc.Text})
}

// recordID returns the UUID of a record.
func recordID(rec *warc.Record) string {
	id := strings.Trim(rec.Get("WARC-Record-ID"), "<>")
	return strings.TrimPrefix(id, "urn:uuid:")
}

// segment returns the path of a segment in the tree. Its name is made as Common Crawl makes them: a time and a number.
func (j *job) segment(n int) string {
	return fmt.Sprintf("crawl-data/%s/segments/%d.%d", j.report.Name, j.report.Time.UnixMilli(), n)
}
