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

const (
	header   = "drumbeat-changes 1\n" // the first line of the file
	sumBytes = 16                     // hex digits of a line's checksum
	kept     = 1000                   // changes that Last returns, and that outlive a new beginning
)

// Journal is the file of changes. It is safe for concurrent use.
type Journal struct {
	fsys disk.FS
	name string
	most int64 // maxBytes; tests have less

	settings atomic.Pointer[Settings] // never changed in place

	writing sync.Mutex // held while the file is written or read, which takes long; above mu

	mu   sync.Mutex // guards all fields below, and is held for microseconds
	file disk.File  // file, size and seq change with both locks held
	size int64
	seq  int64
	last []Change // the last changes, without the lines of seeds
	// refs are the changes whose lines the journal must keep, oldest first: those fed since the last checkpoint, as
	// a crash feeds them again, and then unfed ones that wait.
	refs     []seedRef
	unfed    int
	refBytes int64 // bytes of refs in the file
	rest     int64 // size without refBytes when the journal was last rewritten
	held     int64 // the change that then kept older ones than kept from being dropped; 0 for none
	failed   bool  // the journal could not be rewritten since the last Saved
	broken   error // a write failed: the file's end is unknown
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
	j := &Journal{fsys: fsys, name: name, most: maxBytes}
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
	if err := j.openFile(); err != nil {
		return nil, err
	}
	if j.size > compactBytes {
		if err := j.compact(); err != nil {
			return nil, fmt.Errorf("changes: rewrite %s: %w", name, errors.Join(err, j.file.Close()))
		}
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
		return &disk.CorruptError{Path: j.name, Want: strings.TrimSpace(header), Got: "the first line is wrong"}
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
		j.refs = append(j.refs, refTo(c, offset, n))
		j.unfed++
		j.refBytes += n + 1
	}
	if c.Op != opSettings {
		short := *c
		short.Seeds, short.Rules = nil, nil
		j.last = append(j.last, short)
		if len(j.last) >= 2*kept {
			j.last = slices.Clone(j.last[len(j.last)-kept:])
		}
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file == nil {
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
	j.writing.Lock()
	defer j.writing.Unlock()
	if _, err := j.Try(c); err != nil {
		return c, err
	}
	line, full, err := j.line(&c, now)
	if err != nil {
		return c, errors.Join(full, err)
	}
	j.mu.Lock()
	broken := j.broken
	j.mu.Unlock()
	if broken != nil {
		return c, fmt.Errorf("changes: an earlier write failed: %w", broken)
	}
	if full != nil {
		return c, full
	}
	if err := j.create(); err != nil {
		return c, err
	}
	return c, j.write(&c, line)
}

// Fits returns the error that Append would return for the change, but for failures of the disk.
func (j *Journal) Fits(c Change) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if _, err := j.Try(c); err != nil {
		return err
	}
	_, full, err := j.line(&c, longTime)
	return errors.Join(full, err)
}

// longTime has the longest text.
var longTime = time.Date(2000, 1, 1, 0, 0, 0, int(111*time.Millisecond), time.UTC)

// line completes a change, and returns its line. full is a *FullError if it does not fit into the journal, even when
// that is rewritten. The caller holds writing.
func (j *Journal) line(c *Change, now time.Time) (line []byte, full, err error) {
	c.Seq, c.Time, c.Count = j.seq+1, now.UTC().Truncate(time.Millisecond), len(c.Seeds)+len(c.Rules)
	line = encode(nil, c)
	if full = j.fits(c, int64(len(line))); full != nil {
		if err = j.tidy(min(int64(len(line)), compactBytes/4)); err == nil {
			full = j.fits(c, int64(len(line)))
		}
	}
	return line, full, err
}

// fits returns a *FullError if a change of n bytes does not fit.
func (j *Journal) fits(c *Change, n int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := &FullError{Lines: c.hasSeeds(), Need: n, Room: j.most - j.size, Waiting: j.unfed,
		Unsaved: len(j.refs) - j.unfed, LineSize: j.refBytes}
	if e.Lines {
		e.Room -= reserve
	}
	if n <= e.Room {
		return nil
	}
	return e
}

// write writes the line of a change and takes it. The caller holds writing.
func (j *Journal) write(c *Change, line []byte) error {
	_, err := j.file.WriteAt(line, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if cut := j.file.Truncate(j.size); cut != nil {
			j.broken = errors.Join(err, cut)
		}
		return fmt.Errorf("changes: write %s: %w", j.name, err)
	}
	offset := j.size
	j.size += int64(len(line))
	if err := j.take(c, offset, int64(len(line))-1, c.Seq-1); err != nil {
		panic(fmt.Sprintf("BUG: changes: a checked change is refused: %v", err))
	}
	return nil
}

// Last returns the last changes, newest first, at most n. They have no Seeds and no Rules.
func (j *Journal) Last(n int) []Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := slices.Clone(j.last[max(0, len(j.last)-min(n, kept)):])
	slices.Reverse(out)
	return out
}

// NextSeeds returns the oldest change with seeds that have not been fed; false if there is none. The caller calls
// Fed when it has fed them. One goroutine at a time may use the two.
func (j *Journal) NextSeeds() (c *Change, ok bool, err error) {
	if !j.SeedsLeft() {
		return nil, false, nil
	}
	j.writing.Lock() // the place in the file does not change
	defer j.writing.Unlock()
	j.mu.Lock()
	ref := j.refs[len(j.refs)-j.unfed]
	j.mu.Unlock()
	line := make([]byte, ref.bytes)
	if err := disk.ReadFull(j.file, line, ref.offset); err != nil {
		return nil, false, fmt.Errorf("changes: read %s: %w", j.name, err)
	}
	if c, err = decode(line); err != nil || c.Seq != ref.seq {
		return nil, false, &disk.CorruptError{Path: j.name, Offset: ref.offset, Want: fmt.Sprintf("change %d", ref.seq),
			Got: fmt.Sprint(err)}
	}
	return c, true, nil
}

// Fed notes that the seeds of NextSeeds have been fed. The file keeps them until Saved.
func (j *Journal) Fed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unfed--
}

// SeedsLeft reports whether seeds have not been fed.
func (j *Journal) SeedsLeft() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unfed > 0
}

// Enqueued returns the number of URLs of OpEnqueue that have not been fed.
func (j *Journal) Enqueued() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.refs) - j.unfed; i < len(j.refs); i++ {
		n += j.refs[i].enqueued
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

// bodyOf returns the JSON text of a line, which is without its line feed.
func bodyOf(line []byte) ([]byte, error) {
	if len(line) < sumBytes+1 || line[sumBytes] != ' ' {
		return nil, errors.New("the line has no checksum")
	}
	sum, err := strconv.ParseUint(string(line[:sumBytes]), 16, 64)
	if body := line[sumBytes+1:]; err == nil && sum == xxhash.Sum64(body) {
		return body, nil
	}
	return nil, errors.New("the checksum is wrong")
}

// decode reads a line without its line feed.
func decode(line []byte) (*Change, error) {
	body, err := bodyOf(line)
	if err != nil {
		return nil, err
	}
	c := new(Change)
	if err := json.Unmarshal(body, c); err != nil {
		return nil, err
	}
	return c, nil
}
