package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// The first line of the file, and the sizes that bound it.
const (
	header       = "drumbeat-changes 1\n"
	sumBytes     = 16       // hex digits of a line's checksum
	compactBytes = 1 << 20  // a journal of more bytes begins anew when it is opened
	maxBytes     = 64 << 20 // a journal of more bytes takes no further change
	kept         = 1000     // changes that Last returns, and that outlive a new beginning
)

// A FullError says that the journal has reached its size limit.
type FullError struct{ Bytes int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("the journal of changes has %d bytes, which is the limit; it begins anew when the crawl starts again",
		e.Bytes)
}

// Journal is the file of changes. It is safe for concurrent use.
type Journal struct {
	fsys disk.FS
	name string

	settings atomic.Pointer[Settings] // never changed in place

	mu     sync.Mutex // guards all fields below
	file   disk.File
	size   int64
	seq    int64
	last   []Change  // the last changes, without the lines of seeds
	seeds  []seedRef // changes with seeds that have not been fed
	broken error     // a write failed: the file's end is unknown
}

// seedRef is the place of a change with seeds, or with enqueued URLs, in the file.
type seedRef struct {
	seq, offset, bytes int64
	enqueued           int // number of its URLs, if they are enqueued
}

// hasSeeds reports whether a change has lines to feed.
func (c *Change) hasSeeds() bool { return (c.Op == OpSeeds || c.Op == OpEnqueue) && len(c.Seeds) > 0 }

// refTo returns the place of a change with seeds.
func refTo(c *Change, offset, n int64) seedRef {
	r := seedRef{seq: c.Seq, offset: offset, bytes: n}
	if c.Op == OpEnqueue {
		r.enqueued = len(c.Seeds)
	}
	return r
}

// Open opens the journal with the given name, whose directory must exist. The first change creates the file.
// Seeds of changes up to fed have been fed. A torn last line is cut off. Any other damage is a
// *disk.CorruptError.
func Open(fsys disk.FS, name string, fed int64) (*Journal, error) {
	j := &Journal{fsys: fsys, name: name}
	j.settings.Store(&Settings{})
	data, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("changes: open: %w", err)
	}
	if err := j.read(data, fed); err != nil {
		return nil, err
	}
	if j.size > compactBytes {
		if err := j.compact(data); err != nil {
			return nil, fmt.Errorf("changes: begin %s anew: %w", name, err)
		}
	}
	if err := j.openFile(); err != nil {
		return nil, err
	}
	return j, nil
}

// Read returns the settings in a journal without changing it, as a running crawl may be writing to it. A
// missing file has empty settings.
func Read(fsys disk.FS, name string) (*Settings, error) {
	j := &Journal{fsys: fsys, name: name}
	j.settings.Store(&Settings{})
	data, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return j.Settings(), nil
	}
	if err == nil {
		err = j.read(data, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("changes: read: %w", err)
	}
	return j.Settings(), nil
}

// openFile opens the file for writing and cuts off a torn line.
func (j *Journal) openFile() (err error) {
	if j.file, err = j.fsys.Open(j.name); err != nil {
		return fmt.Errorf("changes: open: %w", err)
	}
	if err := j.file.Truncate(j.size); err != nil {
		return errors.Join(fmt.Errorf("changes: cut %s: %w", j.name, err), j.file.Close())
	}
	return nil
}

// create creates the file before the first change.
func (j *Journal) create() error {
	if j.file != nil {
		return nil
	}
	if err := disk.WriteFileAtomic(j.fsys, j.name, []byte(header)); err != nil {
		return fmt.Errorf("changes: create: %w", err)
	}
	j.size = int64(len(header))
	return j.openFile()
}

// read reads the content of the file.
func (j *Journal) read(data []byte, fed int64) error {
	corrupt := func(at int, why string) error {
		return &disk.CorruptError{Path: j.name, Offset: int64(at), Want: "a change", Got: why}
	}
	if !bytes.HasPrefix(data, []byte(header)) {
		return &disk.CorruptError{Path: j.name, Want: strings.TrimSpace(header), Got: "another first line"}
	}
	at := len(header)
	for at < len(data) {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			break // torn
		}
		c, err := decode(data[at : at+n])
		if err != nil {
			if at+n+1 == len(data) && !whole(data[at:at+n]) {
				break // torn: the length was durable before the bytes
			}
			return corrupt(at, err.Error())
		}
		if err := j.take(c, int64(at), int64(n), fed); err != nil {
			return corrupt(at, err.Error())
		}
		at += n + 1
	}
	j.size = int64(at)
	return nil
}

// take adds a change that is in the file.
func (j *Journal) take(c *Change, offset, n, fed int64) error {
	if c.Op != opSettings && c.Seq != j.seq+1 {
		return fmt.Errorf("change %d follows change %d", c.Seq, j.seq)
	}
	s, err := j.settings.Load().with(c)
	if err != nil {
		return err
	}
	j.seq = c.Seq
	j.settings.Store(s)
	if c.hasSeeds() && c.Seq > fed {
		j.seeds = append(j.seeds, refTo(c, offset, n))
	}
	if c.Op != opSettings {
		short := *c
		short.Seeds = nil
		j.last = append(j.last, short)
		if len(j.last) >= 2*kept {
			j.last = slices.Clone(j.last[len(j.last)-kept:])
		}
	}
	return nil
}

// compact writes the journal anew: the settings before the last changes, those changes, and seeds that have
// not been fed.
func (j *Journal) compact(data []byte) error {
	first := j.seq - kept
	if len(j.seeds) > 0 {
		first = min(first, j.seeds[0].seq-1)
	}
	old := &Journal{}
	old.settings.Store(&Settings{})
	var out []byte
	var refs []seedRef
	began := false
	for at := len(header); at < int(j.size); {
		n := bytes.IndexByte(data[at:], '\n')
		c, err := decode(data[at : at+n])
		if err != nil {
			return err
		}
		at += n + 1
		if c.Op == opSettings || c.Seq <= first {
			if err := old.take(c, 0, 0, c.Seq); err != nil {
				return err
			}
			continue
		}
		if !began {
			began = true
			out = encode(append(out, header...), &Change{Seq: c.Seq - 1, Time: c.Time, Op: opSettings, Settings: old.settings.Load()})
		}
		waits := len(j.seeds) > len(refs) && j.seeds[len(refs)].seq == c.Seq
		if !waits {
			c.Seeds = nil
		}
		from := int64(len(out))
		if out = encode(out, c); waits {
			refs = append(refs, refTo(c, from, int64(len(out))-from-1))
		}
	}
	if err := disk.WriteFileAtomic(j.fsys, j.name, out); err != nil {
		return err
	}
	j.size, j.seeds = int64(len(out)), refs
	return nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j == nil || j.file == nil {
		return nil
	}
	return j.file.Close()
}

// Settings returns the settings in force; those of the nil Journal are empty. The caller must not change them.
func (j *Journal) Settings() *Settings {
	if j == nil {
		return &Settings{}
	}
	return j.settings.Load()
}

// Try returns the settings as they would be after a change. The error is a *RefusedError.
func (j *Journal) Try(c Change) (*Settings, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return j.settings.Load().with(&c)
}

// Append adds a change and makes it durable. It sets Seq, Time and Count. The errors are *RefusedError,
// *FullError, and failures of the disk, after which the journal takes no further change.
func (j *Journal) Append(c Change, now time.Time) (Change, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return c, fmt.Errorf("changes: an earlier write failed: %w", j.broken)
	}
	if _, err := j.Try(c); err != nil {
		return c, err
	}
	c.Seq, c.Time, c.Count = j.seq+1, now.UTC().Truncate(time.Millisecond), len(c.Seeds)
	line := encode(nil, &c)
	if j.size+int64(len(line)) > maxBytes {
		return c, &FullError{j.size}
	}
	if err := j.create(); err != nil {
		return c, err
	}
	_, err := j.file.WriteAt(line, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		if cut := j.file.Truncate(j.size); cut != nil {
			j.broken = errors.Join(err, cut)
		}
		return c, fmt.Errorf("changes: write %s: %w", j.name, err)
	}
	offset := j.size
	j.size += int64(len(line))
	if err := j.take(&c, offset, int64(len(line))-1, c.Seq-1); err != nil {
		panic(fmt.Sprintf("BUG: changes: a checked change is refused: %v", err))
	}
	return c, nil
}

// Last returns the last changes, newest first, at most n. They have no Seeds.
func (j *Journal) Last(n int) []Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := slices.Clone(j.last[max(0, len(j.last)-min(n, kept)):])
	slices.Reverse(out)
	return out
}

// NextSeeds returns the oldest change with seeds that have not been fed; false if there is none. The caller
// calls Fed when it has fed them.
func (j *Journal) NextSeeds() (c *Change, ok bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.seeds) == 0 {
		return nil, false, nil
	}
	ref := j.seeds[0]
	line := make([]byte, ref.bytes)
	if err := disk.ReadFull(j.file, line, ref.offset); err != nil {
		return nil, false, fmt.Errorf("changes: read %s: %w", j.name, err)
	}
	if c, err = decode(line); err != nil || c.Seq != ref.seq {
		return nil, false, &disk.CorruptError{Path: j.name, Offset: ref.offset, Want: fmt.Sprintf("change %d", ref.seq), Got: fmt.Sprint(err)}
	}
	return c, true, nil
}

// Fed notes that the seeds of NextSeeds have been fed.
func (j *Journal) Fed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seeds = j.seeds[1:]
}

// SeedsLeft reports whether seeds have not been fed.
func (j *Journal) SeedsLeft() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.seeds) > 0
}

// Enqueued returns the number of URLs of OpEnqueue that have not been fed.
func (j *Journal) Enqueued() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.seeds {
		n += j.seeds[i].enqueued
	}
	return n
}

// encode appends a line: the checksum, a space, the JSON text and a line feed.
func encode(dst []byte, c *Change) []byte {
	body, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("BUG: changes: encode: %v", err))
	}
	dst = fmt.Appendf(dst, "%016x ", xxhash.Sum64(body))
	return append(append(dst, body...), '\n')
}

// whole reports whether a line with a wrong checksum begins with a whole change. Then it is not torn: the
// line feed behind that change is damaged.
func whole(line []byte) bool {
	if len(line) < sumBytes+1 {
		return false
	}
	body := line[sumBytes+1:]
	d := json.NewDecoder(bytes.NewReader(body))
	var v json.RawMessage
	return d.Decode(&v) == nil && d.InputOffset() < int64(len(body))
}

// decode reads a line without its line feed.
func decode(line []byte) (*Change, error) {
	if len(line) < sumBytes+1 || line[sumBytes] != ' ' {
		return nil, errors.New("the line has no checksum")
	}
	sum, err := strconv.ParseUint(string(line[:sumBytes]), 16, 64)
	if body := line[sumBytes+1:]; err != nil || sum != xxhash.Sum64(body) {
		return nil, errors.New("the checksum is wrong")
	}
	c := new(Change)
	if err := json.Unmarshal(line[sumBytes+1:], c); err != nil {
		return nil, err
	}
	return c, nil
}
