package history

import (
	"fmt"
	"slices"
	"time"

	"drumbeat/disk"
)

// The ages from which samples are a minute and ten minutes apart, in ms.
const (
	minutesAfter    = 2 * day
	tenMinutesAfter = 14 * day
)

// A file is joined with the next one of its level up to this size and share of Options.Bytes.
const (
	joinBytes = 512 << 10
	joinShare = 32
)

// maxEvents bounds the events of a file that was thinned. The last ones remain.
const maxEvents = 1000

// Thin makes old samples rarer and keeps the files within Options.Bytes. It rewrites at most a few files at a
// time. Call it from time to time; it is cheap when nothing is due.
func (w *Writer) Thin(now time.Time) error {
	ms := now.UnixMilli()
	for i := 0; i < len(w.files); i++ {
		f := &w.files[i]
		level := 0
		switch age := ms - f.end; {
		case age >= tenMinutesAfter:
			level = 2
		case age >= minutesAfter:
			level = 1
		}
		if f.start != unknown && f.level < level {
			if err := w.thin(i, level); err != nil {
				return err
			}
			i = -1 // the list has changed
		}
	}
	for w.Bytes() > w.opt.Bytes {
		i := w.densest(ms)
		if i < 0 {
			return nil // the open file alone exceeds the bound
		}
		if err := w.thin(i, w.files[i].level+1); err != nil {
			return err
		}
	}
	return nil
}

// densest returns the closed file whose samples are closest together for their age, -1 if there is none.
func (w *Writer) densest(ms int64) int {
	densest, most := -1, 0.0
	for i := range w.files {
		f := &w.files[i]
		if f.start == unknown {
			return i // it only takes space
		}
		interval := max(intervalOf(f.level), Interval.Milliseconds())
		if d := float64(max(ms-f.end, 1)) / float64(interval); d > most {
			densest, most = i, d
		}
	}
	return densest
}

// thin replaces a file by one of a higher level, joined with the file before it if both are small and of
// that level. Beyond the last level, and where it is damaged, it deletes the file.
func (w *Writer) thin(i, level int) error {
	old := w.files[i : i+1]
	if i > 0 && w.files[i-1].level == level && w.files[i-1].start != unknown &&
		w.files[i-1].size+w.files[i].size <= min(joinBytes, w.opt.Bytes/joinShare) {
		i--
		old = w.files[i : i+2]
	}
	if level > maxLevel {
		return w.replace(i, 1, nil)
	}
	made := file{first: old[0].first, last: old[len(old)-1].last, level: level}
	data, err := w.thinned(old, &made)
	if isDamage(err) {
		return w.replace(i, len(old), nil)
	} else if err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(w.opt.FS, w.path(&made), data); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return w.replace(i, len(old), &made)
}

// replace deletes n files from i on; made takes their place unless it is nil.
func (w *Writer) replace(i, n int, made *file) error {
	old := slices.Clone(w.files[i : i+n])
	w.files = slices.Delete(w.files, i, i+n)
	if made != nil {
		w.files = slices.Insert(w.files, i, *made)
	}
	for k := range old {
		if err := w.remove(old[k].name()); err != nil {
			return err
		}
	}
	return nil
}

// thinned returns the content of a file made from others: the last sample of each interval, and the events.
func (w *Writer) thinned(from []file, made *file) ([]byte, error) {
	t := thinner{interval: intervalOf(made.level)}
	for k := range from {
		d, err := load(w.opt.FS, w.opt.Dir, &from[k])
		if err != nil {
			return nil, err
		}
		if t.out == nil {
			made.start = d.start
			t.out = t.enc.begin(nil, made.first, d.start, max(t.interval, d.interval))
			t.skip = max(0, events(from, w)-maxEvents)
		}
		t.file(d)
		made.end = d.last
	}
	made.size = int64(len(t.out))
	return t.out, nil
}

// events returns the number of events in files. Those that cannot be read have none.
func events(files []file, w *Writer) (n int) {
	for k := range files {
		d, err := load(w.opt.FS, w.opt.Dir, &files[k])
		if err != nil {
			continue
		}
		var ev Event
		for it := d.next(&ev); it != itemEnd; it = d.next(&ev) {
			if it == itemEvent {
				n++
			}
		}
	}
	return n
}

// thinner copies the last sample of each interval.
type thinner struct {
	interval int64
	enc      encoder
	out      []byte
	skip     int // events to leave out

	held    bool // a sample that may be the last of its interval
	ms      int64
	columns []column
	values  []int64
}

// file copies the samples and events of a file.
func (t *thinner) file(d *decoder) {
	var ev Event
	changed := -1
	for {
		it := d.next(&ev)
		if t.held && (it != itemSample || d.changed != changed ||
			floor(d.last, t.interval) != floor(t.ms, t.interval)) {
			t.flush()
		}
		switch it {
		case itemEnd:
			return
		case itemEvent:
			if t.skip > 0 {
				t.skip--
				continue
			}
			t.out = t.enc.event(t.out, &ev)
		case itemSample:
			t.held, t.ms = true, d.last
			if d.changed != changed {
				t.columns, changed = slices.Clone(d.columns), d.changed
			}
			t.values = append(t.values[:0], d.values...)
		}
	}
}

// flush writes the sample that was held back.
func (t *thinner) flush() {
	t.out = t.enc.table(t.out, t.columns)
	t.out = t.enc.sample(t.out, t.ms, t.values)
	t.held = false
}

// floor returns the number of the interval that contains a time.
func floor(ms, interval int64) int64 {
	n := ms / interval
	if ms%interval < 0 {
		n--
	}
	return n
}
