package crawllog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Change says what Rewrite does with a line.
type Change int

// Changes of a line.
const (
	Keep   Change = iota
	Modify        // write the entry as the function has changed it
	Drop
)

// Rewritten is the result of a Rewrite.
type Rewritten struct {
	Files, Modified, Dropped int64 // files with other lines than before, and these lines
	// Closed are the volumes of the state, by name, that are complete files now: the next state must not name them.
	Closed map[string]bool
	// Tail are the lines that follow the last frame. They are in no file; the next state must refer to them.
	Tail []byte
}

// Rewriting describes a Rewrite.
type Rewriting struct {
	Dry    bool // write nothing
	Change func(*Entry) Change
	// Final, if set, is called for each file with its final name, and calls rewrite, or leaves the file as it is.
	Final func(dir int, file string, rewrite func() error) error
}

// Rewrite passes every line of a log to r.Change, and replaces the files in which a line changes, atomically and
// durably, under their names. Frames in which none changes keep their bytes. An unfinished file becomes a final
// one, but its unfinished form stays: the caller deletes it when no state names it. A repeated Rewrite continues an
// interrupted one, if r.Change decides alike about what it has changed. Memory: one frame.
func Rewrite(opt Options, st *State, r Rewriting) (*Rewritten, error) {
	out := &Rewritten{Closed: map[string]bool{}}
	fail := func(err error) error { return err }
	s, all, err := newScanner(&opt, st, nil, fail)
	if err != nil {
		return nil, fmt.Errorf("crawllog: rewrite: %w", err)
	}
	defer s.dec.Close()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("crawllog: rewrite: %w", err)
	}
	defer enc.Close()
	w := &rewriter{opt: &opt, s: s, enc: enc, change: r.Change, out: out, dry: r.Dry}
	for i := range all {
		c := &all[i]
		rewrite := func() error { return w.file(c) }
		if c.Final && r.Final != nil {
			err = r.Final(c.Dir, c.Name+suffix, rewrite)
		} else {
			err = rewrite()
		}
		if err != nil {
			return nil, fmt.Errorf("crawllog: rewrite %s: %w", all[i].Name, err)
		}
	}
	lines, err := disk.ReadTail(opt.State, st.Lines)
	if err == nil {
		out.Tail, _, err = w.lines(lines)
	}
	if err != nil {
		return nil, fmt.Errorf("crawllog: rewrite: %w", err)
	}
	return out, nil
}

// rewriter is the state of a Rewrite.
type rewriter struct {
	opt    *Options
	s      *scanner
	enc    *zstd.Encoder
	change func(*Entry) Change
	out    *Rewritten
	dry    bool
	packed []byte
}

// file rewrites a file, if a line changes.
func (w *rewriter) file(c *outfile.Content) (err error) {
	in := c.Streams[0]
	if in.Path == "" && in.Tail.Len == 0 {
		return nil
	}
	b, err := in.Open(w.opt.Set.FS, w.opt.State)
	if b != nil {
		defer b.Close()
	}
	if err != nil {
		return err
	}
	final := c.Final || in.Path != "" && !strings.HasSuffix(in.Path, outfile.OpenSuffix)
	var to *disk.Staged
	defer func() {
		if to != nil {
			to.Abort()
		}
	}()
	changed, kept := false, [][2]int64{} // offsets and lengths of the frames before the first change
	for off := int64(0); off < b.Size(); {
		n, err := w.s.load(b, off)
		if err != nil {
			return &disk.CorruptError{Path: in.Path, Offset: off, Want: "a zstd frame", Got: err.Error()}
		}
		text, differs, err := w.lines(w.s.text)
		if err != nil {
			return err
		}
		if differs && !changed {
			changed = true
			if !w.dry {
				if to, err = w.begin(c, b, kept); err != nil {
					return err
				}
			}
		}
		switch {
		case !changed:
			kept = appendSpan(kept, off, n)
		case w.dry:
		case !differs:
			_, err = to.Write(w.s.frame)
		case len(text) > 0:
			w.packed = w.enc.EncodeAll(text, w.packed[:0])
			_, err = to.Write(w.packed)
		}
		if err != nil {
			return err
		}
		off += n
	}
	if !changed {
		return nil
	}
	w.out.Files++
	if !final {
		w.out.Closed[c.Name] = true
	}
	if w.dry {
		return nil
	}
	if final {
		err = to.CopyMode(in.Path)
	}
	return end(to, err)
}

// end makes a file durable under its name, unless there was an error.
func end(to *disk.Staged, err error) error {
	if err == nil {
		err = to.End()
	}
	if err == nil {
		err = to.Rename()
	}
	return err
}

// appendSpan appends a span of bytes, or extends the last one.
func appendSpan(spans [][2]int64, off, n int64) [][2]int64 {
	if k := len(spans) - 1; k >= 0 && spans[k][0]+spans[k][1] == off {
		spans[k][1] += n
		return spans
	}
	return append(spans, [2]int64{off, n})
}

// begin begins the new file with the frames before the first change.
func (w *rewriter) begin(c *outfile.Content, b *outfile.Bytes, kept [][2]int64) (*disk.Staged, error) {
	to, err := disk.Stage(w.opt.Set.FS, w.opt.Set.Path(c.Dir, subdir, c.Name+suffix))
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 256<<10)
	for _, span := range kept {
		for at, left := span[0], span[1]; left > 0 && err == nil; {
			n := min(left, int64(len(buf)))
			if _, err = b.ReadAt(buf[:n], at); err == nil {
				_, err = to.Write(buf[:n])
			}
			at, left = at+n, left-n
		}
	}
	return to, err
}

// lines returns the lines of a text as they are from now on.
func (w *rewriter) lines(text []byte) (next []byte, differs bool, err error) {
	done := 0 // bytes of text that next has, once it differs
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n') + 1
		if n == 0 {
			return nil, false, errors.New("a line without an end")
		}
		var e Entry
		if err := e.UnmarshalJSON(text[at : at+n]); err != nil {
			return nil, false, fmt.Errorf("a line that is no entry: %w", err)
		}
		verdict := w.change(&e)
		if verdict != Keep {
			differs = true
			next = append(next, text[done:at]...)
			done = at + n
		}
		switch verdict {
		case Modify:
			w.out.Modified++
			next = e.Append(next)
		case Drop:
			w.out.Dropped++
		}
		at += n
	}
	return append(next, text[done:]...), differs, nil
}
