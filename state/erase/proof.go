package erase

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/objstore"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// ProofOptions describe a search for what is left of targets.
type ProofOptions struct {
	FS        disk.FS // nil: the machine's
	Dirs, Out []string
	Also      []string // further files and directories, such as exports
	Source    Source
	// OpenStore opens the object store of a crawl that has one; nil: by S3.
	OpenStore func(objstore.Place) (objstore.Bucket, error)
	// Progress, if set, is called with each step.
	Progress func(step string)
}

// Leftover is a place that has or names a target.
type Leftover struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in bytes, of compressed files in the text; -1: unknown
	Kind   string `json:"kind"`
	Text   string `json:"text"` // at most maxLeftoverText bytes
}

// Limits of a Proof.
const (
	maxLeftovers    = 1000
	maxLeftoverText = 200 // bytes
)

// Proof is the result of Prove.
type Proof struct {
	Crawl     string     `json:"crawl"`
	Digest    string     `json:"digest"` // of the targets, as in a Record
	Hosts     int64      `json:"hosts"`
	PLDs      int64      `json:"plds"`
	URLs      int64      `json:"urls"`
	Files     int64      `json:"files"` // read
	Bytes     int64      `json:"bytes"`
	Records   int64      `json:"records"` // of WARC files, queues and stores
	Found     int64      `json:"found"`
	Leftovers []Leftover `json:"leftovers"` // the first maxLeftovers
	// Links are names of targets in what other pages published: their bodies, HTTP heads, and fields made of them.
	Links int64 `json:"links"`
	Rules int64 `json:"rules"` // of the crawl's blacklist and other settings of the operator
	Kept  int64 `json:"records_of_erasures"`
	Away  int64 `json:"absent_warc_files"`
}

// prover is the state of a Prove.
type prover struct {
	*run
	opt   *ProofOptions
	w     *words
	rep   *Proof
	named map[string]bool
}

// Prove reads all files of a stopped crawl, and others, and reports each place that has or names a target. It changes
// nothing, but sorts the list in audit-tmp.
func Prove(opt ProofOptions) (_ *Proof, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.Progress == nil {
		opt.Progress = func(string) {}
	}
	r, m, err := audit.Open(&audit.Options{FS: opt.FS, Dirs: opt.Dirs, Out: opt.Out, Remote: audit.RemoteRead,
		OpenStore: opt.OpenStore})
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	if r.SeparateOut && r.Out.Len() == 0 {
		return nil, fmt.Errorf("erase: the output is in separate directories: give them with --out: %w",
			state.ErrIncompatible)
	}
	if err := r.OpenSuffixes(m.Frozen.Private, true); err != nil {
		return nil, err
	}
	p := &prover{run: &run{r: r, m: m}, opt: &opt, named: map[string]bool{},
		rep: &Proof{Crawl: m.Crawl, Leftovers: []Leftover{}}}
	p.t, err = readTargets(&opt.Source, r.Suffixes, !m.Frozen.KeepEscapes, r.Set.FS, r.Set.Path(0, "audit-tmp"),
		func(string) error { return nil })
	if err != nil {
		return nil, err
	}
	p.rep.Digest, p.rep.Hosts, p.rep.PLDs, p.rep.URLs = p.t.Digest, p.t.Hosts, p.t.PLDs, p.t.URLs
	p.w = newWords(p.t, p.resolver())
	for _, step := range []struct {
		name string
		run  func() error
	}{{"read WARC files", p.volumes}, {"read logs", p.tailsOfLogs}, {"read queues and stores", p.state},
		{"read all other files", p.files}, {"read further files", p.also}} {
		opt.Progress(step.name)
		err := step.run()
		if failed := r.RemoteFailed(); failed != nil {
			err = &StoreError{Place: m.Store.String(), Err: failed}
		}
		if err != nil {
			return nil, err
		}
	}
	return p.rep, nil
}

// found notes a place.
func (p *prover) found(file string, at int64, kind string, text []byte) {
	p.rep.Found++
	if len(p.rep.Leftovers) < maxLeftovers {
		p.rep.Leftovers = append(p.rep.Leftovers, Leftover{file, at, kind,
			strings.ToValidUTF8(string(text[:min(len(text), maxLeftoverText)]), "?")})
	}
}

// volumes reads the WARC files that the crawl knows, with the bytes that are in tails.
func (p *prover) volumes() error {
	st, err := p.warcState()
	if err != nil || p.r.Out.Len() == 0 || st.V == 0 {
		return err
	}
	if p.rep.Away, err = absent(p.run, st); err != nil {
		return err
	}
	return warc.EachVolume(p.r.WARCFiles(), st, func(v *warc.Volume) error {
		if !v.HasData() {
			return nil
		}
		p.rep.Files++
		p.named[v.Data] = true
		if !v.Final { // a part of the index may be in a tail
			p.named[v.Index] = true
			if err := v.EachLine(func(x *warc.Indexed) error {
				if url := strings.TrimPrefix(x.URL, warc.RenderedPrefix); p.t.Text(url) || p.t.Text(x.Redirect) {
					p.found(v.IndexFile(), -1, "line of the record at "+fmt.Sprint(x.Offset), []byte(x.URL))
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return v.EachRecord(func(rec *warc.Record, block io.Reader) error {
			return p.record(v.File(), rec, block)
		})
	})
}

// record looks at a record of a WARC file.
func (p *prover) record(file string, rec *warc.Record, block io.Reader) error {
	p.rep.Records++
	kind := "record of the type " + rec.Type()
	target := strings.TrimPrefix(rec.Get("WARC-Target-URI"), warc.RenderedPrefix)
	if p.t.Text(target) {
		p.found(file, rec.Offset, kind, []byte(target))
		return nil
	}
	for _, f := range rec.Fields {
		if p.w.in(f.Value) {
			p.found(file, rec.Offset, "field "+f.Name+" of a "+kind, []byte(f.Value))
		}
	}
	in := &counted{r: block}
	defer func() { p.rep.Bytes += in.n }()
	switch rec.Type() {
	case "metadata":
		if rec.Size > warc.MaxSifted {
			return fmt.Errorf("erase: %s: the metadata record at %d has %d bytes", file, rec.Offset, rec.Size)
		}
		text, err := io.ReadAll(in)
		for _, f := range warc.MetaFields(text) {
			switch {
			case !p.w.in(f.Value):
			case warc.NamesTarget(f.Name):
				p.found(file, rec.Offset, "line "+f.Name+" of a "+kind, []byte(f.Value))
			default:
				p.rep.Links++
			}
		}
		return err
	case "warcinfo", "request":
		_, err := p.w.scan(in, func(_ int64, word []byte) error {
			p.found(file, rec.Offset, "block of a "+kind, word)
			return nil
		})
		return err
	}
	_, err := p.w.scan(in, p.link)
	return err
}

func (p *prover) link(int64, []byte) error {
	p.rep.Links++
	return nil
}

// tailsOfLogs reads the logs that have a part in tails.
func (p *prover) tailsOfLogs() error {
	found := func(at int64, kind string, word []byte) error {
		p.found("log", at, kind, word)
		return nil
	}
	for _, l := range logs {
		st, err := state.Part[crawllog.State](p.m, l.part)
		if err != nil || st == nil {
			return err
		}
		lines, err := disk.ReadTail(p.r.Set, st.Lines)
		if err == nil {
			err = p.logLines("log/"+l.prefix+", in a tail", bytes.NewReader(lines))
		}
		if err != nil {
			return err
		}
		opt := crawllog.Options{Set: p.r.Set, Prefix: l.prefix}
		all, err := outfile.List(opt.Files(), &st.Files)
		if err != nil {
			return err
		}
		for i := range all {
			s := &all[i].Streams[0]
			if s.Tail.Len == 0 {
				continue
			}
			p.named[s.Path] = true
			p.rep.Files++
			b, err := s.Open(p.r.Set.FS, p.r.Set)
			if err == nil {
				err = p.stream(io.NewSectionReader(b, 0, b.Size()), 0,
					func(r io.Reader) error { return p.logLines("log/"+all[i].Name, r) }, found)
			}
			if b != nil {
				err = errors.Join(err, b.Close())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// files reads all other files in the directories of the crawl.
func (p *prover) files() error {
	unnamed := map[string]bool{}
	if err := audit.EachUnused(p.r, p.m, func(file string, from int64) error {
		if from < 0 {
			unnamed[file] = true
			return nil
		}
		padding, err := p.padded(file, from)
		if !padding && err == nil {
			p.found(file, from, "bytes that the crawl does not use", nil)
		}
		return err
	}); err != nil {
		return err
	}
	var tails []string
	for i := range p.r.Set.Paths {
		tails = append(tails, disk.TailPath(p.r.Set, i, p.m.Gen))
	}
	for _, dir := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.r.Set.Paths, p.r.Out.Paths)))) {
		files, err := repair.FilesIn(p.r.Set.FS, dir, true)
		if err != nil {
			return err
		}
		for _, file := range files {
			rel := strings.TrimPrefix(file, dir+"/")
			switch {
			case p.named[file], file == disk.LockPath(dir), rel == state.SuffixesName:
				continue
			case unnamed[file], strings.HasPrefix(rel, "state/"+state.DamagedDir+"/"):
				p.found(file, -1, "file that the crawl does not use", nil)
			case strings.Count(rel, "/") > 1 && strings.HasPrefix(rel, "state/"):
				p.rep.Files++
				continue // by its records: what they have in common with others is left out, so bytes mislead
			case strings.HasPrefix(rel, "state/tails-"):
				if !slices.Contains(tails, file) {
					p.found(file, -1, "file that the crawl does not use", nil)
				}
				continue
			}
			if err := p.file(file, rel); err != nil {
				return err
			}
		}
	}
	return nil
}

// file reads a file of the crawl.
func (p *prover) file(file, rel string) error {
	found := func(at int64, kind string, word []byte) error {
		p.found(file, at, kind, word)
		return nil
	}
	top, _, _ := strings.Cut(rel, "/")
	switch {
	case top == state.ErasedDir:
		found = func(int64, string, []byte) error { p.rep.Kept++; return nil }
	case top == state.HistoryName:
		found = func(int64, string, []byte) error { p.rep.Rules++; return nil }
	case rel == state.ChangesName:
		return p.changes(file)
	case top == "log":
		return p.text(file, func(r io.Reader) error { return p.logLines(file, r) }, found)
	}
	return p.text(file, nil, found)
}

// also reads files and directories that are not the crawl's.
func (p *prover) also() error {
	for _, name := range p.opt.Also {
		files := []string{name}
		if _, err := p.r.Set.FS.List(name); err == nil {
			if files, err = repair.FilesIn(p.r.Set.FS, name, true); err != nil {
				return err
			}
		}
		for _, file := range files {
			kind, err := p.recognize(file)
			if err == nil && (kind == outParquet || kind == outCSV || kind == outJSONL) {
				if err = p.table(file, tabular.Format(kind)); err == nil {
					continue
				}
			}
			if refused := (*RequestError)(nil); err != nil && !errors.As(err, &refused) {
				return err
			}
			if err := p.text(file, nil, func(at int64, kind string, word []byte) error {
				p.found(file, at, kind, word)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNoTable says that a file is no table of drumbeat export or extract.
var errNoTable = refused("no table")

// table reads a part of a table.
func (p *prover) table(file string, format tabular.Format) error {
	f, err := p.r.Set.FS.OpenRead(file)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	var names []string
	row := int64(0)
	if err := tabular.Filter(format, f, size, nil, func(columns []string) error {
		names = columns
		if !slices.ContainsFunc(names, func(name string) bool { return columnsOf[name] != "" }) {
			return errNoTable
		}
		return nil
	}, func(cells []tabular.Cell) (bool, error) {
		row++
		for i, name := range names {
			text := string(cells[i].Text)
			switch kind := columnsOf[name]; {
			case kind == colPLD && !p.t.PLD(cells[i].Text), !p.w.in(text):
			case kind == "":
				p.rep.Links++
			default:
				p.found(file, -1, fmt.Sprintf("column %s of row %d", name, row), cells[i].Text)
			}
		}
		return true, nil
	}); err != nil {
		if row == 0 {
			return errNoTable
		}
		return fmt.Errorf("erase: read %s: %w", file, err)
	}
	p.rep.Files++
	p.rep.Bytes += size
	p.rep.Records += row
	return nil
}

// maxNesting bounds how often a file is unpacked.
const maxNesting = 3

// text reads a file by its content: WARC records, compressed text, or text, by lines if that is set.
func (p *prover) text(file string, lines func(r io.Reader) error,
	found func(at int64, kind string, word []byte) error) error {
	f, err := p.r.Set.FS.OpenRead(file)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	p.rep.Files++
	p.rep.Bytes += size
	err = p.content(file, f, size, lines, found)
	if err != nil {
		return fmt.Errorf("erase: read %s: %w", file, err)
	}
	return nil
}

// content is text of an open file.
func (p *prover) content(name string, f io.ReaderAt, size int64, lines func(r io.Reader) error,
	found func(at int64, kind string, word []byte) error) error {
	if z, err := zip.NewReader(f, size); err == nil {
		return p.members(name, f, z, found)
	}
	if isWARC(f, size) {
		err := warc.EachRecord(f, size, func(rec *warc.Record, block io.Reader) error {
			return p.record(name, rec, block)
		})
		if err != nil { // such as one that is not complete
			err = found(-1, "WARC file that cannot be read: "+err.Error(), nil)
		}
		return err
	}
	return p.stream(io.NewSectionReader(f, 0, size), 0, lines, found)
}

// members reads the members of a ZIP file, such as a WACZ.
func (p *prover) members(name string, f io.ReaderAt, z *zip.Reader,
	found func(at int64, kind string, word []byte) error) error {
	for _, m := range z.File {
		in := func(at int64, kind string, word []byte) error { return found(at, m.Name+": "+kind, word) }
		if m.Method == zip.Store {
			stored, err := section(f, m)
			if err == nil {
				err = p.content(name+", "+m.Name, stored, stored.Size(), nil, in)
			}
			if err != nil {
				return err
			}
			continue
		}
		r, err := m.Open()
		if err == nil {
			err = errors.Join(p.stream(r, 1, nil, in), r.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isWARC reports whether a file begins with a WARC record.
func isWARC(f io.ReaderAt, size int64) bool {
	first := errors.New("first")
	return errors.Is(warc.EachRecord(f, size, func(*warc.Record, io.Reader) error { return first }), first)
}

// stream reads text, compressed or not.
func (p *prover) stream(r io.Reader, nesting int, lines func(r io.Reader) error,
	found func(at int64, kind string, word []byte) error) error {
	var head [4]byte
	n, err := io.ReadFull(r, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	var unpacked io.Reader
	switch {
	case nesting >= maxNesting:
	case bytes.HasPrefix(head[:n], []byte("\x1f\x8b")):
		z, err := gzip.NewReader(r)
		if err != nil {
			return found(-1, "gzip file that cannot be read: "+err.Error(), nil)
		}
		unpacked = z
	case bytes.HasPrefix(head[:n], []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return err
		}
		defer z.Close()
		unpacked = z
	}
	if unpacked != nil {
		in := &failing{r: unpacked}
		if err := p.stream(in, nesting+1, lines, found); err != nil || in.err == nil {
			return err
		}
		return found(-1, "compressed file that cannot be read to its end: "+in.err.Error(), nil)
	}
	if lines != nil {
		return lines(r)
	}
	_, err = p.w.scan(r, func(at int64, word []byte) error { return found(at, "text", word) })
	return err
}

// logLines reads the lines of a log. Only the fields that name pages of the crawl must not name targets.
func (p *prover) logLines(file string, r io.Reader) error {
	in, at := bufio.NewReaderSize(r, wordBytes), int64(0)
	for {
		line, err := in.ReadSlice('\n') // those of a log have at most crawllog.MaxLine bytes; others are read in parts
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if p.w.in(string(line)) {
			var fields map[string]any
			if json.Unmarshal(line, &fields) != nil {
				p.found(file, at, "line that cannot be read", line)
			}
			for name, value := range fields {
				switch text, _ := value.(string); {
				case !p.w.in(text):
				case slices.Contains(logURLs, name):
					p.found(file, at, "field "+name+" of a line", []byte(text))
				default:
					p.rep.Links++
				}
			}
		}
		at += int64(len(line))
	}
}

// logURLs are the fields of a log that name pages.
var logURLs = []string{"url", "via", "canonical", "refresh", "redirect", "duplicate_of", "near_duplicate_of"}

// failing ends at the first error of a reader, and keeps it.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err, err = err, io.EOF
	}
	return n, err
}
