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

// maxDirectories bounds the number of directories of a kind that an identity may claim. No machine has that
// many disks, and the search for each number stays cheap.
const maxDirectories = 4096

// Identity says which directory of which crawl a directory is. It is stored in the file drumbeat-dir.json.
type Identity struct {
	// V is the format version, 1.
	V int
	// Crawl is the crawl's id.
	Crawl string
	// Number is the directory's number, from 0.
	Number int
	// Count is the number of directories of this kind when the identity was last written.
	Count int
	// Kind is the use of the directory. Each kind has its own numbers.
	Kind string
}

// ReadIdentity returns the identity of dir. It fails with fs.ErrNotExist if dir has none.
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
		err = errors.New("data after the object")
	}
	if err != nil {
		return id, &CorruptError{Path: name, Want: "an identity in JSON", Got: err.Error()}
	}
	if id.V != identityVersion {
		return id, fmt.Errorf("disk: read identity: %s has version %d; this program reads version %d", name, id.V,
			identityVersion)
	}
	if id.Number < 0 || id.Count <= id.Number || id.Count > maxDirectories || id.Crawl == "" || id.Kind == "" {
		return id, &CorruptError{
			Path: name, Want: fmt.Sprintf("crawl, kind and number < count <= %d", maxDirectories),
			Got: string(data[:min(len(data), 200)]),
		}
	}
	return id, nil
}

// WriteIdentity durably writes id as the identity of dir, which must exist. It sets V.
func WriteIdentity(fsys FS, dir string, id Identity) error {
	id.V = identityVersion
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("disk: write identity: %w", err)
	}
	set := Set{FS: fsys, Paths: []string{dir}}
	return WriteFileAtomic(fsys, set.Path(0, identityFileName), append(data, '\n'))
}

// Match is the result of MatchIdentities.
type Match struct {
	// Set holds the directories that have an identity, ordered by number.
	Set Set
	// Crawl is the id of their crawl; empty if no directory has an identity.
	Crawl string
	// New holds the paths that do not exist or are empty. Label can make them directories of the crawl.
	New []string
}

// MatchIdentities finds which directory each path is; the paths may come in any order. It fails, with all
// errors joined, on a directory of another crawl or kind, on a duplicate or missing number, and on a
// non-empty directory without identity. It changes nothing.
func MatchIdentities(fsys FS, paths []string, kind string) (Match, error) {
	m, missing, err := MatchSome(fsys, paths, kind)
	if err == nil && len(missing) > 0 {
		var errs []error
		for _, n := range missing {
			errs = append(errs, missingError(n, m.Set.Len(), kind, m.Crawl))
		}
		return Match{}, errors.Join(errs...)
	}
	return m, err
}

// MatchSome is MatchIdentities for a crawl that may lack directories. It returns their numbers in missing;
// their paths in the set are empty.
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
			err = fmt.Errorf("disk: match: %s belongs to crawl %s, but the directories before it belong to crawl %s", p,
				id.Crawl, m.Crawl)
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
			errs = append(errs, missingError(n, count, kind, m.Crawl))
		}
		return Match{}, nil, errors.Join(errs...)
	}
	return m, missing, nil
}

func missingError(n, count int, kind, crawl string) error {
	return fmt.Errorf("disk: match: directory %d of %d (%s) of crawl %s is missing", n, count, kind, crawl)
}

// checkEmpty accepts a directory that does not exist. It also accepts one that holds only a lock file,
// lost+found and the temporary file of an interrupted WriteIdentity.
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
			return fmt.Errorf("%s is not a drumbeat directory: it has no %s and is not empty (it contains %s)", dir,
				identityFileName, name)
		}
	}
	return nil
}

// Label gives the next numbers to the new directories of m, creates them where needed, and returns the set
// of all directories. MatchIdentities accepts what a crash during Label leaves: labelled directories in the
// set, the others new. Once all are labelled, Label writes the new count to the older identities, so that a
// missing directory is noticed.
func Label(m Match, crawl, kind string) (Set, error) {
	fsys, set := m.Set.FS, Set{FS: m.Set.FS}
	set.Paths = append(append(set.Paths, m.Set.Paths...), m.New...)
	if m.Crawl != "" && m.Crawl != crawl {
		return Set{}, fmt.Errorf("disk: label: directories belong to crawl %s, not to %s", m.Crawl, crawl)
	}
	// After kill -9 a visible identity may not be durable yet. Make it durable before anything is written
	// next to it: otherwise a power cut could leave a non-empty directory without identity.
	for n := range m.Set.Paths {
		if err := fsys.SyncDir(set.Path(n)); err != nil {
			return Set{}, fmt.Errorf("disk: label: %w", err)
		}
	}
	// The names of new directories are durable before their identities are written: otherwise a power cut could leave a
	// directory with its identity, and none of those with a lower number.
	for n := len(m.Set.Paths); n < set.Len(); n++ {
		if err := fsys.MkdirAll(set.Path(n)); err != nil {
			return Set{}, fmt.Errorf("disk: label: %w", err)
		}
	}
	if len(m.New) > 0 {
		for n := range set.Paths {
			if err := fsys.SyncFS(set.Path(n)); err != nil {
				return Set{}, fmt.Errorf("disk: label: %w", err)
			}
		}
	}
	for n := len(m.Set.Paths); n < set.Len(); n++ {
		id := Identity{Crawl: crawl, Number: n, Count: n + 1, Kind: kind}
		if err := WriteIdentity(fsys, set.Path(n), id); err != nil {
			return Set{}, err
		}
	}
	if len(m.New) == 0 {
		return set, nil
	}
	for n := range set.Len() - 1 {
		id := Identity{Crawl: crawl, Number: n, Count: set.Len(), Kind: kind}
		if err := WriteIdentity(fsys, set.Path(n), id); err != nil {
			return Set{}, err
		}
	}
	return set, nil
}
