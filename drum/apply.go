package drum

// Action is the effect of Apply on a key's entry.
type Action uint8

const (
	// Keep leaves the entry unchanged, or absent.
	Keep Action = iota
	// Set stores the returned value, and inserts the entry if it was absent.
	Set
	// Expunge removes the entry.
	Expunge
)

// Item is one tuple of a run. Apply reads it and fills in its result.
type Item struct {
	// Op and Value are the tuple's. Apply must not change them.
	Op    Op
	Value []byte
	// New, Result and Out become fields of the tuple's Result. Out has at most OutBytes. It may come from
	// the Arena or be a part of any value that Apply gets. It is copied when Apply returns, so items may
	// share one.
	New    bool
	Result uint64
	Out    []byte
}

// Apply decides the fate of one key. old is the entry's value if exists. run holds the tuples for the key
// in order of arrival. Runs of a round are split at some thousand tuples; the next call then sees the
// outcome of this one, as in another round. For Set, Apply returns the new value: appended to dst, or a
// slice of memory that it got. Within a round the calls come in key order. If a crash interrupts the pass,
// its rounds may be applied again after Open.
type Apply func(key Key, old []byte, exists bool, run []Item, a *Arena, dst []byte) ([]byte, Action)

// Arena provides memory for the Outs of one run.
type Arena struct {
	buf  []byte
	used int
}

// Bytes returns n bytes of unspecified content. They are valid until Apply returns.
func (a *Arena) Bytes(n int) []byte {
	if n > len(a.buf)-a.used {
		return make([]byte, n) // more than OutBytes per item
	}
	b := a.buf[a.used : a.used+n : a.used+n]
	a.used += n
	return b
}

func (a *Arena) reset() { a.used = 0 }

// ApplyCheckUpdate is the rule of stores that only record which keys have been seen, such as URLseen. New
// means that the key was absent when the tuple was applied. Update and CheckUpdate then insert the key,
// with their value in a store with values. The first value stays.
func ApplyCheckUpdate(_ Key, _ []byte, exists bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
	present := exists
	for i := range run {
		it := &run[i]
		it.New = !present
		if !present && it.Op&Update != 0 {
			present = true
			dst = append(dst, it.Value...)
		}
	}
	if present && !exists {
		return dst, Set
	}
	return dst, Keep
}
