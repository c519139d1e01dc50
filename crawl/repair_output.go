package crawl

import (
	"fmt"
	"slices"

	"drumbeat/crawllog"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// outputs are the stores of output files, by the structure that they belong to.
func (w *repair) outputs() []outputStore {
	all := []outputStore{
		{nameCrawlLog, crawllog.Options{Set: w.r.set, Prefix: "crawl"}.Files()},
		{nameSeedLog, crawllog.Options{Set: w.r.set, Prefix: "seeds"}.Files()},
		{nameRobotsLog, crawllog.Options{Set: w.r.set, Prefix: "robots"}.Files()},
	}
	if w.r.out.Len() > 0 {
		opt := w.r.warcOptions()
		all = append(all, outputStore{nameWARC, opt.Files()})
	}
	return all
}

type outputStore struct {
	name string
	opt  outfile.Options
}

// filesOf returns the part of a state that lists volumes.
func filesOf(m *manifest, name string) (*outfile.State, error) {
	if name == nameWARC {
		st, err := statePart[warc.State](m, name)
		if st == nil || err != nil {
			return nil, err
		}
		return &st.Files, nil
	}
	st, err := statePart[crawllog.State](m, name)
	if st == nil || err != nil {
		return nil, err
	}
	return &st.Files, nil
}

// badVolumes are the paths of the open output files with which a crawl could not be opened.
func (w *repair) badVolumes() []string {
	var bad []string
	for _, o := range w.outputs() {
		st, err := filesOf(w.m, o.name)
		if err != nil || st == nil {
			continue
		}
		for _, v := range st.Volumes {
			if !outfile.Whole(o.opt, v) {
				bad = append(bad, o.opt.Set.Path(v.Dir, o.opt.Sub, v.Name))
			}
		}
	}
	return bad
}

// dropVolumes takes those out of the state, and moves their files aside.
func (w *repair) dropVolumes() error {
	for _, o := range w.outputs() {
		st, err := filesOf(w.m, o.name)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		drop := map[string]bool{}
		for _, v := range st.Volumes {
			if !outfile.Whole(o.opt, v) {
				drop[v.Name] = true
				for _, path := range outfile.OpenFiles(o.opt, v) {
					w.journal.aside(w.r.set.FS, o.opt.Set.Path(v.Dir), path, w.gen)
				}
			}
		}
		if len(drop) == 0 {
			continue
		}
		gone := func(v outfile.Volume) bool { return drop[v.Name] }
		if o.name == nameWARC {
			err = remakePart(w, o.name, func(_, next *warc.State) error {
				next.Files.Volumes = slices.DeleteFunc(next.Files.Volumes, gone)
				return nil
			})
		} else {
			err = remakePart(w, o.name, func(_, next *crawllog.State) error {
				next.Files.Volumes = slices.DeleteFunc(next.Files.Volumes, gone)
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLost lists the keys of the URLs that are lost, for whoever can make something of them.
func (w *repair) writeLost() error {
	if w.out.Forgotten == 0 {
		return nil
	}
	path := w.r.set.Path(0, shadowDir, "lost-keys.txt")
	f, err := w.r.set.FS.Create(path)
	if err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	var text []byte
	off := int64(0)
	flush := func() error {
		_, err := f.WriteAt(text, off)
		off += int64(len(text))
		text = text[:0]
		return err
	}
	err = w.eachKey(func(key uint64, entries []taggedKey, seen bool) error {
		if !seen || len(entries) > 0 {
			return nil
		}
		text = fmt.Appendf(text, "%016x\n", key)
		if len(text) < runBufferBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("crawl: repair: write %s: %w", path, err)
	}
	w.journal.Moves = append(w.journal.Moves, journalMove{From: path, To: w.r.set.Path(0, asideDir(w.gen), "lost-keys.txt")})
	return nil
}
