package erase

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/state/repair"
	"drumbeat/warc"
)

// outKind is the form of a file that is not the crawl's, recognized by its content.
type outKind string

const (
	outEmpty   outKind = "empty"
	outParquet outKind = "parquet"
	outCSV     outKind = "csv"
	outJSONL   outKind = "jsonl"
	outWET     outKind = "wet"    // texts as WARC records
	outIndex   outKind = "cdxj"   // an index, its lines in order
	outZipNum  outKind = "zipnum" // the same in blocks
	outSummary outKind = "idx"    // of the blocks; it follows them
	outPlaces  outKind = "loc"    // where the blocks are
	outAbout   outKind = "about"  // what a directory of parts has
)

// output is such a file: a line of the work file "outputs" if something in it changes.
type output struct {
	Path string  `json:"path"`
	Kind outKind `json:"kind"`
}

// Limits of what recognizes a file.
const (
	sniffedBytes = 64 << 10
	maxAbout     = 64 << 20 // bytes of a description: some 100 a part
)

var (
	indexLine   = regexp.MustCompile(`^\S+ \d{14} \{`)
	summaryLine = regexp.MustCompile(`^\S+ \d{14}\t[^\t/]+\t\d+\t\d+\t\d+\n`)
	placesLine  = regexp.MustCompile(`^[^\t/]+\t[^\t]+\n$`)
)

// planOutputs recognizes the files that the request names, and finds those in which something changes. It refuses a
// file of another form.
func (x *run) planOutputs() error {
	files, err := x.outputFiles()
	if err != nil || len(files) == 0 {
		return err
	}
	var to *disk.Staged
	if !x.opt.DryRun {
		if to, err = disk.Stage(x.r.Set.FS, x.work("outputs")); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		defer to.Abort()
	}
	for _, file := range files {
		kind, err := x.recognize(file)
		if err != nil {
			return err
		}
		o := output{file, kind}
		rows, changed := x.j.Erased.Rows, false
		if changed, err = x.filter(&o, nil); err != nil {
			return cannot(file, err.Error())
		}
		if t, err := x.textOf(file); err != nil {
			return cannot(file, err.Error())
		} else if t != nil {
			changed = true
		}
		if !changed {
			x.j.Erased.Rows = rows
			continue
		}
		x.j.Erased.Outputs++
		if to == nil {
			continue
		}
		line, err := json.Marshal(&o)
		if err == nil {
			_, err = to.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	if to == nil {
		return nil
	}
	return endStaged(to)
}

func cannot(file, why string) error { return refused("cannot erase from %s: %s", file, why) }

// outputFiles returns all files that the request names, and the texts that a crawl extracts itself.
func (x *run) outputFiles() (files []string, err error) {
	fsys := x.r.Set.FS
	paths := slices.Clone(x.opt.Also)
	for _, dir := range slices.Concat(x.r.Set.Paths, x.r.Out.Paths) {
		if _, err := fsys.Size(dir + "/" + textsDir + "/" + extractTable); err == nil {
			paths = append(paths, dir+"/"+textsDir)
		}
	}
	for _, name := range paths {
		if _, err := fsys.List(name); err != nil {
			if _, err := fsys.Size(name); err != nil {
				return nil, refused("--also: %v", err)
			}
			files = append(files, name)
			continue
		}
		in, err := repair.FilesIn(fsys, name, true)
		if err != nil {
			return nil, err
		}
		for _, file := range in {
			if path.Base(file) == identityFile {
				return nil, refused("--also: %s is a directory of a crawl", path.Dir(file))
			}
		}
		files = append(files, in...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// recognize returns the form of a file.
func (x *run) recognize(file string) (kind outKind, err error) {
	f, err := x.r.Set.FS.OpenRead(file)
	if err != nil {
		return "", fmt.Errorf("erase: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", fmt.Errorf("erase: %w", err)
	}
	head := make([]byte, min(size, sniffedBytes))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("erase: %w", err)
	}
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case size == 0:
		return outEmpty, nil
	case has("PAR1"):
		return outParquet, nil
	case has("\x1f\x8b"):
		if isWARC(f, size) {
			return outWET, nil
		}
		z, err := gzip.NewReader(io.NewSectionReader(f, 0, size))
		if err == nil {
			line, _ := bufio.NewReader(io.LimitReader(z, sniffedBytes)).ReadBytes('\n')
			if indexLine.Match(line) {
				return outZipNum, nil
			}
		}
		return "", cannot(file, "its format is not one of drumbeat export, index and extract")
	case has("PK\x03\x04"):
		return outWACZ, nil
	case has(" CDX "):
		return "", cannot(file, "it is an index in the format CDX: delete it, and make it again")
	case has("{"):
		if size <= maxAbout && isAbout(f, size) {
			return outAbout, nil
		}
		return outJSONL, nil
	case indexLine.Match(head):
		return outIndex, nil
	case summaryLine.Match(head):
		blocks, err := x.blocksOf(file)
		if err == nil {
			_, err = x.r.Set.FS.Size(blocks)
		}
		if err != nil {
			return "", cannot(file, "the index to which it belongs is not beside it")
		}
		return outSummary, nil
	case placesLine.Match(head) && x.isPlaces(file, head):
		return outPlaces, nil
	}
	return outCSV, nil // or a refusal, by its columns
}

// isPlaces reports whether a file says where the blocks of an index beside it are.
func (x *run) isPlaces(file string, head []byte) bool {
	name, _, _ := bytes.Cut(head, []byte{'\t'})
	_, err := x.r.Set.FS.Size(path.Dir(file) + "/" + string(name))
	return err == nil
}

// isAbout reports whether a file describes the parts in a directory: one JSON object, with a version.
func isAbout(f io.ReaderAt, size int64) bool {
	var about struct {
		Version int             `json:"version"`
		Parts   json.RawMessage `json:"parts"`
		Part    string          `json:"part"`
		Fields  json.RawMessage `json:"fields"`
	}
	d := json.NewDecoder(io.NewSectionReader(f, 0, size))
	return d.Decode(&about) == nil && !d.More() && about.Version > 0 &&
		(about.Parts != nil || about.Part != "" || about.Fields != nil)
}

// filter passes a file through the request. It reports whether something changes. With a nil to it only reads.
func (x *run) filter(o *output, to io.Writer) (changed bool, err error) {
	f, err := x.r.Set.FS.OpenRead(o.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	switch o.Kind {
	case outParquet, outCSV, outJSONL:
		return x.filterTable(o, f, size, to)
	case outWET:
		return x.filterWET(f, size, to)
	case outIndex, outZipNum:
		return x.filterIndex(o, f, size, to)
	case outWACZ:
		if changed, err = x.scanWACZ(f, size); err == nil && changed && to != nil {
			err = x.rewriteWACZ(f, size, to)
		}
		return changed, err
	}
	return false, nil
}

// filterWET copies records of texts.
func (x *run) filterWET(f io.ReaderAt, size int64, to io.Writer) (changed bool, err error) {
	from, keep := int64(0), true
	flush := func(end int64) error {
		if keep && to != nil && end > from {
			if _, err := io.Copy(to, io.NewSectionReader(f, from, end-from)); err != nil {
				return err
			}
		}
		return nil
	}
	err = warc.EachRecord(f, size, func(rec *warc.Record, _ io.Reader) error {
		switch rec.Type() {
		case "warcinfo", "conversion":
		default:
			return errors.New("it has WARC records of other types than texts: move it back to the crawl's directory")
		}
		goes := x.t.Text(rec.Get("WARC-Target-URI"))
		if goes {
			changed = true
			x.j.Erased.Rows++
		}
		if goes == keep { // the other runs end here
			if err := flush(rec.Offset); err != nil {
				return err
			}
			from, keep = rec.Offset, !goes
		}
		return nil
	})
	if err == nil {
		err = flush(size)
	}
	return changed, err
}

// column says what a column of a table names.
type column string

const (
	colURL  column = "url"   // of the row
	colHost column = "host"  // of the row
	colPLD  column = "pld"   // of the row
	colPage column = "other" // another page
	colFile column = "file"  // the WARC file of the row
	colAt   column = "at"    // and its record
	colLen  column = "length"
)

// columnsOf are the columns of the tables of export and extract that name pages.
var columnsOf = map[string]column{"url": colURL, "from_url": colURL, "to_url": colURL, "near_url": colURL,
	"kept_url": colURL, "origin": colURL, "host": colHost, "url_host_name": colHost, "pld": colPLD, "from_pld": colPLD,
	"to_pld":                     colPLD,
	"url_host_registered_domain": colPLD, "via": colPage, "canonical": colPage, "fetch_redirect": colPage,
	"duplicate_of": colPage, "warc_filename": colFile, "warc_record_offset": colAt, "warc_record_length": colLen}

// filterTable copies a part of a table.
func (x *run) filterTable(o *output, f io.ReaderAt, size int64, to io.Writer) (changed bool, err error) {
	var kinds []column
	at := map[column]int{}
	files := x.shifted()
	err = tabular.Filter(tabular.Format(o.Kind), f, size, to, func(names []string) error {
		own := false
		for i, name := range names {
			kind := columnsOf[name]
			kinds = append(kinds, kind)
			at[kind] = i
			own = own || kind == colURL || kind == colHost || kind == colPLD
		}
		if !own {
			return errors.New("its format is not one of drumbeat export, index and extract")
		}
		return nil
	}, func(cells []tabular.Cell) (bool, error) {
		for i, kind := range kinds {
			text := cells[i].Text
			if kind == colURL && x.t.Text(strings.TrimPrefix(withPath(string(text)), warc.RenderedPrefix)) ||
				kind == colHost && x.t.Host(text) || kind == colPLD && x.t.PLD(text) {
				changed = true
				x.j.Erased.Rows++
				return false, nil
			}
		}
		for i, kind := range kinds {
			if kind == colPage && x.t.Via(cells[i].Text) {
				cells[i].Set(tabular.Null)
				changed = true
			}
		}
		i, ok := at[colFile]
		if !ok || !files.has(string(cells[i].Text)) {
			return true, nil
		}
		changed = true
		if to == nil {
			return true, nil
		}
		return files.follow(cells, i, at)
	})
	return changed, err
}

// withPath returns an origin as a URL.
func withPath(url string) string {
	if at := strings.Index(url, "://"); at >= 0 && !strings.Contains(url[at+3:], "/") {
		return url + "/"
	}
	return url
}

// shifted returns the rewritten WARC files.
func (x *run) shifted() *shiftFiles {
	s, _ := x.loadShifts() // it reads nothing yet
	return s
}

func (s *shiftFiles) has(file string) bool { return s.files[file] != nil }

// follow sets where a row's record is now. It reports false if the record is gone.
func (s *shiftFiles) follow(cells []tabular.Cell, file int, at map[column]int) (bool, error) {
	old := string(cells[file].Text)
	offset, length := int64(0), int64(0)
	var err error
	if i, ok := at[colAt]; ok {
		if offset, err = cells[i].Number(); err != nil {
			return false, err
		}
	}
	name, now, ok, err := s.find(old, offset)
	if err != nil || !ok {
		return false, err
	}
	cells[file].Set(tabular.Str(name))
	if i, ok := at[colAt]; ok {
		cells[i].Set(tabular.Int(now))
	}
	if i, ok := at[colLen]; ok && (len(cells[i].Text) > 0 || cells[i].Int > 0) {
		if length, err = cells[i].Number(); err != nil {
			return false, err
		}
		if n, ok := warc.MovedLength(s.loaded[s.files[old]], offset, length); ok && n != length {
			cells[i].Set(tabular.Int(n))
		}
	}
	return true, nil
}

// rewriteOutputs rewrites the files of the plan, each under its name when its copy is durable. Files that an
// interrupted run has rewritten have nothing to change any more.
func (x *run) rewriteOutputs() error {
	in, err := x.openWork("outputs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for d := json.NewDecoder(in); ; {
		var o output
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = x.rewriteOutput(&o)
		}
		if err != nil {
			return fmt.Errorf("erase: %s: %w", o.Path, err)
		}
	}
}

func (x *run) rewriteOutput(o *output) error {
	fsys := x.r.Set.FS
	size, err := fsys.Size(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return x.finishPart(o.Path) // it has a new name
	}
	if err != nil {
		return err
	}
	free, _, err := fsys.Space(path.Dir(o.Path))
	if err != nil {
		return err
	}
	if need := size + spareBytes; free < need {
		return &SpaceError{Dir: path.Dir(o.Path), File: path.Base(o.Path), Need: need, Free: free}
	}
	if o.Kind == outZipNum {
		return x.rewriteZipNum(o)
	}
	name := o.Path
	if t, err := x.textOf(o.Path); err != nil {
		return err
	} else if t != nil {
		name = t.name
	}
	to, err := disk.Stage(fsys, name)
	if err != nil {
		return err
	}
	defer to.Abort()
	rows := x.j.Erased.Rows // they are counted
	changed, err := x.filter(o, to)
	x.j.Erased.Rows = rows
	if err == nil && !changed && name == o.Path { // an interrupted run has done it, but perhaps not durably
		to.Abort()
		if err := fsys.SyncDir(path.Dir(o.Path)); err != nil {
			return err
		}
		return x.finishPart(o.Path)
	}
	for _, step := range []func() error{func() error { return to.CopyMode(o.Path) }, to.End, to.Rename} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return err
	}
	return x.finishPart(o.Path)
}

// countRows returns the number of rows or texts of a part.
func (x *run) countRows(file string) (rows int64, err error) {
	kind, err := x.recognize(file)
	if err != nil {
		return 0, err
	}
	f, err := x.r.Set.FS.OpenRead(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	if kind == outWET {
		return rows, warc.EachRecord(f, size, func(rec *warc.Record, _ io.Reader) error {
			if rec.Type() == "conversion" {
				rows++
			}
			return nil
		})
	}
	if kind == outEmpty {
		return 0, nil
	}
	return rows, tabular.Filter(tabular.Format(kind), f, size, nil, func([]string) error { return nil },
		func([]tabular.Cell) (bool, error) {
			rows++
			return true, nil
		})
}
