package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// File is a file of a checkpoint.
type File struct {
	Path string // on disk
	in   string
	dir  int
	name string
	size int64 // of the file in the backup; unknown for a loose one
	// ranges are the bytes that count, ascending.
	ranges []drum.Range
	// Loose says that no checkpoint names the file. It may change at any time, and may be missing.
	Loose bool
}

func (f *File) id() fileID { return fileID{f.in, f.dir, f.name} }

// gatherer finds the files of a checkpoint.
type gatherer struct {
	saved *state.Saved
	m     *state.Manifest
	files []File
	at    map[string]int // index in files by path; of several calls for a file the last one counts
	err   error
}

// Files returns the files of a checkpoint. The caller keeps them from being removed. A missing file that the manifest
// names is an error.
func Files(saved *state.Saved, m *state.Manifest) ([]File, error) {
	g := &gatherer{saved: saved, m: m, at: map[string]int{}}
	if err := g.state(); err != nil {
		return nil, err
	}
	for dir := range saved.Set.Paths {
		g.whole(disk.TailPath(saved.Set, dir, m.Gen), true)
	}
	g.outputs()
	g.loose()
	if g.err != nil {
		return nil, fmt.Errorf("backup: files of checkpoint %d: %w", m.Gen, g.err)
	}
	slices.SortFunc(g.files, func(a, b File) int {
		return cmp.Or(strings.Compare(a.in, b.in), a.dir-b.dir, strings.Compare(a.name, b.name))
	})
	return g.files, nil
}

// state finds the files of queues and drums, and those with one copy in each of the first directories.
func (g *gatherer) state() error {
	caches := map[string][]drum.Range{}
	for _, name := range audit.Stores(g.m) {
		for file, ranges := range drum.CacheRanges(g.saved.Set, name.Name, name.State) {
			caches[file] = ranges
		}
	}
	return audit.EachNamed(g.saved, g.m, func(file string, end int64) {
		ranges, cache := caches[file]
		switch {
		case slices.Contains(state.CopyPaths(g.saved.Set, state.ManifestName), file): // the list has it
		case cache:
			last := ranges[len(ranges)-1]
			g.add(file, File{size: last.Off + last.N, ranges: ranges})
		case file == g.saved.Set.Path(0, state.ChangesName):
			g.looseFile(file)
		case end == math.MaxInt64:
			g.whole(file, true)
		case end > 0:
			g.add(file, File{size: end, ranges: []drum.Range{{N: end}}})
		default: // its bytes were written after the checkpoint, if it exists
			g.empty(file)
		}
	})
}

// outputs finds the files of pages and of logs: final ones whole, open ones as far as the manifest names them.
func (g *gatherer) outputs() {
	pages, err := state.Part[warc.State](g.m, state.NameWARC)
	if err != nil {
		g.err = err
		return
	}
	if pages != nil && g.saved.Out.Len() > 0 {
		opt := g.saved.WARCFiles()
		g.volumes(opt.Files(), &pages.Files)
	}
	for i, name := range []string{state.NameCrawlLog, state.NameSeedLog, state.NameRobotsLog} {
		st, err := state.Part[crawllog.State](g.m, name)
		if err != nil {
			g.err = err
			return
		}
		if st != nil {
			g.volumes(crawllog.Options{Set: g.saved.Set, Prefix: state.LogPrefixes[i]}.Files(), &st.Files)
		}
	}
}

// volumes adds the files of a store of output.
func (g *gatherer) volumes(opt outfile.Options, st *outfile.State) {
	all, err := outfile.List(opt, st)
	if err != nil {
		g.err = cmp.Or(g.err, err)
		return
	}
	for i := range all {
		for j := range all[i].Streams {
			s := &all[i].Streams[j]
			switch {
			case s.Path == "" || s.Moved:
			case strings.HasSuffix(s.Path, outfile.OpenSuffix):
				g.add(s.Path, File{size: s.Size, ranges: []drum.Range{{N: s.Size}}})
			default:
				g.whole(s.Path, true)
			}
		}
	}
}

// loose finds the files that no checkpoint names and that a crawl uses.
func (g *gatherer) loose() {
	set := g.saved.Set
	for _, name := range []string{"seeds.txt", "watch.txt"} {
		g.looseFile(set.Path(0, name))
	}
	for _, dir := range []string{state.HistoryName, state.ErasedDir} {
		names, err := set.FS.List(set.Path(0, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.err = cmp.Or(g.err, err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, ".tmp") {
				g.looseFile(set.Path(0, dir, name))
			}
		}
	}
}

// whole adds a file that does not change any more. It may be missing if absent is set.
func (g *gatherer) whole(file string, absent bool) {
	size, err := g.saved.Set.FS.Size(file)
	if absent && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		g.err = cmp.Or(g.err, err)
		return
	}
	f := File{size: size}
	if size > 0 {
		f.ranges = []drum.Range{{N: size}}
	}
	g.add(file, f)
}

// empty adds an empty file for one that exists, and whose bytes the checkpoint does not name.
func (g *gatherer) empty(file string) {
	if _, err := g.saved.Set.FS.Size(file); err == nil {
		g.add(file, File{})
	} else if !errors.Is(err, fs.ErrNotExist) {
		g.err = cmp.Or(g.err, err)
	}
}

func (g *gatherer) looseFile(file string) { g.add(file, File{Loose: true}) }

// add adds a file by its path.
func (g *gatherer) add(file string, f File) {
	f.Path = file
	for _, place := range []struct {
		in  string
		set disk.Set
	}{{inState, g.saved.Set}, {inOut, g.saved.Out}} {
		if place.in == inOut && !g.saved.SeparateOut {
			continue
		}
		for dir := range place.set.Paths {
			if name, ok := strings.CutPrefix(file, path.Join(place.set.Path(dir))+"/"); ok {
				f.in, f.dir, f.name = place.in, dir, name
				if i, again := g.at[file]; again {
					g.files[i] = f
				} else {
					g.at[file] = len(g.files)
					g.files = append(g.files, f)
				}
				return
			}
		}
	}
	g.err = cmp.Or(g.err, fmt.Errorf("%s is in no directory of the crawl", file))
}
