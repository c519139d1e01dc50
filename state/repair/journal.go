package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"drumbeat/disk"
	"drumbeat/state"
)

// journal is the content of state/REPAIR. Once the file is durable, the repair is committed: finishRepair
// carries it out, after a crash too. Format: "drumbeat-repair 1 <length> <xxhash64 hex>\n", then JSON.
type journal struct {
	Moves    []journalMove `json:"moves"`
	Manifest []byte        `json:"manifest"` // content of the new manifest file
}

// journalMove renames a file. A move with Aside moves an old file into state/damaged; others install a new
// file.
type journalMove struct {
	Aside    bool `json:"aside,omitempty"`
	From, To string
}

const journalMagic = "drumbeat-repair"

// asideDir returns the directory for the files that the repair with manifest number gen replaces.
func asideDir(gen uint64) string { return fmt.Sprintf("state/%s/%010d", state.DamagedDir, gen) }

// aside adds the move of a file of directory dir, if the file exists.
func (j *journal) aside(fsys disk.FS, dir, file string, gen uint64) {
	if _, err := fsys.Size(file); err != nil {
		return
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(file, dir), "/")
	to := path.Join(dir, asideDir(gen), strings.TrimPrefix(rel, "state/"))
	j.Moves = append(j.Moves, journalMove{Aside: true, From: file, To: to})
}

// FilesIn lists the files of a directory and, with deep, those of its subdirectories. A missing directory
// is empty.
func FilesIn(fsys disk.FS, dir string, deep bool) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("crawl: repair: %w", err)
	}
	var files []string
	for _, name := range names {
		file := dir + "/" + name
		if _, err := fsys.List(file); err != nil {
			files = append(files, file)
		} else if deep {
			more, err := FilesIn(fsys, file, true)
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
		}
	}
	return files, nil
}

// install writes the journal and carries it out.
func (w *repair) install() error {
	body, err := w.seal()
	if err != nil {
		return err
	}
	for _, m := range w.journal.Moves {
		if m.Aside {
			w.out.Aside = asideDir(w.gen)
		}
	}
	w.hook("repair")
	name := w.Saved.Set.Path(0, state.JournalName)
	if err := disk.WriteFileAtomic(w.Saved.Set.FS, name, body); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	w.hook("repair")
	_, err = finishRepair(w.Saved, w.hook)
	return err
}

// SyncAll makes all files written so far durable.
func SyncAll(r *state.Saved) error {
	for _, set := range []disk.Set{r.Set, r.Out} {
		for _, dir := range set.Paths {
			if err := set.FS.SyncFS(dir); err != nil {
				return fmt.Errorf("crawl: repair: sync %s: %w", dir, err)
			}
		}
	}
	return nil
}

// finishRepair carries out a journal and reports whether there was one. After a crash it continues where it
// stopped.
func finishRepair(r *state.Saved, hook func(string)) (bool, error) {
	name := r.Set.Path(0, state.JournalName)
	data, err := disk.ReadFile(r.Set.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("crawl: repair: read %s: %w", name, err)
	}
	j, err := decodeJournal(name, data)
	if err != nil {
		return false, err
	}
	// A file in a directory that a power cut has lost would be lost with it.
	for _, m := range j.Moves {
		if err := r.Set.FS.MkdirAll(path.Dir(m.To)); err != nil {
			return false, fmt.Errorf("crawl: repair: %w", err)
		}
	}
	if err := SyncAll(r); err != nil {
		return false, err
	}
	// The old files must be aside durably before new ones take their names: after a crash the two look the
	// same.
	for _, aside := range []bool{true, false} {
		for _, m := range j.Moves {
			if m.Aside != aside {
				continue
			}
			if err := moveFile(r.Set.FS, m); err != nil {
				return false, err
			}
			hook("move")
		}
		if err := SyncAll(r); err != nil {
			return false, err
		}
	}
	if err := r.WriteManifest(j.Manifest); err != nil {
		return false, fmt.Errorf("crawl: repair: manifest: %w", err)
	}
	hook("repair")
	if err := r.Set.FS.Remove(name); err != nil {
		return false, fmt.Errorf("crawl: repair: %w", err)
	}
	if err := r.Set.FS.SyncDir(path.Dir(name)); err != nil {
		return false, fmt.Errorf("crawl: repair: %w", err)
	}
	return true, removeShadow(r)
}

// moveFile renames a file unless that is done already.
func moveFile(fsys disk.FS, m journalMove) error {
	_, toErr := fsys.Size(m.To)
	_, fromErr := fsys.Size(m.From)
	if m.Aside && toErr == nil || !m.Aside && errors.Is(fromErr, fs.ErrNotExist) && toErr == nil {
		return nil
	}
	if err := fsys.Rename(m.From, m.To); err != nil {
		return fmt.Errorf("crawl: repair: move %s to %s: %w", m.From, m.To, err)
	}
	return nil
}

func decodeJournal(name string, data []byte) (*journal, error) {
	j := new(journal)
	if err := state.Unseal(journalMagic, name, data, j); err != nil {
		return nil, err
	}
	return j, nil
}
