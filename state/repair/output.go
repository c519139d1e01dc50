package repair

import (
	"fmt"
	"slices"

	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// outputs returns the output file stores with the names of their structures.
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

// filesOf returns the part of a structure's state that lists its volumes; nil if the manifest has none.
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

// badVolumes returns the paths of open output files that are too damaged for the crawl to open.
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

// dropVolumes removes such files from the state and moves them aside.
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
			err = RemakePart(w.Shadow, o.name, func(_, next *warc.State) error {
				next.Files.Volumes = slices.DeleteFunc(next.Files.Volumes, gone)
				return nil
			})
		} else {
			err = RemakePart(w.Shadow, o.name, func(_, next *crawllog.State) error {
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

// writeLost writes the keys of lost URLs to lost-keys.txt, one in hex a line.
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
		if len(text) < lostKeysBytes {
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
	to := w.Saved.Set.Path(0, asideDir(w.gen), "lost-keys.txt")
	w.journal.Moves = append(w.journal.Moves, journalMove{From: path, To: to})
	return nil
}

// lostKeysBytes is the size of single writes of lost keys.
const lostKeysBytes = 256 << 10
