package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// markerName is the file that a directory has while a restore writes it. A crawl refuses such a directory, which has
// no identity, and another restore of the same backup continues.
const markerName = "drumbeat-restore"

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	Place  Place
	Number int64 // of the backup; 0: the newest
	FS     disk.FS
	Dirs   []string // as many as the crawl had; new or empty
	Out    []string // of the output, if it has separate directories
	// Progress is called after each pack, with the bytes that were read and those of all packs.
	Progress func(read, total int64)
}

// Restored is the result of Restore.
type Restored struct {
	Head
	Crawl    string
	Manifest *state.Manifest // as it was written
}

// Backups returns what a place has.
func Backups(ctx context.Context, p Place) (*Latest, error) {
	l, err := readLatest(ctx, p)
	if err == nil && l.last() == nil {
		err = state.Incompatible("backup: %s has no backup", p)
	}
	return l, err
}

// pick returns a backup by its number, 0 for the newest, and its list.
func pick(ctx context.Context, p Place, number int64) (*Head, *list, *state.Manifest, error) {
	latest, err := Backups(ctx, p)
	if err != nil {
		return nil, nil, nil, err
	}
	h := latest.last()
	if number != 0 {
		i := slices.IndexFunc(latest.Backups, func(h Head) bool { return h.Number == number })
		if i < 0 {
			return nil, nil, nil, state.Incompatible("backup: %s has no backup %d; its backups are %d to %d", p, number,
				latest.Backups[0].Number, h.Number)
		}
		h = &latest.Backups[i]
	}
	l, err := readList(ctx, p, h)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := state.DecodeManifest(p.String()+"/"+h.Name, l.Manifest)
	return h, l, m, err
}

// Verify reads all packs of a backup, 0 for the newest one, and compares the checksums. progress is that of
// RestoreOptions.
func Verify(ctx context.Context, p Place, number int64, progress func(read, total int64)) (*Restored, error) {
	h, l, m, err := pick(ctx, p, number)
	if err != nil {
		return nil, err
	}
	if err := eachPack(ctx, p, l, progress, func(*listed, *piece, []byte) error { return nil }); err != nil {
		return nil, err
	}
	return &Restored{Head: *h, Crawl: l.Crawl, Manifest: m}, nil
}

// Restore writes the files of a backup into new directories, then the manifest, and the identities last: until then a
// crawl refuses the directories. The manifest has another lineage.
func Restore(ctx context.Context, opt RestoreOptions) (*Restored, error) {
	h, l, m, err := pick(ctx, opt.Place, opt.Number)
	if err != nil {
		return nil, err
	}
	r := &restorer{opt: opt, head: h, list: l, saved: state.NewSaved(opt.FS, opt.Dirs, opt.Out)}
	defer func() { err = errors.Join(err, r.saved.Unlock()) }()
	if err := r.take(); err != nil {
		return nil, err
	}
	if err := r.files(ctx); err != nil {
		return nil, err
	}
	if err := r.end(m); err != nil {
		return nil, err
	}
	return &Restored{Head: *h, Crawl: l.Crawl, Manifest: m}, nil
}

// restorer writes a backup.
type restorer struct {
	opt   RestoreOptions
	head  *Head
	list  *list
	saved *state.Saved
	last  struct { // the file that was written last
		path string
		f    disk.File
	}
}

// take checks, locks and marks the directories.
func (r *restorer) take() error {
	for _, k := range []struct {
		flag string
		dirs []string
		want int
	}{{"--dir", r.opt.Dirs, r.list.Dirs}, {"--out", r.opt.Out, r.list.Outs}} {
		if len(k.dirs) != k.want {
			return state.Incompatible("backup: the crawl has %d directories of %s, but %d are given", k.want, k.flag,
				len(k.dirs))
		}
	}
	all := slices.Concat(r.opt.Dirs, r.opt.Out)
	for _, dir := range all {
		if err := r.usable(dir); err != nil {
			return err
		}
	}
	for _, dir := range all {
		if err := r.opt.FS.MkdirAll(dir); err != nil {
			return state.LockError(dir, err)
		}
		if err := r.saved.Lock(r.opt.FS, dir); err != nil {
			return err
		}
		if err := r.usable(dir); err != nil {
			return err
		}
		if err := r.fits(dir); err != nil {
			return err
		}
		if err := disk.WriteFileAtomic(r.opt.FS, path.Join(dir, markerName), r.marker()); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error if a directory has less space than its files take. A restore that continues has some of them.
func (r *restorer) fits(dir string) error {
	need := int64(0)
	for i := range r.list.Files {
		f := &r.list.Files[i]
		if dirs := map[string][]string{inState: r.opt.Dirs, inOut: r.opt.Out}[f.In]; dirs[f.Dir] != dir {
			continue
		}
		for _, p := range f.Pieces {
			need += p.N
		}
	}
	free, _, err := r.opt.FS.Space(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if _, err := r.opt.FS.Size(path.Join(dir, markerName)); err != nil && free < need {
		return state.Incompatible("backup: %s has %s free, and its files take %s", dir, human.Bytes(free),
			human.Bytes(need))
	}
	return nil
}

// marker returns the content of the marker.
func (r *restorer) marker() []byte { return fmt.Appendf(nil, "%s %016x\n", r.head.Name, r.head.Sum) }

// usable returns an error for a directory that has other files than those of this restore.
func (r *restorer) usable(dir string) error {
	data, err := disk.ReadFile(r.opt.FS, path.Join(dir, markerName))
	if err == nil {
		if string(data) != string(r.marker()) {
			return state.Incompatible("backup: %s has an unfinished restore of another backup; delete it", dir)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m, err := disk.MatchIdentities(r.opt.FS, []string{dir}, state.KindState)
	if err == nil && len(m.New) == 0 {
		return state.Incompatible("backup: %s has a crawl already", dir)
	}
	if err != nil {
		return state.MatchError(err)
	}
	return nil
}

// Holds reports whether directories have a crawl, restored to the end or not from here at all.
func Holds(fsys disk.FS, dirs []string) bool {
	for _, dir := range dirs {
		if _, err := fsys.Size(path.Join(dir, markerName)); err == nil {
			return false
		}
	}
	m, err := disk.MatchIdentities(fsys, dirs, state.KindState)
	return err == nil && len(m.New) == 0
}

// path returns where a file of the backup is written.
func (r *restorer) path(f *listed) string {
	if f.In == inOut {
		return path.Join(r.opt.Out[f.Dir], f.Name)
	}
	return path.Join(r.opt.Dirs[f.Dir], f.Name)
}

// files writes all files and makes them durable.
func (r *restorer) files(ctx context.Context) (err error) {
	made := map[string]bool{}
	for i := range r.list.Files {
		f := &r.list.Files[i]
		name := r.path(f)
		if dir := path.Dir(name); !made[dir] {
			made[dir] = true
			if err := r.opt.FS.MkdirAll(dir); err != nil {
				return fmt.Errorf("backup: %w", err)
			}
		}
		if err := r.create(name, f.Size); err != nil {
			return fmt.Errorf("backup: restore %s: %w", name, err)
		}
	}
	err = eachPack(ctx, r.opt.Place, r.list, r.opt.Progress, r.write)
	if r.last.f != nil {
		err = errors.Join(err, r.last.f.Close())
	}
	if err != nil {
		return err
	}
	for _, dir := range slices.Concat(r.opt.Dirs, r.opt.Out) {
		if err := r.opt.FS.SyncFS(dir); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

// create creates a file of zeros.
func (r *restorer) create(name string, size int64) error {
	if err := r.opt.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := r.opt.FS.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func (r *restorer) write(f *listed, p *piece, data []byte) error {
	name := r.path(f)
	if name != r.last.path || r.last.f == nil {
		if r.last.f != nil {
			if err := r.last.f.Close(); err != nil {
				return fmt.Errorf("backup: restore: %w", err)
			}
		}
		var err error
		r.last.path = name
		if r.last.f, err = r.opt.FS.Open(name); err != nil {
			r.last.f = nil
			return fmt.Errorf("backup: restore: %w", err)
		}
	}
	if _, err := r.last.f.WriteAt(data, p.From); err != nil {
		return fmt.Errorf("backup: restore %s: %w", name, err)
	}
	return nil
}

// end writes the manifest and then the identities: a crawl refuses a directory that has files and no identity. The
// markers go last. A crawl ignores them, and the same restore may be repeated while there is one.
func (r *restorer) end(m *state.Manifest) error {
	lineage, err := state.RandomLineage()
	if err != nil {
		return err
	}
	m.NewLineage(lineage)
	open, err := openOutput(m)
	if err != nil {
		return err
	}
	m.Restored = &state.Restored{Backup: r.head.Number, Gen: m.Gen, Time: time.Now().Unix(), Open: open}
	data, err := state.EncodeManifest(m)
	if err != nil {
		return err
	}
	r.saved.Set = disk.Set{FS: r.opt.FS, Paths: r.opt.Dirs}
	if err := r.saved.WriteManifest(data); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for _, k := range []struct {
		kind string
		dirs []string
	}{{state.KindState, r.opt.Dirs}, {state.KindOutput, r.opt.Out}} {
		for i, dir := range k.dirs {
			id := disk.Identity{Crawl: m.Crawl, Number: i, Count: len(k.dirs), Kind: k.kind}
			if err := disk.WriteIdentity(r.opt.FS, dir, id); err != nil {
				return fmt.Errorf("backup: %w", err)
			}
		}
	}
	for _, dir := range slices.Concat(r.opt.Out, r.opt.Dirs) {
		if err := r.opt.FS.Remove(path.Join(dir, markerName)); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	for _, dir := range slices.Concat(r.opt.Out, r.opt.Dirs) {
		if err := r.opt.FS.SyncDir(dir); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

// openOutput returns the names of the output files that a manifest has as not finished.
func openOutput(m *state.Manifest) (names []string, err error) {
	var all []outfile.Volume
	pages, err := state.Part[warc.State](m, state.NameWARC)
	if err != nil {
		return nil, err
	}
	if pages != nil {
		all = pages.Files.Volumes
	}
	for _, name := range []string{state.NameCrawlLog, state.NameSeedLog, state.NameRobotsLog} {
		st, err := state.Part[crawllog.State](m, name)
		if err != nil {
			return nil, err
		}
		if st != nil {
			all = append(all, st.Files.Volumes...)
		}
	}
	for i := range all {
		if !all[i].Closed {
			names = append(names, all[i].Name)
		}
	}
	return names, nil
}

// place is a piece of a pack and its file.
type placed struct {
	file  *listed
	piece *piece
}

// eachPack reads the packs of a list one by one and calls fn with each piece, after its checksum was compared: in the
// order in which the packs were put, so that later bytes come last.
func eachPack(ctx context.Context, p Place, l *list, progress func(read, total int64),
	fn func(f *listed, p *piece, data []byte) error) error {
	in, total, read := make([][]placed, len(l.Packs)), int64(0), int64(0)
	for i := range l.Files {
		f := &l.Files[i]
		for n := range f.Pieces {
			in[f.Pieces[n].Pack] = append(in[f.Pieces[n].Pack], placed{f, &f.Pieces[n]})
		}
	}
	for i := range l.Packs {
		total += l.Packs[i].Bytes
	}
	for i := range l.Packs {
		name := p.String() + "/" + l.Packs[i].Name
		data, err := p.Get(ctx, l.Packs[i].Name, packBytes)
		if err != nil {
			return err
		}
		if int64(len(data)) != l.Packs[i].Bytes {
			return &disk.CorruptError{Path: name, Want: fmt.Sprintf("%d bytes", l.Packs[i].Bytes),
				Got: fmt.Sprintf("%d bytes", len(data))}
		}
		for _, x := range in[i] {
			part := data[x.piece.Off : x.piece.Off+x.piece.N]
			if sum := xxhash.Sum64(part); sum != x.piece.Sum {
				return &disk.CorruptError{Path: name, Offset: x.piece.Off,
					Want: fmt.Sprintf("checksum %016x of %s", x.piece.Sum, x.file.Name), Got: fmt.Sprintf("%016x", sum)}
			}
			if err := fn(x.file, x.piece, part); err != nil {
				return err
			}
		}
		if read += int64(len(data)); progress != nil {
			progress(read, total)
		}
	}
	return nil
}
