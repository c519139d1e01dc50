package drum

// merge merges the sorted tuples of one round with the bucket's part of the cache. It writes a new part
// only if an entry changes. At the first change it copies the entries passed before.
type merge struct {
	d     *Drum
	old   *partReader
	w     *partWriter
	round *round

	// begin prepares w. reread opens a second reader for the entries passed before the first change.
	begin   func() error
	reread  func() (*partReader, error)
	writing bool
	hold    bool     // new keys go to held instead of a new part
	held    []uint64 // ascending
	passed  int64    // entries of the old part passed so far

	items   []Item
	arena   Arena
	scratch []byte // memory for the value that Apply appends
	between []byte // value between two runs of a key
	result  outcome
}

// outcome is the result of a merge: whether the part must be replaced, the number of entries set or removed,
// and the change in the number of entries.
type outcome struct {
	changed  bool
	entries  int64
	inserted int64
}

// run merges the sorted tuples.
func (m *merge) run(es []entry) error {
	m.writing, m.passed, m.result = false, 0, outcome{}
	for len(es) > 0 {
		key, n := es[0].key, 1
		for n < len(es) && es[n].key == key {
			n++
		}
		found, err := m.seek(key)
		if err != nil {
			return err
		}
		if m.d.opt.Apply == nil {
			err = m.mark(key, es[:n], found)
		} else {
			err = m.apply(key, es[:n], found)
		}
		if err != nil {
			return err
		}
		es = es[n:]
	}
	return m.drain()
}

// seek passes the old entries below key, and reports whether key is next.
func (m *merge) seek(key uint64) (found bool, err error) {
	for {
		if n := m.old.below(key); n > 0 {
			if err := m.pass(n); err != nil {
				return false, err
			}
		}
		if m.old.pos < len(m.old.keys) {
			return m.old.keys[m.old.pos] == key, nil
		}
		ok, err := m.old.load()
		if !ok || err != nil {
			return false, err
		}
	}
}

// pass passes n entries of the old part's current block, copying them if a new part is being written.
func (m *merge) pass(n int) error {
	if m.writing {
		if err := m.w.addFrom(m.old, n); err != nil {
			return err
		}
	}
	m.old.pos += n
	m.passed += int64(n)
	return nil
}

// drain copies the rest of the old part. If no entry has changed it reads nothing.
func (m *merge) drain() error {
	for m.writing {
		if n := len(m.old.keys) - m.old.pos; n > 0 {
			if err := m.pass(n); err != nil {
				return err
			}
		}
		ok, err := m.old.load()
		if !ok || err != nil {
			return err
		}
	}
	return nil
}

// startWriting starts the new part and copies the entries passed so far.
func (m *merge) startWriting() error {
	m.writing, m.result.changed = true, true
	if err := m.begin(); err != nil || m.passed == 0 {
		return err
	}
	// All entries passed are in the first block, which is in RAM. This is the usual case when much is new.
	if n := m.old.pos; int64(n) == m.passed {
		m.old.pos = 0
		err := m.w.addFrom(m.old, n)
		m.old.pos = n
		return err
	}
	r, err := m.reread()
	if err != nil {
		return err
	}
	for left := m.passed; left > 0; {
		if ok, err := r.load(); !ok || err != nil {
			return err
		}
		n := int(min(left, int64(len(r.keys))))
		if err := m.w.addFrom(r, n); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// change carries out the decision of Apply about the entry key. If found, the entry is next in the old part.
func (m *merge) change(key uint64, found bool, action Action, value []byte) error {
	if action == Keep || action == Expunge && !found {
		if found {
			return m.pass(1)
		}
		return nil
	}
	if m.hold {
		m.held = append(m.held, key)
		return nil
	}
	m.result.entries++
	if !m.writing {
		if err := m.startWriting(); err != nil {
			return err
		}
	}
	if action == Set {
		if err := m.w.add(key, value); err != nil {
			return err
		}
	}
	switch {
	case found:
		m.old.pos++
		m.passed++
		if action == Expunge {
			m.result.inserted--
		}
	default:
		m.result.inserted++
	}
	return nil
}

// mark is ApplyCheckUpdate on entries instead of items.
func (m *merge) mark(key uint64, es []entry, found bool) error {
	if found {
		for i := range es {
			es[i].tag |= tagFound
		}
		return m.change(key, true, Keep, nil)
	}
	if m.d.opt.logged() { // all are CheckUpdate, in any order
		first := &es[0]
		for i := range es {
			if es[i].tag < first.tag {
				first = &es[i]
			}
		}
		first.tag |= tagNew
		return m.change(key, false, Set, nil)
	}
	for i := range es {
		es[i].tag |= tagNew
		if es[i].op()&Update != 0 {
			return m.change(key, false, Set, m.round.value(es[i].arrival()))
		}
	}
	return nil
}

// apply calls Options.Apply with up to runItems tuples at a time.
func (m *merge) apply(key uint64, es []entry, found bool) error {
	var old []byte
	if found {
		old = m.old.value(m.old.pos)
	}
	exists, decided := found, Keep
	for len(es) > 0 {
		n := min(len(es), runItems)
		value, action := m.applyRun(key, es[:n], old, exists)
		es = es[n:]
		switch action {
		case Set:
			old, exists, decided = value, true, Set
			if len(es) > 0 {
				m.between = append(m.between[:0], value...)
				old = m.between
			}
		case Expunge:
			old, exists, decided = nil, false, Expunge
		}
	}
	return m.change(key, found, decided, old)
}

func (m *merge) applyRun(key uint64, es []entry, old []byte, exists bool) ([]byte, Action) {
	items := m.items[:len(es)]
	for i := range es {
		items[i] = Item{Op: es[i].op(), Value: m.round.value(es[i].arrival())}
	}
	m.arena.reset()
	value, action := m.d.opt.Apply(Key(key), old, exists, items, &m.arena, m.scratch[:0])
	for i := range es {
		e := &es[i]
		if exists {
			e.tag |= tagFound
		}
		if items[i].New {
			e.tag |= tagNew
		}
		m.round.results[e.arrival()] = items[i].Result
		m.round.setOut(e.arrival(), items[i].Out)
	}
	return value, action
}

// copy copies the whole old part to a new one.
func (m *merge) copy() error {
	m.writing, m.passed, m.result = false, 0, outcome{}
	if err := m.startWriting(); err != nil {
		return err
	}
	return m.drain()
}
