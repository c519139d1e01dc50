package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// identityVersion is the format version of drumbeat-dir.json.
const identityVersion = 1

// maxDirectories bounds the number of directories of a kind that an identity may claim: more than a machine has disks, and
// few enough to look for each.
const maxDirectories = 4096

// Identity says which directory of which crawl a directory is. It lies in the file drumbeat-dir.json.
type Identity struct {
	// V is the format version, 1.
	V int
	// Crawl is the crawl's id.
	Crawl string
	// Number is the directory's number, from 0.
	Number int
	// Count is how many directories of the kind there were when this one was made or last rewritten.
	Count int
	// Kind is what the directory is for; numbers count per kind.
	Kind string
}

// ReadIdentity returns the identity of dir; fs.ErrNotExist if it has none.
func ReadIdentity(fsys FS, dir string) (Identity, error) {
	var id Identity
	name := Set{FS: fsys, Paths: []string{dir}}.Path(0, identityFileName)
	data, err := ReadFile(fsys, name)
	if err != nil {
		return id, fmt.Errorf("disk: read identity: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(&id)
	if err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) > 0 {
		err = errors.New("something behind it")
	}
	if err != nil {
		return id, &CorruptError{Path: name, Want: "an identity in JSON", Got: err.Error()}
	}
	if id.V != identityVersion {
		return id, fmt.Errorf("disk: read identity: %s has version %d; this program knows %d", name, id.V,
			identityVersion)
	}
	if id.Number < 0 || id.Count <= id.Number || id.Count > maxDirectories || id.Crawl == "" || id.Kind == "" {
		return id, &CorruptError{
			Path: name, Want: fmt.Sprintf("crawl, kind and number < count <= %d", maxDirectories), Got: string(data[:min(len(data), 200)]),
		}
	}
	return id, nil
}

// WriteIdentity makes id the durable identity of dir, which must exist. V is filled in.
func WriteIdentity(fsys FS, dir string, id Identity) error {
	id.V = identityVersion
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("disk: write identity: %w", err)
	}
	set := Set{FS: fsys, Paths: []string{dir}}
	return WriteFileAtomic(fsys, set.Path(0, identityFileName), append(data, '\n'))
}

// Match is what MatchIdentities found.
type Match struct {
	// Set has the directories with an identity, ordered by number.
	Set Set
	// Crawl is their crawl; empty if none has an identity.
	Crawl string
	// New has the paths that exist not at all or are empty: they may become directories (see Label).
	New []string
}

// MatchIdentities finds out which directory each path is, in whatever order they are given. Errors (all of
// them joined): a directory of another crawl or kind, a number twice or missing, a directory without identity
// that isn't empty. Nothing is changed.
func MatchIdentities(fsys FS, paths []string, kind string) (Match, error) {
	m, missing, err := MatchSome(fsys, paths, kind)
	if err == nil && len(missing) > 0 {
		var errs []error
		for _, n := range missing {
			errs = append(errs, fmt.Errorf("disk: match: directory %d of %d (%s) of crawl %s is missing", n, m.Set.Len(), kind, m.Crawl))
		}
		return Match{}, errors.Join(errs...)
	}
	return m, err
}

// MatchSome is MatchIdentities for a crawl that may lack directories: their numbers are in missing, their paths in the set
// are empty.
func MatchSome(fsys FS, paths []string, kind string) (_ Match, missing []int, _ error) {
	m := Match{Set: Set{FS: fsys}}
	var errs []error
	byNumber := map[int]string{}
	count := 0
	for _, p := range paths {
		id, err := ReadIdentity(fsys, p)
		if errors.Is(err, fs.ErrNotExist) {
			if err = checkEmpty(fsys, p); err == nil {
				m.New = append(m.New, p)
				continue
			}
		}
		if err == nil && m.Crawl == "" {
			m.Crawl = id.Crawl
		}
		switch {
		case err != nil:
		case id.Kind != kind:
			err = fmt.Errorf("disk: match: %s is a directory for %s, not for %s", p, id.Kind, kind)
		case id.Crawl != m.Crawl:
			err = fmt.Errorf("disk: match: %s belongs to crawl %s, the directories before it to %s", p, id.Crawl,
				m.Crawl)
		case byNumber[id.Number] != "":
			err = fmt.Errorf("disk: match: %s and %s are both directory %d", byNumber[id.Number], p, id.Number)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		byNumber[id.Number] = p
		count = max(count, id.Count)
	}
	for n := range count {
		if byNumber[n] == "" {
			missing = append(missing, n)
		}
		m.Set.Paths = append(m.Set.Paths, byNumber[n])
	}
	if err := errors.Join(errs...); err != nil {
		for _, n := range missing {
			errs = append(errs, fmt.Errorf("disk: match: directory %d of %d (%s) of crawl %s is missing", n, count, kind, m.Crawl))
		}
		return Match{}, nil, errors.Join(errs...)
	}
	return m, missing, nil
}

// checkEmpty accepts a directory that doesn't exist or holds nothing but a lock file and what an interrupted
// WriteIdentity left.
func checkEmpty(fsys FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != lockFileName && name != identityFileName+tempSuffix && name != "lost+found" {
			return fmt.Errorf("disk: match: %s has no %s but isn't empty (it holds %s)", dir, identityFileName, name)
		}
	}
	return nil
}

// Label gives the new directories of m the next numbers, making them where needed, and returns the set of
// all. A crash in between leaves what MatchIdentities accepts: the labelled ones in the set, the others new.
// When all are labelled, the older identities get the new count, so that a missing directory is noticed.
func Label(m Match, crawl, kind string) (Set, error) {
	fsys, set := m.Set.FS, Set{FS: m.Set.FS}
	set.Paths = append(append(set.Paths, m.Set.Paths...), m.New...)
	if m.Crawl != "" && m.Crawl != crawl {
		return Set{}, fmt.Errorf("disk: label: directories of crawl %s for crawl %s", m.Crawl, crawl)
	}
	// After kill -9 an identity that is seen may not be durable yet. It must be before anything is put beside it: a power
	// cut would leave a directory without identity that isn't empty.
	for n := range m.Set.Paths {
		if err := fsys.SyncDir(set.Path(n)); err != nil {
			return Set{}, fmt.Errorf("disk: label: %w", err)
		}
	}
	for n := len(m.Set.Paths); n < set.Len(); n++ {
		if err := fsys.MkdirAll(set.Path(n)); err != nil {
			return Set{}, fmt.Errorf("disk: label: %w", err)
		}
		id := Identity{Crawl: crawl, Number: n, Count: n + 1, Kind: kind}
		if err := WriteIdentity(fsys, set.Path(n), id); err != nil {
			return Set{}, err
		}
	}
	if len(m.New) == 0 {
		return set, nil
	}
	for n := range set.Paths { // the new directories' names in their parents, before anything counts on them
		if err := fsys.SyncFS(set.Path(n)); err != nil {
			return Set{}, fmt.Errorf("disk: label: %w", err)
		}
	}
	for n := range set.Len() - 1 {
		id := Identity{Crawl: crawl, Number: n, Count: set.Len(), Kind: kind}
		if err := WriteIdentity(fsys, set.Path(n), id); err != nil {
			return Set{}, err
		}
	}
	return set, nil
}
