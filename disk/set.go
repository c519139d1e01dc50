package disk

import "path"

// Set is the list of a store's directories, usually one per disk. The index of a directory is its number.
// Files and manifests refer to this number, so paths may change between runs. A Set is safe for concurrent
// use.
type Set struct {
	// FS is the file system of all directories.
	FS FS
	// Paths holds the path of each directory, by number.
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
