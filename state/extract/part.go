package extract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

const (
	tableName = "_extract.json"
	// formatVersion is that of _extract.json and of summaries. method is raised when the same page gives another text.
	formatVersion = 1
	method        = 4
)

// table is the content of _extract.json: what all parts in the directory have in common.
type table struct {
	Version  int            `json:"version"`
	Method   int            `json:"method"`
	Crawl    string         `json:"crawl"`
	Format   tabular.Format `json:"format"`
	Fields   []Field        `json:"fields"`
	FullText bool           `json:"full_text"`
}

// summary is the content of _NAME.json: what one part is made of.
type summary struct {
	Version int    `json:"version"`
	File    string `json:"file"`       // the WARC file
	Source  int64  `json:"file_bytes"` // as of the checkpoint
	Part    string `json:"part"`
	Bytes   int64  `json:"part_bytes"`
	Counts
}

// openTarget locks the directory of the parts, and writes or compares _extract.json.
func (j *job) openTarget() (free func(), err error) {
	fsys, dir := j.opt.FS, j.opt.Target
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("extract: make %s: %w", dir, err)
	}
	lock, err := fsys.Lock(dir)
	if err != nil {
		if errors.Is(err, disk.ErrLocked) {
			err = disk.ErrLocked // its directory is none of a crawl
		}
		return nil, fmt.Errorf("extract: another extraction writes to %s: %w", dir, err)
	}
	free = func() {
		_ = fsys.Remove(disk.LockPath(dir)) // an error leaves an empty file
		_ = lock.Close()
	}
	if err := j.checkTarget(); err != nil {
		free()
		return nil, err
	}
	return free, nil
}

func (j *job) checkTarget() error {
	fsys, dir := j.opt.FS, j.opt.Target
	fields := slices.Clone(j.opt.Fields)
	slices.Sort(fields)
	want := table{Version: formatVersion, Method: method, Crawl: j.report.Crawl, Format: j.opt.Format,
		Fields: slices.Compact(fields), FullText: j.opt.FullText}
	data, err := disk.ReadFile(fsys, dir+"/"+tableName)
	if errors.Is(err, fs.ErrNotExist) {
		names, err := fsys.List(dir)
		if err != nil {
			return fmt.Errorf("extract: list %s: %w", dir, err)
		}
		for _, name := range names {
			if dir+"/"+name != disk.LockPath(dir) && !strings.HasPrefix(name, tableName) {
				return fmt.Errorf("extract: %s: %w: it contains %s", dir, tabular.ErrNotEmpty, name)
			}
		}
		return j.writeJSON(tableName, &want)
	}
	if err != nil {
		return fmt.Errorf("extract: read %s: %w", tableName, err)
	}
	var got table
	if err := json.Unmarshal(data, &got); err != nil {
		return fmt.Errorf("extract: %s: %w: %s: %w", dir, ErrOther, tableName, err)
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("extract: %s: %w: %s; want %s: name another directory, or delete this one", dir,
		ErrOther, got, want)
}

// String describes the parts of a directory.
func (t table) String() string {
	full := ""
	if t.FullText {
		full = ", full text"
	}
	return fmt.Sprintf("crawl %s, %s of %s%s (version %d.%d)", t.Crawl, t.Format, fmt.Sprint(t.Fields), full,
		t.Version, t.Method)
}

// writeJSON makes a small file durable in the target.
func (j *job) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	if err := disk.WriteFileAtomic(j.opt.FS, j.opt.Target+"/"+name, append(data, '\n')); err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	return nil
}

// volume is a WARC file with what its index lists of pages.
type volume struct {
	name   string // without suffix
	data   *warc.Data
	pages  []*warc.Indexed // by offset
	counts Counts          // of the others
}

// partName returns the name of a WARC file's part.
func (j *job) partName(volume string) string {
	if j.opt.Format == WET {
		return volume + ".warc.wet.gz"
	}
	return volume + "." + string(j.opt.Format)
}

func summaryName(volume string) string { return "_" + volume + ".json" }

// volume reads an index. It returns nil if the part is there, or the WARC file is not.
func (j *job) volume(x *warc.Index) (_ *volume, err error) {
	data, err := x.Data(j.files)
	if errors.Is(err, warc.ErrMoved) {
		j.mu.Lock()
		j.report.Notes = append(j.report.Notes,
			fmt.Sprintf("the WARC file of %s was moved away: its pages are left out", x.Name))
		j.mu.Unlock()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, data.Close())
		}
	}()
	if j.stream == nil {
		if s := j.complete(x.Name, data); s != nil {
			j.finished(s, true)
			j.meter.Add(data.Size())
			return nil, data.Close()
		}
	}
	v := &volume{name: x.Name, data: data}
	err = x.Lines(func(line []byte) error {
		c, err := x.Parse(line)
		if err != nil || c.Kind != warc.KindPage {
			return err
		}
		switch {
		case c.IsRevisit():
			v.counts.Revisits++
		case c.Status < 200 || c.Status > 299:
			v.counts.OtherStatus++
		case !isHTML(c.MIME):
			v.counts.OtherType++
		case j.opt.Take != nil && !j.opt.Take([]byte(c.URL)):
			v.counts.Excluded++
		default:
			v.pages = append(v.pages, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(v.pages, func(a, b *warc.Indexed) int { return cmp.Compare(a.Offset, b.Offset) })
	return v, nil
}

// complete returns the summary of a part that need not be made again; nil if there is none.
func (j *job) complete(volume string, data *warc.Data) *summary {
	text, err := disk.ReadFile(j.opt.FS, j.opt.Target+"/"+summaryName(volume))
	if err != nil {
		return nil
	}
	var s summary
	if json.Unmarshal(text, &s) != nil || s.Version != formatVersion || s.File != data.File ||
		s.Source != data.Size() || s.Part != j.partName(volume) || s.Damaged > 0 {
		return nil
	}
	if size, err := j.opt.FS.Size(j.opt.Target + "/" + s.Part); err != nil || size != s.Bytes {
		return nil
	}
	return &s
}

// part makes the part of a WARC file.
func (j *job) part(ctx context.Context, v *volume) error {
	s := &summary{Version: formatVersion, File: v.data.File, Source: v.data.Size(), Part: j.partName(v.name),
		Counts: v.counts}
	if j.stream != nil {
		err := j.pages(ctx, v, j.stream, &s.Counts)
		j.finished(s, false)
		return err
	}
	f, err := disk.Stage(j.opt.FS, j.opt.Target+"/"+s.Part)
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	defer f.Abort()
	out, err := j.newSink(f, s.Part)
	if err == nil {
		err = j.pages(ctx, v, out, &s.Counts)
	}
	if err == nil && j.Reader != nil { // an outage is no damage
		err = j.RemoteFailed()
	}
	if err == nil {
		err = out.close()
	}
	if err == nil {
		err = f.End()
	}
	if err == nil {
		err = f.Rename()
	}
	if err != nil {
		return fmt.Errorf("extract: part of %s: %w", v.data.File, err)
	}
	s.Bytes = f.Size()
	if err := j.writeJSON(summaryName(v.name), s); err != nil {
		return err
	}
	j.finished(s, false)
	return nil
}

// pages adds the pages of a WARC file to a part.
func (j *job) pages(ctx context.Context, v *volume, to *sink, counts *Counts) error {
	at := int64(0)
	for _, x := range v.pages {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		j.meter.Add(x.Offset - at)
		at = x.Offset
		err := j.page(v.data, x, to, counts)
		var damage *disk.CorruptError
		if errors.As(err, &damage) {
			counts.Damaged++
			j.damaged(err)
		} else if err != nil {
			return err
		}
	}
	j.meter.Add(v.data.Size() - at)
	return nil
}
