package extsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
)

const (
	// MaxRecordBytes is the largest length of a record.
	MaxRecordBytes = 1 << 20

	leastRAMBytes = 4 << 20
	chunkBytes    = 1 << 20 // holds at least one record
	refBytes      = 24
	maxFanIn      = 64
	runPrefix     = "run-"
)

// Options are the settings of a Sorter.
type Options struct {
	FS       disk.FS
	Dir      string // of the runs; created when the first is written
	RAMBytes int64  // at least 4 MiB
}

// Sorter sorts records.
type Sorter struct {
	opt    Options
	fanIn  int
	chunks [][]byte // with capacity chunkBytes; the first used ones hold records
	used   int
	refs   []ref
	runs   []*run
	made   int // runs written so far
	enc    *zstd.Encoder
	dec    *zstd.Decoder
	block  []byte
	packed []byte

	next   int     // in refs, if all records are in RAM
	merged *merger // otherwise
	n      int64
}

// ref is the place of a record in chunks.
type ref struct {
	prefix          uint64 // first 8 bytes, big-endian
	chunk, off, len uint32
}

// New returns an empty Sorter.
func New(opt Options) *Sorter {
	opt.RAMBytes = max(opt.RAMBytes, leastRAMBytes)
	return &Sorter{opt: opt, fanIn: int(min(maxFanIn, max(4, opt.RAMBytes>>20)))}
}

// N returns the number of records added.
func (s *Sorter) N() int64 { return s.n }

// Add adds a copy of a record.
func (s *Sorter) Add(rec []byte) error {
	if len(rec) > MaxRecordBytes {
		return fmt.Errorf("extsort: record of %d bytes, at most %d are allowed", len(rec), MaxRecordBytes)
	}
	if s.used == 0 || len(s.chunks[s.used-1])+len(rec) > chunkBytes {
		full := int64(s.used+1)*chunkBytes+int64(len(s.refs))*refBytes > s.opt.RAMBytes
		if full && s.used > 0 {
			if err := s.spill(); err != nil {
				return err
			}
		}
		if s.used == len(s.chunks) {
			s.chunks = append(s.chunks, make([]byte, 0, chunkBytes))
		}
		s.used++
	}
	c := &s.chunks[s.used-1]
	r := ref{chunk: uint32(s.used - 1), off: uint32(len(*c)), len: uint32(len(rec)), prefix: prefixOf(rec)}
	*c = append(*c, rec...)
	s.refs = append(s.refs, r)
	s.n++
	return nil
}

func prefixOf(rec []byte) uint64 {
	if len(rec) >= 8 {
		return binary.BigEndian.Uint64(rec)
	}
	var b [8]byte
	copy(b[:], rec)
	return binary.BigEndian.Uint64(b[:])
}

func (s *Sorter) record(r ref) []byte { return s.chunks[r.chunk][r.off : r.off+r.len] }

func (s *Sorter) sortRAM() {
	slices.SortFunc(s.refs, func(a, b ref) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), bytes.Compare(s.record(a), s.record(b)))
	})
}

// spill writes the records in RAM as a run.
func (s *Sorter) spill() error {
	s.sortRAM()
	i := 0
	err := s.write(func() ([]byte, error) {
		if i == len(s.refs) {
			return nil, nil
		}
		i++
		return s.record(s.refs[i-1]), nil
	})
	s.refs = s.refs[:0]
	for i := range s.chunks {
		s.chunks[i] = s.chunks[i][:0]
	}
	s.used = 0
	return err
}

// write writes the records that next returns, until nil, as a run.
func (s *Sorter) write(next func() ([]byte, error)) error {
	if err := s.prepare(); err != nil {
		return fmt.Errorf("extsort: prepare %s: %w", s.opt.Dir, err)
	}
	name := fmt.Sprintf("%s/%s%05d", s.opt.Dir, runPrefix, s.made)
	f, err := s.opt.FS.Create(name)
	if err != nil {
		return fmt.Errorf("extsort: %w", err)
	}
	r := &run{s: s, f: f, name: name}
	s.made++
	s.runs = append(s.runs, r)
	s.block = s.block[:0]
	for {
		rec, err := next()
		if err != nil {
			return err
		}
		if rec == nil {
			break
		}
		s.block = binary.AppendUvarint(s.block, uint64(len(rec)))
		s.block = append(s.block, rec...)
		if len(s.block) >= blockBytes {
			if err := r.append(s.block); err != nil {
				return err
			}
			s.block = s.block[:0]
		}
	}
	if len(s.block) > 0 {
		return r.append(s.block)
	}
	return nil
}

// prepare makes the directory and removes the runs of a killed process.
func (s *Sorter) prepare() (err error) {
	if s.enc != nil {
		return nil
	}
	if err := s.opt.FS.MkdirAll(s.opt.Dir); err != nil {
		return err
	}
	names, err := s.opt.FS.List(s.opt.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, runPrefix) {
			if err := s.opt.FS.Remove(s.opt.Dir + "/" + name); err != nil {
				return err
			}
		}
	}
	s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(blockBytes))
	if err != nil {
		return err
	}
	s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4*MaxRecordBytes))
	return err
}

// Sort ends the input. Next returns the records after it.
func (s *Sorter) Sort() error {
	if len(s.runs) == 0 {
		s.sortRAM()
		return nil
	}
	if len(s.refs) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.refs, s.chunks = nil, nil // the merge needs the memory
	for len(s.runs) > s.fanIn {
		// The first step merges only as many runs as later steps, with all inputs, need.
		n := min(s.fanIn, max(2, (len(s.runs)-2)%(s.fanIn-1)+2))
		some := s.runs[:n]
		s.runs = slices.Clone(s.runs[n:])
		m, err := newMerger(some)
		if err == nil {
			err = s.write(m.next)
		}
		for _, r := range some {
			err = errors.Join(err, r.remove())
		}
		if err != nil {
			return err
		}
	}
	var err error
	s.merged, err = newMerger(s.runs)
	return err
}

// Next returns the next record, valid until the next call; nil after the last. Call it after Sort.
func (s *Sorter) Next() ([]byte, error) {
	if s.merged != nil {
		return s.merged.next()
	}
	if s.next == len(s.refs) {
		return nil, nil
	}
	s.next++
	return s.record(s.refs[s.next-1]), nil
}

// Rewind makes Next return all records again. Call it after Sort. It reads the runs again.
func (s *Sorter) Rewind() (err error) {
	if s.merged == nil {
		s.next = 0
		return nil
	}
	for _, r := range s.runs {
		r.off, r.rest, r.rec = 0, nil, nil
	}
	s.merged, err = newMerger(s.runs)
	return err
}

// Close frees memory and removes the runs. It may be called more than once.
func (s *Sorter) Close() error {
	var errs []error
	for _, r := range s.runs {
		errs = append(errs, r.remove())
	}
	if s.enc != nil {
		s.dec.Close()
		if names, err := s.opt.FS.List(s.opt.Dir); err == nil && len(names) == 0 {
			if err := s.opt.FS.Remove(s.opt.Dir); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	s.runs, s.refs, s.chunks, s.merged, s.enc, s.dec = nil, nil, nil, nil, nil, nil
	s.used, s.next = 0, 0
	return errors.Join(errs...)
}
