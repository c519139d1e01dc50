package repair

import (
	"fmt"
	"slices"

	"drumbeat/crawl/audit"
	"drumbeat/crawl/state"
	"drumbeat/internal/crawllog"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// outputs are the stores of output files, by the structure that they belong to.
func (w *repair) outputs() []outputStore {
	all := []outputStore{
		{state.NameCrawlLog, crawllog.Options{Set: w.Saved.Set, Prefix: "crawl"}.Files()},
		{state.NameSeedLog, crawllog.Options{Set: w.Saved.Set, Prefix: "seeds"}.Files()},
		{state.NameRobotsLog, crawllog.Options{Set: w.Saved.Set, Prefix: "robots"}.Files()},
	}
	if w.Saved.Out.Len() > 0 {
		opt := w.Saved.WARCFiles()
		all = append(all, outputStore{state.NameWARC, opt.Files()})
	}
	return all
}

type outputStore struct {
	name string
	opt  outfile.Options
}

// filesOf returns the part of a state that lists volumes.
func filesOf(m *state.Manifest, name string) (*outfile.State, error) {
	if name == state.NameWARC {
		st, err := state.Part[warc.State](m, name)
		if st == nil || err != nil {
			return nil, err
		}
		return &st.Files, nil
	}
	st, err := state.Part[crawllog.State](m, name)
	if st == nil || err != nil {
		return nil, err
	}
	return &st.Files, nil
}

// badVolumes are the paths of the open output files with which a crawl could not be opened.
func (w *repair) badVolumes() []string {
	var bad []string
	for _, o := range w.outputs() {
		st, err := filesOf(w.Manifest, o.name)
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
		st, err := filesOf(w.Manifest, o.name)
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
					w.journal.aside(w.Saved.Set.FS, o.opt.Set.Path(v.Dir), path, w.gen)
				}
			}
		}
		if len(drop) == 0 {
			continue
		}
		gone := func(v outfile.Volume) bool { return drop[v.Name] }
		if o.name == state.NameWARC {
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
	path := w.Saved.Set.Path(0, state.ShadowDir, "lost-keys.txt")
	f, err := w.Saved.Set.FS.Create(path)
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
	err = w.EachKey(func(key uint64, entries []audit.TaggedKey, seen bool) error {
		if !seen || len(entries) > 0 {
			return nil
		}
		text = fmt.Appendf(text, "%016x\n", key)
		if len(text) < audit.RunBufferBytes {
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
	w.journal.Moves = append(w.journal.Moves, journalMove{From: path, To: w.Saved.Set.Path(0, asideDir(w.gen), "lost-keys.txt")})
	return nil
}
