package drum

import (
	"cmp"
	"maps"
	"slices"

	"drumbeat/disk"
)

// Files returns the paths of all files that st names, except those of the tails, in order.
func Files(set disk.Set, name string, st *State) []string {
	return slices.Sorted(maps.Keys(Sizes(set, name, st)))
}

// Sizes returns the bytes of each of these files that st uses. Later bytes are padding, or were written after st.
func Sizes(set disk.Set, name string, st *State) map[string]int64 {
	o := Options{Set: set, Name: name}
	sizes := map[string]int64{}
	add := func(dir int, path func() string, end int64) {
		if dir >= 0 && dir < set.Len() {
			file := path()
			sizes[file] = max(sizes[file], end)
		}
	}
	for _, p := range st.Parts {
		add(p.Dir, func() string { return o.partPath(cacheKind, p.Dir, p.Gen) }, p.Offset+p.Bytes)
	}
	for _, u := range st.Uniques {
		if u.Gen != 0 {
			add(u.Dir, func() string { return o.partPath(uniqueKind, u.Dir, u.Gen) }, u.Offset+u.Bytes)
		}
	}
	for _, b := range st.Buffered {
		add(b.Dir, func() string { return o.path(b.Dir, buffersName(b.Gen)) }, b.Bytes)
	}
	stream := func(kind blockKind, dir, bucket int, s *StreamState) {
		if s.Gen != 0 {
			add(dir, func() string { return o.path(dir, bucketName(kind, bucket, s.Gen)) }, s.Bytes)
		}
	}
	for i := range st.Inputs {
		is := &st.Inputs[i]
		stream(keyBlocks, is.Dir, is.Bucket, &is.Keys)
		stream(auxBlocks, is.Dir, is.Bucket, &is.Aux)
	}
	for i := range st.Logs {
		l := &st.Logs[i]
		stream(logBlocks, l.Dir, l.Dir, &l.Text)
	}
	return sizes
}

// Range is a range of bytes of a file.
type Range struct {
	Off, N int64
}

// CacheRanges returns the ranges of the files of st's cache that have its parts and the files' headers, ascending. The
// other bytes are dead, or were written after st. A range never changes while a state names its parts.
func CacheRanges(set disk.Set, name string, st *State) map[string][]Range {
	o := Options{Set: set, Name: name}
	ranges := map[string][]Range{}
	add := func(path string, off, n int64) {
		if len(ranges[path]) == 0 {
			ranges[path] = append(ranges[path], Range{0, disk.HeaderBytes})
		}
		if n > 0 {
			ranges[path] = append(ranges[path], Range{off, n})
		}
	}
	for _, p := range st.Parts {
		if p.Dir >= 0 && p.Dir < set.Len() && p.Bytes > 0 {
			add(o.partPath(cacheKind, p.Dir, p.Gen), p.Offset, p.Bytes)
		}
	}
	for path := range ranges {
		slices.SortFunc(ranges[path], func(a, b Range) int { return cmp.Compare(a.Off, b.Off) })
	}
	return ranges
}
