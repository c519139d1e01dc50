package disk

import (
	"context"
	"errors"
	"time"

	"drumbeat/disk"
)

// The operations of a Probe.
const (
	Write = opWrite
	Read  = opRead
	Mixed = opMixed
)

// A Probe measures the bare disks alongside another measurement on them, in the same run.
type Probe struct {
	all group
	// Notes describe the directories.
	Notes []string
	// Direct reports whether all of them support O_DIRECT.
	Direct bool
}

// NewProbe examines the directories and allocates buffers for chunks of up to largest bytes.
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

// Rates transfers the given bytes in total with each of ops in order, in chunks of one file, and returns
// the rates in bytes/s. It uses one directory after the other, like a user of the disks in round robin. It
// leaves no files.
func (p *Probe) Rates(ctx context.Context, ops []string, chunk int, bytes int64,
	direct bool) (rates []float64, err error) {
	defer func() { err = errors.Join(err, p.all.remove()) }()
	for _, op := range ops {
		moved, span := int64(0), time.Duration(0)
		for _, t := range p.all.targets {
			s := setting{way: way{op: op, chunk: chunk, streams: 1, direct: direct},
				bytes: bytes / int64(len(p.all.targets))}
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

// Close frees the buffers.
func (p *Probe) Close() { p.all.free() }
