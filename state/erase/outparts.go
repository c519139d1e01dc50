package erase

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"drumbeat/disk"
)

// Names of the files that describe the parts of a directory: those of drumbeat export, and those of drumbeat extract.
const (
	tableAbout   = "_progress.json"
	extractTable = "_extract.json"
	textsDir     = "texts" // of crawl --extract
	identityFile = "drumbeat-dir.json"
)

// partEnds are the ends of the names of parts of texts, which begin with the name of the WARC file.
var partEnds = []string{".warc.wet.gz", ".parquet", ".csv", ".jsonl"}

// about is a JSON object that describes parts.
type about map[string]any

func (x *run) readAbout(name string) (about, error) {
	data, err := disk.ReadFile(x.r.Set.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var a about
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

func (x *run) writeAbout(name string, a about) error {
	data, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return disk.WriteFileAtomic(x.r.Set.FS, name, append(data, '\n'))
}

// text is a part of the texts of a WARC file that is rewritten.
type text struct {
	of                *volume
	name, summary     string // from now on
	oldName, oldAbout string
	about             about
}

// textOf returns the part of texts with a path; nil if it is none, or its WARC file keeps its name.
func (x *run) textOf(file string) (*text, error) {
	dir, base := path.Split(file)
	for _, end := range partEnds {
		stem, ok := strings.CutSuffix(base, end)
		if !ok {
			continue
		}
		t := &text{oldName: file, oldAbout: dir + "_" + stem + ".json"}
		var err error
		if t.about, err = x.readAbout(t.oldAbout); err != nil || t.about == nil {
			return nil, err
		}
		source, _ := t.about["file"].(string)
		if t.of = x.shifted().files[source]; t.of == nil {
			return nil, nil
		}
		t.name, t.summary = dir+t.of.Next+end, dir+"_"+t.of.Next+".json"
		return t, nil
	}
	return nil, nil
}

// finishPart corrects what describes a part: number of rows and length. A part of the texts of a rewritten WARC file
// has a new name, as the WARC file has; the old one goes.
func (x *run) finishPart(file string) error {
	t, err := x.textOf(file)
	if err != nil {
		return err
	}
	if t != nil {
		return x.finishText(t)
	}
	dir, base := path.Split(file)
	size, err := x.r.Set.FS.Size(file)
	if errors.Is(err, fs.ErrNotExist) { // all was done, but perhaps not durably
		if err = x.r.Set.FS.SyncDir(path.Clean(dir)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	table, err := x.readAbout(dir + tableAbout)
	if err != nil || table == nil {
		return err
	}
	parts, _ := table["parts"].([]any)
	for _, p := range parts {
		if part, _ := p.(map[string]any); part["name"] == base {
			rows, err := x.countRows(file)
			if err != nil {
				return err
			}
			part["rows"], part["bytes"] = rows, size
			return x.writeAbout(dir+tableAbout, table)
		}
	}
	return nil
}

func (x *run) finishText(t *text) error {
	fsys := x.r.Set.FS
	size, err := fsys.Size(t.name)
	if err != nil {
		return err
	}
	rows, err := x.countRows(t.name)
	if err != nil {
		return err
	}
	source, err := x.nextSize(t.of)
	if err != nil {
		return err
	}
	a := t.about
	a["file"], a["file_bytes"], a["part"], a["part_bytes"] = t.of.NextFile, source, path.Base(t.name), size
	a["pages"] = rows
	if err := x.writeAbout(t.summary, a); err != nil {
		return err
	}
	for _, old := range []string{t.oldName, t.oldAbout} { // the summary goes last: it says that this is not done
		err := fsys.Remove(old)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = fsys.SyncDir(path.Dir(old))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
