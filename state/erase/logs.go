package erase

import (
	"encoding/json"
	"errors"
	"slices"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// logs rewrites the logs. Lines follow the records that they name to the rewritten WARC files.
func (w *next) logs() error {
	files, err := w.loadShifts()
	if err != nil {
		return err
	}
	var failed error
	err = w.rewriteLogs(false, func(crawl bool, e *crawllog.Entry) crawllog.Change {
		if w.t.Text(e.URL) {
			return crawllog.Drop
		}
		changed := w.clearLine(e)
		if e.File != "" {
			file, at, ok, err := files.find(e.File, e.Offset)
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case !ok:
				return crawllog.Drop
			case file != e.File:
				e.File, e.Offset, changed = file, at, true
			}
		}
		if changed {
			return crawllog.Modify
		}
		return crawllog.Keep
	}, func(part string, opt crawllog.Options, out *crawllog.Rewritten) error {
		return repair.RemakePart(w.Shadow, part, func(old, st *crawllog.State) (err error) {
			st.Files.Volumes = slices.DeleteFunc(st.Files.Volumes,
				func(v outfile.Volume) bool { return out.Closed[v.Name] })
			for _, v := range old.Files.Volumes {
				for _, file := range outfile.OpenFiles(opt.Files(), v) {
					if out.Closed[v.Name] {
						w.Replace(w.r.Set.Path(v.Dir), file)
					}
				}
			}
			st.Lines, err = w.Tails.Write(0, out.Tail)
			return err
		})
	})
	return errors.Join(err, failed)
}

// shiftFiles are the rewritten WARC files by their old names. The Shifts of at most maxShifts of them are in RAM.
type shiftFiles struct {
	run    *run
	files  map[string]*volume
	loaded map[*volume][]warc.Shift
}

// maxShifts bounds the files whose Shifts are in RAM: a log names files in the order of time, and a Shift takes
// 24 bytes.
const maxShifts = 64

func (x *run) loadShifts() (*shiftFiles, error) {
	s := &shiftFiles{run: x, files: map[string]*volume{}, loaded: map[*volume][]warc.Shift{}}
	for i := range x.volumes {
		if n := &x.volumes[i]; n.Data {
			s.files[n.File] = n
		}
	}
	return s, nil
}

// find returns the place of a record; ok is false if it is gone.
func (s *shiftFiles) find(file string, offset int64) (now string, at int64, ok bool, _ error) {
	n := s.files[file]
	if n == nil {
		return file, offset, true, nil
	}
	shifts, there := s.loaded[n]
	if !there {
		data, err := disk.ReadFile(s.run.r.Set.FS, s.run.shiftsName(n))
		if err == nil {
			err = json.Unmarshal(data, &shifts)
		}
		if err != nil {
			return "", 0, false, err
		}
		if len(s.loaded) >= maxShifts {
			clear(s.loaded)
		}
		s.loaded[n] = shifts
	}
	at, ok = warc.Moved(shifts, offset)
	return n.NextFile, at, ok, nil
}

// openFiles drops from the state the unfinished WARC files that were rewritten.
func (w *next) openFiles() error {
	if w.r.Out.Len() == 0 {
		return nil
	}
	closed := map[string]bool{}
	for i := range w.volumes {
		if n := &w.volumes[i]; !n.Final && n.Data {
			closed[n.key()] = true
			for _, file := range []string{n.File, n.IndexFile} { // an interrupted run may have finished it
				w.Replace(w.r.Out.Path(n.Dir), w.warcPath(n.Dir, file))
			}
		}
	}
	is := func(v outfile.Volume) bool { return closed[volumeKey(v.Dir, v.Name)] }
	opt := w.r.WARCFiles()
	return repair.RemakePart(w.Shadow, state.NameWARC, func(old, st *warc.State) error {
		for _, v := range old.Files.Volumes {
			for _, file := range outfile.OpenFiles(opt.Files(), v) {
				if is(v) {
					w.Replace(w.r.Out.Path(v.Dir), file)
				}
			}
		}
		st.Files.Volumes = slices.DeleteFunc(st.Files.Volumes, is)
		return nil
	})
}
