package drum

import "drumbeat/disk"

// Files returns the paths of all files that st names, except those of the tails.
func Files(set disk.Set, name string, st *State) []string {
	o := Options{Set: set, Name: name}
	seen := map[string]bool{}
	var names []string
	add := func(path string) {
		if !seen[path] {
			seen[path] = true
			names = append(names, path)
		}
	}
	inSet := func(dir int) bool { return dir >= 0 && dir < set.Len() }
	for _, p := range st.Parts {
		if inSet(p.Dir) {
			add(o.partPath(cacheKind, p.Dir, p.Gen))
		}
	}
	for _, u := range st.Uniques {
		if u.Gen != 0 && inSet(u.Dir) {
			add(o.partPath(uniqueKind, u.Dir, u.Gen))
		}
	}
	for _, b := range st.Buffered {
		if inSet(b.Dir) {
			add(o.path(b.Dir, buffersName(b.Gen)))
		}
	}
	for i := range st.Inputs {
		is := &st.Inputs[i]
		for kind, s := range map[blockKind]StreamState{keyBlocks: is.Keys, auxBlocks: is.Aux} {
			if s.Gen != 0 && inSet(is.Dir) {
				add(o.path(is.Dir, bucketName(kind, is.Bucket, s.Gen)))
			}
		}
	}
	for _, l := range st.Logs {
		if l.Text.Gen != 0 && inSet(l.Dir) {
			add(o.path(l.Dir, bucketName(logBlocks, l.Dir, l.Text.Gen)))
		}
	}
	return names
}
