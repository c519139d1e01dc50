package changes

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
)

// The limits of the file's size.
const (
	compactBytes = 1 << 20  // a journal with more bytes to drop is rewritten
	maxBytes     = 64 << 20 // a journal of more bytes takes no further change
	// reserve is the part of maxBytes that changes without lines have to themselves: an operator must be able to
	// pause a crawl or to block a site when seeds fill the journal. Such a change takes some 150 bytes, so there
	// is room for thousands.
	reserve = 1 << 20
)

// A FullError says that a change does not fit into the journal.
type FullError struct {
	Lines    bool  // the change has seeds or URLs, so the reserve is not for it
	Need     int64 // bytes of the change
	Room     int64 // bytes that such a change may have now
	Waiting  int   // changes whose lines have not been fed
	Unsaved  int   // changes whose lines have been fed since the last checkpoint
	LineSize int64 // bytes of these changes
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("the journal of changes has %s free, and this change needs %s",
		human.Bytes(e.Room), human.Bytes(e.Need))
	if !e.Lines {
		return text + ". Changes in force fill it. Write rules into the file of --blacklist or --rules, " +
			"and host delays and budgets into the file of --sites, and start the crawl again"
	}
	if e.Waiting+e.Unsaved == 0 {
		return text + ". Changes in force fill it. Give fewer lines at once, or add them to the file of " +
			"--seeds and start the crawl again"
	}
	return text + fmt.Sprintf(". It keeps %s of seeds and enqueued URLs: %s to feed, and %s fed since the "+
		"last checkpoint, which frees the space. Run drumbeat ctl checkpoint and try again, or give fewer "+
		"lines at once",
		human.Bytes(e.LineSize), human.Counted(e.Waiting, "change", "changes"),
		human.Counted(e.Unsaved, "change", "changes"))
}

// Saved notes that a durable checkpoint names seq as the last change whose lines have been fed. So no crash feeds
// these lines again. Tidy gives their room back.
func (j *Journal) Saved(seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = false
	n := 0
	for n < len(j.refs)-j.unfed && j.refs[n].seq <= seq {
		j.refBytes -= j.refs[n].bytes + 1
		n++
	}
	j.refs = j.refs[n:]
}

// Tidy rewrites the journal if that gives back a MiB or more. It takes up to a second, in which changes wait, but
// no other method does. After an error the journal is as it was, if it still takes changes, and Tidy does nothing
// until Saved.
func (j *Journal) Tidy() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.tidy(compactBytes)
}

// tidy rewrites the journal if that may give back least bytes. The caller holds writing.
func (j *Journal) tidy(least int64) error {
	j.mu.Lock()
	worth := j.broken == nil && !j.failed && (j.size-j.refBytes >= j.rest+least || j.held > 0 && j.oldest() > j.held)
	j.mu.Unlock()
	if !worth {
		return nil
	}
	if err := j.compact(); err != nil {
		j.mu.Lock()
		j.failed = true
		j.mu.Unlock()
		return fmt.Errorf("changes: rewrite %s: %w", j.name, err)
	}
	return nil
}

// oldest returns the number of the first change whose lines the journal must keep. The caller holds mu.
func (j *Journal) oldest() int64 {
	if len(j.refs) == 0 {
		return j.seq + 1
	}
	return j.refs[0].seq
}

// compact rewrites the journal: the settings before the last changes, those changes, and all from the first one
// whose lines it must keep. After a crash there is either the old or the new file. The caller holds writing, so
// only refs may change meanwhile, and become fewer.
func (j *Journal) compact() error {
	j.mu.Lock()
	refs, first, held := j.refs, j.seq-kept, int64(0)
	if oldest := j.oldest(); oldest <= first {
		first, held = oldest-1, oldest
	}
	j.mu.Unlock()
	to, err := disk.Stage(j.fsys, j.name)
	if err != nil {
		return err
	}
	defer to.Abort()
	moved, err := j.copyTo(to, first, refs)
	if err == nil {
		err = to.End()
	}
	if err != nil {
		return err
	}
	size := to.Size()
	err = to.Rename()
	var file disk.File
	if err == nil {
		file, err = j.fsys.Open(j.name)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil { // the name may be that of either file, so no change can be added durably
		j.broken = err
		return err
	}
	old := j.file
	j.file, j.size, j.held = file, size, held
	j.refs = moved[len(moved)-len(j.refs):]
	j.refBytes = 0
	for i := range j.refs {
		j.refBytes += j.refs[i].bytes + 1
	}
	j.rest = j.size - j.refBytes
	return old.Close()
}

// copyTo writes the new journal and returns the places of refs in it. first is the last change that the settings at
// its beginning include.
func (j *Journal) copyTo(to *disk.Staged, first int64, refs []seedRef) (moved []seedRef, err error) {
	old := &Journal{}
	old.settings.Store(&Settings{})
	head := Change{Op: opSettings, Seq: j.seq}
	begin := func(seq int64, now time.Time) error {
		if head.Settings != nil {
			return nil
		}
		if head.Seq, head.Settings = seq, old.settings.Load(); head.Time.IsZero() {
			head.Time = now
		}
		_, err := to.Write(encode([]byte(header), &head))
		return err
	}
	from := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, j.size), 1<<16)
	_, err = from.Discard(len(header))
	for at := int64(len(header)); err == nil && at < j.size; {
		var line []byte
		if line, err = from.ReadBytes('\n'); err != nil {
			break
		}
		offset, text := at, line[:len(line)-1]
		at += int64(len(line))
		var c *Change
		switch waits := len(refs) > len(moved) && refs[len(moved)].offset == offset; {
		case waits: // most of a large journal, so it is not decoded, which takes 10 ms a MiB
			ref := refs[len(moved)]
			if _, err = bodyOf(text); err == nil {
				err = begin(ref.seq-1, time.Time{})
			}
			ref.offset = to.Size()
			moved = append(moved, ref)
		default:
			if c, err = decode(text); err != nil {
				break
			}
			if c.Op == opSettings || c.Seq <= first {
				head.Time = c.Time
				err = old.take(c, 0, 0, c.Seq)
				continue
			}
			if err = begin(c.Seq-1, c.Time); c.Seeds != nil {
				c.Seeds = nil
				line = encode(line[:0], c)
			}
		}
		if err == nil {
			_, err = to.Write(line)
		}
	}
	if err == nil {
		err = begin(j.seq, time.Time{})
	}
	return moved, err
}
