package drum

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Bounds of the numbers in a state, so that sums cannot overflow: files of 1 PiB, 2^44 tuples, more
// generations than any crawl needs.
const (
	maxStateBytes  = 1 << 50
	maxStateTuples = 1 << 44
	maxStateGen    = 1 << 56
	maxStateValue  = 1 << 31
	maxBuckets     = 1 << 20
)

// check verifies what Open and ScanState rely on. dirs is the number of directories. The manifest's
// checksum proves only that the state is as written.
func (st *State) check(dirs int) error {
	if st.V < leastStateVersion || st.V > stateVersion {
		return fmt.Errorf("state has version %d, this program reads %d", st.V, stateVersion)
	}
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok && len(errs) < 10 {
			errs = append(errs, fmt.Errorf("state has "+format, args...))
		}
	}
	need(st.Buckets >= 1 && st.Buckets <= maxBuckets && bits.OnesCount(uint(st.Buckets)) == 1, "%d buckets", st.Buckets)
	need(st.ValueBytes >= variableValues && st.ValueBytes < maxStateValue && st.Op <= CheckUpdate && st.Aux <= AuxLog &&
		(st.Aux != AuxLog || st.ValueBytes == 0 && st.Op == CheckUpdate),
		"values of %d bytes, operation %d, aux mode %d", st.ValueBytes, st.Op, st.Aux)
	need(st.Gen < maxStateGen, "generation %d", st.Gen)
	need(st.Unstreamed >= 0, "%d texts unstreamed", st.Unstreamed)

	dirOf := map[uint64]int{}
	// one reports whether a part is possible, and all parts of its file are in one directory.
	one := func(ps *PartState) bool {
		dir, known := dirOf[ps.Gen]
		dirOf[ps.Gen] = ps.Dir
		return ps.possible(st, dirs) && (!known || dir == ps.Dir)
	}
	parts := map[int]bool{}
	for i := range st.Parts {
		ps := &st.Parts[i]
		need(one(ps) && ps.possibleLate(st) && !parts[ps.Bucket], "an invalid part %+v", *ps)
		parts[ps.Bucket] = true
	}
	inputs := map[inputSlot]bool{}
	for i := range st.Inputs {
		is := &st.Inputs[i]
		slot := inputSlot{number: is.Bucket, sealed: is.Sealed}
		need(is.possible(st, dirs) && !inputs[slot], "an invalid input %+v", *is)
		inputs[slot] = true
	}
	logs := map[inputSlot]bool{}
	for i := range st.Logs {
		ls := &st.Logs[i]
		slot := inputSlot{number: ls.Dir, sealed: ls.Sealed}
		need(ls.possible(st, dirs) && !logs[slot], "an invalid log %+v", *ls)
		logs[slot] = true
	}
	for i := range st.Uniques {
		us := &st.Uniques[i]
		need((us.inState() || one(&us.PartState)) && logs[inputSlot{number: us.Log, sealed: true}],
			"an invalid list %+v", *us)
	}
	need(st.Fills < maxStateGen, "filling %d", st.Fills)
	files := map[int]bool{}
	for i := range st.Buffered {
		bs := &st.Buffered[i]
		need(bs.possible(st, dirs) && !files[bs.Dir], "an invalid file of buffers %+v", *bs)
		files[bs.Dir] = true
	}
	return errors.Join(errs...)
}

// inState reports whether a list is whole in the state.
func (us *UniqueState) inState() bool {
	return len(us.Numbers) > 0 && us.Gen == 0 && len(us.Numbers) <= fewNumbers && slices.IsSorted(us.Numbers)
}

// inputSlot identifies a bucket's input or a directory's log.
type inputSlot struct {
	number int
	sealed bool
}

// possible reports whether a file of buffers can exist.
func (bs *BufferState) possible(st *State, dirs int) bool {
	return bs.Dir >= 0 && bs.Dir < dirs && bs.Gen > 0 && bs.Gen <= st.Gen &&
		bs.Bytes >= pageBytes && bs.Bytes < maxStateBytes && bs.Bytes%pageBytes == 0
}

// possible reports whether a part can exist. A key takes at least one bit.
func (ps *PartState) possible(st *State, dirs int) bool {
	return ps.Bucket >= 0 && ps.Bucket < st.Buckets && ps.Gen > 0 && ps.Gen <= st.Gen &&
		ps.Offset%pageBytes == 0 && ps.Offset < maxStateBytes && ps.Bytes < maxStateBytes &&
		ps.Keys <= 8*ps.Bytes && checkPart(ps.part(), dirs) == nil
}

// possible reports whether an input can exist.
func (is *InputState) possible(st *State, dirs int) bool {
	return is.Bucket >= 0 && is.Bucket < st.Buckets && is.Dir >= 0 && is.Dir < dirs &&
		is.Tuples > 0 && is.Tuples < maxStateTuples && is.Values >= 0 && is.Values < maxStateBytes &&
		is.Bytes >= 0 && is.Bytes < maxStateBytes && is.Keys.possible(st, is.Sealed) && is.Aux.possible(st, is.Sealed)
}

// possible reports whether a text log can exist.
func (ls *LogState) possible(st *State, dirs int) bool {
	return st.Aux == AuxLog && ls.Dir >= 0 && ls.Dir < dirs && ls.Next < maxStateTuples &&
		uint64(ls.Buffered) <= ls.Next && ls.Text.possible(st, ls.Sealed)
}

// possible reports whether a stream can exist. Only a sealed one can be partly read.
func (s *StreamState) possible(st *State, sealed bool) bool {
	return s.Gen <= st.Gen && s.Bytes >= 0 && s.Bytes < maxStateBytes && s.Bytes%pageBytes == 0 &&
		(s.Gen > 0 || s.Bytes == 0) &&
		s.At >= 0 && s.At <= s.Bytes && s.At%pageBytes == 0 && (sealed || s.At == 0 && s.Record == 0) &&
		s.Fill <= st.Fills && s.Buffered >= 0 && s.Buffered <= maxRawBytes && (s.Fill > 0) == (s.Buffered > 0)
}
