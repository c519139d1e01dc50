package disk

import "path"

// Set is the directories of one store, one per disk as a rule. A directory's index is its number, which files
// on disk and states refer to; paths may change between runs. A Set is a value and safe for concurrent use.
type Set struct {
	// FS holds all the directories.
	FS FS
	// Paths is one path per directory, by number.
	Paths []string
}

// Path joins elem to the path of directory number dir.
func (s Set) Path(dir int, elem ...string) string {
	switch len(elem) {
	case 0:
		return s.Paths[dir]
	case 1:
		return path.Join(s.Paths[dir], elem[0])
	}
	return path.Join(s.Paths[dir], path.Join(elem...))
}

// Len returns the number of directories.
func (s Set) Len() int { return len(s.Paths) }
