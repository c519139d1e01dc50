package drum

// Action is what Apply does to a key's entry.
type Action uint8

const (
	// Keep leaves the entry as it is, or absent.
	Keep Action = iota
	// Set gives it the returned value, inserting it if it was absent.
	Set
	// Expunge removes it.
	Expunge
)

// Item is one tuple of a run, as Apply sees and marks it.
type Item struct {
	// Op and Value are the tuple's; Apply must not change them.
	Op    Op
	Value []byte
	// New, Result and Out go into the tuple's Result. Out, at most OutBytes, may come from the Arena or be part
	// of any value that Apply sees; it is copied when Apply returns, so items may share one.
	New    bool
	Result uint64
	Out    []byte
}

// Apply decides about one key: old is the entry's value if exists. run holds the tuples for the key in order
// of arrival: those of the round, or some thousand of them at a time, the next call then seeing the outcome
// of this one, as it would in another round. The new value is returned for Set, appended to dst or a slice of
// what Apply sees. Calls come in order of keys within a round. A round whose pass is then cut short by a
// crash is applied again after Open.
type Apply func(key Key, old []byte, exists bool, run []Item, a *Arena, dst []byte) ([]byte, Action)

// Arena gives Apply memory for the Outs of one run.
type Arena struct {
	buf  []byte
	used int
}

// Bytes returns n bytes, of unspecified content, that stay valid until Apply returns.
func (a *Arena) Bytes(n int) []byte {
	if n > len(a.buf)-a.used {
		return make([]byte, n) // beyond OutBytes an item: Apply's own business
	}
	b := a.buf[a.used : a.used+n : a.used+n]
	a.used += n
	return b
}

func (a *Arena) reset() { a.used = 0 }

// ApplyCheckUpdate is the rule of stores that ask "seen or not", such as URLseen: New tells that the key was absent when the
// tuple's turn came; Update and CheckUpdate insert it, in a store with values with theirs. The first value stays.
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
