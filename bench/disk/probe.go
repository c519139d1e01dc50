package disk

import (
	"context"
	"errors"
	"time"

	"drumbeat/disk"
)

// What a Probe does with a file.
const (
	Write = opWrite
	Read  = opRead
	Mixed = opMixed
)

// A Probe measures the bare disks beside something else that uses them, in the same run.
type Probe struct {
	all group
	// Notes are what a reader must know of the directories.
	Notes []string
	// Direct says that the page cache can be passed by in all of them.
	Direct bool
}

// NewProbe looks at directories and takes buffers for chunks of largest bytes.
func NewProbe(dirs []string, largest int) (*Probe, error) {
	r := &diskRun{opt: Options{FS: disk.OS(), Dirs: dirs, Chunks: []int{largest}, Blocks: []int{largest}}}
	targets, err := r.openTargets()
	if err != nil {
		return nil, err
	}
	p := &Probe{all: group{"all", targets}, Notes: r.notes}
	p.Direct = p.all.direct()
	return p, nil
}

// Rates moves bytes in all, by each of ops in turn, in chunks of one file, and returns bytes a second. One
// directory comes after the other, as for something that goes round them and uses one at a time. Nothing is
// left.
func (p *Probe) Rates(ctx context.Context, ops []string, chunk int, bytes int64, direct bool) (rates []float64, err error) {
	defer func() { err = errors.Join(err, p.all.remove()) }()
	for _, op := range ops {
		moved, span := int64(0), time.Duration(0)
		for _, t := range p.all.targets {
			s := setting{way: way{op: op, chunk: chunk, streams: 1, direct: direct}, bytes: bytes / int64(len(p.all.targets))}
			s.bytes = max(s.bytes, 2*int64(chunk))
			n, d, err := t.do(ctx, s)
			if err != nil {
				return nil, err
			}
			moved, span = moved+n, span+d
		}
		rates = append(rates, float64(moved)/span.Seconds())
	}
	return rates, nil
}

// Close gives the buffers back.
func (p *Probe) Close() {
	for _, t := range p.all.targets {
		t.free()
	}
}
