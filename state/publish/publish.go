package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Options say what to publish, and where to.
type Options struct {
	FS disk.FS // nil: the machine's
	// Dirs are all directories of the crawl, in any order, Out its output directories, if it has separate ones.
	Dirs, Out []string
	Target    string // must not exist
	TempDir   string // on the same file system
	// Name is the name of the crawl in paths; "": DRUMBEAT, year and week of the checkpoint.
	Name     string
	NoTexts  bool  // no WET, no WAT, and no content_languages
	RAMBytes int64 // 0: 256 MiB; of the heap
	// FileBytes is the size of a published WARC file that is full; 0, and the most: 2 GB.
	FileBytes int64
	// RecordBytes is the length of the longest record that the indexes have; 0, and the most: 2 GiB - 1.
	RecordBytes int64
	Software    string // for warcinfo records
	// Begin, if set, is called before anything is written.
	Begin func(*Report)
	// Progress, if set, is called from another goroutine every ProgressEvery (0 means 1 s), and at the end.
	Progress      func(state.Progress)
	ProgressEvery time.Duration
}

const (
	// workerBytes is the RAM of a worker that reads hostile pages: 140 MB of heap were measured for one, with garbage.
	workerBytes     = 96 << 20
	defaultRAMBytes = 256 << 20
	maxTries        = 20 // of opening the files of a running crawl before it makes the next checkpoint
	// segmentVolumes is the number of WARC files in a segment: Common Crawl has about as many.
	segmentVolumes = 1000
)

// Report says what Run wrote.
type Report struct {
	Crawl      string
	Checkpoint uint64
	Time       time.Time // of the checkpoint
	Activity   string    // of the crawl, see state.Reader
	Name       string
	Workers    int
	Volumes    int   // WARC files of the crawl
	Kept       int   // whose files an earlier Run has made
	Read       int64 // bytes of the others
	Replaced   string
	Captures   [numSubsets]int64 // responses by subset; texts of wet
	Long       int64             // captures of more than 2 GiB, which the indexes leave out
	Files      int
	Bytes      int64
	Notes      []string // what is missing
}

// Errors of Run about its directories.
var (
	ErrExists = errors.New("it exists: name another directory, or delete it")
	ErrName   = errors.New("want up to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit")
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns ErrName if a crawl cannot be published under a name.
func CheckName(name string) error {
	if !goodName.MatchString(name) {
		return fmt.Errorf("%.100q: %w", name, ErrName)
	}
	return nil
}

// job is one Run.
type job struct {
	*state.Reader
	opt   *Options
	meter *state.ProgressMeter
	warc  *warc.State
	// icann and all are the suffix list of the crawl without and with the suffixes of private registries.
	icann, all *weburl.Suffixes
	seed       string // of record ids

	mu     sync.Mutex // guards report
	report *Report
}

// Run publishes a crawl. It ends early if ctx is done; complete files stay in TempDir.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultRAMBytes
	}
	if opt.FileBytes <= 0 || opt.FileBytes > maxFileBytes {
		opt.FileBytes = maxFileBytes
	}
	if opt.RecordBytes <= 0 || opt.RecordBytes > maxRecord {
		opt.RecordBytes = maxRecord
	}
	if len(opt.Dirs) == 0 {
		return nil, errors.New("publish: no directory given")
	}
	if _, err := opt.FS.List(opt.Target); err == nil || !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = ErrExists
		}
		return nil, fmt.Errorf("publish: %s: %w", opt.Target, err)
	}
	for range maxTries {
		j, err := open(&opt)
		if err != nil {
			return nil, err
		}
		same, err := j.Same()
		if err == nil && same {
			err = j.run(ctx)
		}
		j.Close()
		if err != nil || same {
			return j.report, err
		}
	}
	return nil,
		fmt.Errorf("publish: %s: the crawl made a new checkpoint each of the %d times that its files were opened",
			opt.Dirs[0], maxTries)
}

// open opens the files of the last checkpoint.
func open(opt *Options) (*job, error) {
	r, err := state.OpenReader(opt.FS, opt.Dirs, opt.Out)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	j := &job{Reader: r, opt: opt, seed: m.Crawl, report: &Report{Crawl: m.Crawl, Checkpoint: m.Gen, Name: opt.Name,
		Time: time.Unix(m.Time, 0).UTC(), Activity: r.Activity()}}
	if j.report.Name == "" {
		year, week := j.report.Time.ISOWeek()
		j.report.Name = fmt.Sprintf("DRUMBEAT-%d-%02d", year, week)
	}
	err = CheckName(j.report.Name)
	if err == nil {
		err = j.pin()
	}
	if err == nil {
		j.icann, j.all, err = bothSuffixes(r.Suffixes)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return j, nil
}

// pin keeps the files that the crawl may rename readable, and the list of the others as it is.
func (j *job) pin() (err error) {
	all := false
	if j.warc, all, err = j.PinWARC(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if !all {
		j.note("the crawl has more open files than this process may have (ulimit -n); " +
			"the command fails if the crawl renames one of them meanwhile")
	}
	return nil
}

func (j *job) note(format string, args ...any) {
	j.report.Notes = append(j.report.Notes, fmt.Sprintf(format, args...))
}

// volumes lists the WARC files that are there. Each needs its index.
func (j *job) volumes() (list []*warc.Volume, err error) {
	without, moved := "", int64(0)
	err = warc.EachVolume(j.WARCFiles(), j.warc, func(v *warc.Volume) error {
		switch {
		case !v.HasData():
			moved++
		case !v.HasIndex():
			without = v.File()
		default:
			list = append(list, v)
		}
		return nil
	})
	if err == nil && without != "" {
		err = fmt.Errorf("publish: %s is without an index: move back its .cdxj file, or move both away", without)
	}
	if moved > 0 {
		j.note("%s moved away: their records are missing", human.Counted(moved, "WARC file was", "WARC files were"))
	}
	return list, err
}

func (j *job) run(ctx context.Context) (err error) {
	if err := j.opt.FS.MkdirAll(j.opt.TempDir); err != nil {
		return fmt.Errorf("publish: make %s: %w", j.opt.TempDir, err)
	}
	lock, err := j.opt.FS.Lock(j.opt.TempDir)
	if err != nil {
		if errors.Is(err, disk.ErrLocked) {
			err = disk.ErrLocked // its directory is none of a crawl
		}
		return fmt.Errorf("publish: another process uses %s: %w", j.opt.TempDir, err)
	}
	defer func() {
		if err == nil { // the tree has its name, so what is left is of no use
			err = removeTree(j.opt.FS, j.opt.TempDir)
		} else { // which leaves what is not empty
			_ = j.opt.FS.Remove(disk.LockPath(j.opt.TempDir))
			_ = j.opt.FS.Remove(j.opt.TempDir)
		}
		err = errors.Join(err, lock.Close())
	}()
	list, err := j.volumes()
	if err == nil {
		err = j.begin(list)
	}
	if err == nil {
		err = j.opt.FS.MkdirAll(j.opt.TempDir + "/" + volumesDir)
	}
	if err != nil {
		return err
	}
	j.report.Volumes = len(list)
	j.report.Workers = max(1, min(int(j.opt.RAMBytes/workerBytes), runtime.GOMAXPROCS(0), len(list)))
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	j.meter = j.StartProgress(j.opt.Progress, j.opt.ProgressEvery, "warc")
	defer j.meter.End()
	j.meter.Set("WARC files")
	j.meter.Add(0)
	parts, err := j.split(ctx, list)
	if err == nil {
		err = j.RemoteFailed()
	}
	if err != nil {
		return err
	}
	if n := j.report.Long; n > 0 {
		j.note("%s of more than %s: the indexes leave %s out", human.Counted(n, "record", "records"),
			human.Bytes(j.opt.RecordBytes),
			map[bool]string{true: "it", false: "them"}[n == 1])
	}
	j.meter.Set("index")
	files, err := j.index(ctx, parts)
	if err != nil {
		return err
	}
	hosts, err := j.hosts(ctx, parts)
	if err == nil {
		err = j.finish(slices.Concat(files, hosts, filesOf(parts)))
	}
	j.meter.Complete()
	return err
}

// settings is the content of publish.json: what the files in TempDir are made of.
type settings struct {
	Version    int    `json:"version"`
	Crawl      string `json:"crawl"`
	Checkpoint uint64 `json:"checkpoint"`
	Name       string `json:"name"`
	NoTexts    bool   `json:"no_texts"`
	FileBytes  int64  `json:"file_bytes"`
	Record     int64  `json:"record_bytes"`
	Software   string `json:"software"`
	// Volumes is the SHA-256 of the names of the WARC files: those that are moved away between two Runs must not stay
	// in the tree, and the segments of the others depend on them.
	Volumes string `json:"volumes"`
}

// settingsVersion rises when the same crawl would give other bytes.
const (
	settingsVersion = 5
	settingsName    = "publish.json"
)

// begin leaves in TempDir only what an earlier Run with these settings has made.
func (j *job) begin(list []*warc.Volume) error {
	fsys, name := j.opt.FS, j.opt.TempDir+"/"+settingsName
	sum := sha256.New()
	for _, v := range list {
		fmt.Fprintln(sum, v.File())
	}
	want := settings{settingsVersion, j.report.Crawl, j.report.Checkpoint, j.report.Name, j.opt.NoTexts,
		j.opt.FileBytes, j.opt.RecordBytes, j.opt.Software, hex.EncodeToString(sum.Sum(nil))}
	data, err := disk.ReadFile(fsys, name)
	if err == nil {
		var got settings
		if json.Unmarshal(data, &got) == nil && got == want {
			return nil
		}
		j.report.Replaced = fmt.Sprintf("checkpoint %d of crawl %s as %s", got.Checkpoint, got.Crawl, got.Name)
		for _, dir := range []string{treeDir, volumesDir} {
			if err := removeTree(fsys, j.opt.TempDir+"/"+dir); err != nil {
				return err
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("publish: read %s: %w", name, err)
	}
	names, err := fsys.List(j.opt.TempDir)
	if err != nil {
		return fmt.Errorf("publish: list %s: %w", j.opt.TempDir, err)
	}
	for _, n := range names {
		if n := j.opt.TempDir + "/" + n; n != disk.LockPath(j.opt.TempDir) && n != name && n != name+".tmp" {
			return fmt.Errorf("publish: %s holds something else: %w", n, ErrExists)
		}
	}
	if data, err = json.Marshal(&want); err == nil {
		err = disk.WriteFileAtomic(fsys, name, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// split makes the files of all WARC files that an earlier Run has not made.
func (j *job) split(ctx context.Context, list []*warc.Volume) ([]*part, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]*part, len(list))
	next := make(chan int)
	var workers sync.WaitGroup
	for range j.report.Workers {
		workers.Go(func() {
			defer bug.Fatal()
			for i := range next {
				var err error
				if parts[i], err = j.part(ctx, list[i], i/segmentVolumes); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < len(list) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return parts, context.Cause(ctx)
}

// removeTree deletes a directory, which need not exist, and what is in it.
func removeTree(fsys disk.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := 0; err == nil && i < len(names); i++ {
		name := dir + "/" + names[i]
		if _, e := fsys.List(name); e == nil {
			err = removeTree(fsys, name)
		} else {
			err = fsys.Remove(name)
		}
	}
	if err == nil {
		err = fsys.Remove(dir)
	}
	if err != nil {
		return fmt.Errorf("publish: remove %s: %w", dir, err)
	}
	return nil
}
