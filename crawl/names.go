package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/weburl"
)

// The store of names says what the keys of hosts and PLDs stand for, which nobody could tell later without reading all output.
// It has every host of a URL that was taken, and every PLD of one or at an end of an edge. A name is sent in the step that sends
// the URL or edge, so that no checkpoint has one without the other (docs/formats/names.md).

// maxNameBytes is the longest value of the store of names.
const maxNameBytes = 1 + weburl.MaxHostBytes

// namesShape is the shape of the store of names.
func namesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: maxNameBytes, Codec: drum.Rice}
}

// namesStore wires the store of names: what is new is counted.
func (r *ring) namesStore() drum.Options {
	o := r.plan.Names.shaped(namesShape())
	o.Set, o.Name, o.Reserve = r.set, nameNames, r.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, r.emitNames
	return o
}

// emitNames adds to the account that an audit compares the store with.
func (r *ring) emitNames(results []drum.Result) error {
	return r.inStep(func(d *delta) error {
		for i := range results {
			d.named.Add(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is how many names are worth a merge before the store is full.
const leastNames = 64

// mergeNames merges by size, and whenever the store has doubled: some 30 small passes in a crawl's life. Nobody waits for it.
func (r *ring) mergeNames(ctx context.Context) error {
	pending := pendingTuples(r.names)
	return r.run(ctx, merger{
		name:     nameNames,
		pass:     r.names.Pass,
		full:     r.names.Full,
		pending:  pending,
		keys:     r.names.Keys,
		cost:     func() time.Duration { return r.names.Stats().PredictedDry },
		dry:      func() bool { return pending() >= r.names.Keys()+leastNames },
		starving: func() bool { return false },
		wake:     r.wakeNames,
	})
}

// appendName appends the value of a name: a byte with the length of the PLD at its end, 0 if the name is a PLD itself, and the text.
func appendName(dst []byte, pldBytes int, text []byte) []byte {
	return append(append(dst, byte(pldBytes)), text...)
}

var errName = errors.New("no name")

// decodeName returns a PLD, and the host unless it is the name of a PLD itself.
func decodeName(value []byte) (pld, host []byte, err error) {
	if len(value) < 2 || len(value) > maxNameBytes || int(value[0]) >= len(value) {
		return nil, nil, fmt.Errorf("%w: %q", errName, value)
	}
	text := value[1:]
	if value[0] == 0 {
		return text, nil, nil
	}
	return text[len(text)-int(value[0]):], text, nil
}

// checkName verifies that an entry's key is that of its text.
func checkName(h *weburl.Hasher, key drum.Key, value []byte) (pld, host []byte, err error) {
	pld, host, err = decodeName(value)
	if err != nil {
		return nil, nil, err
	}
	want := h.PLDKey(pld)
	if host != nil {
		want = h.HostKey(host)
	}
	if want != uint64(key) {
		return nil, nil, fmt.Errorf("name %q has the key %x, want %x", value[1:], uint64(key), want)
	}
	return pld, host, nil
}

// nameList are the names that go with the links of a page.
type nameList struct {
	text   []byte
	tuples []drum.Tuple
}

func (l *nameList) reset() {
	if cap(l.text) > keepLinkBytes || cap(l.tuples) > keepLinks {
		*l = nameList{}
	}
	l.text, l.tuples = l.text[:0], l.tuples[:0]
}

func (l *nameList) add(key uint64, pldBytes int, text []byte) {
	from := len(l.text) // values made before stay valid where they are if this grows
	l.text = appendName(l.text, pldBytes, text)
	l.tuples = append(l.tuples, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Value: l.text[from:len(l.text):len(l.text)]})
}

// nameHost notes the names of a site's host and PLD, once a page.
func (b *linkBatch) nameHost(s *linkSite) {
	b.namePLD(s)
	if !s.hostNamed {
		s.hostNamed = true
		host := bytes.TrimSuffix(s.host(), []byte(".")) // as hostKey does
		b.names.add(b.r.hasher.HostKey(host), s.pldBytes, host)
	}
}

// namePLD notes the name of a site's PLD, once a page.
func (b *linkBatch) namePLD(s *linkSite) {
	if !s.pldNamed {
		s.pldNamed = true
		host := bytes.TrimSuffix(s.host(), []byte("."))
		b.names.add(s.pld, 0, host[len(host)-s.pldBytes:])
	}
}

// send hands on the names that weren't met a moment ago; it is part of a step, and so is the cache.
func (l *nameList) send(r *ring, d *delta) error {
	fresh := l.tuples[:0]
	for _, t := range l.tuples {
		if r.recentNames == nil || !r.recentNames.TestAndSet(t.Key) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	d.wake(r.wakeNames)
	return r.names.Add(fresh)
}

// auditNames adds up the keys of the store of names, and verifies each.
func (r *ring) auditNames(m *manifest) (sum weburl.Sum, err error) {
	st, err := statePart[drum.State](m, nameNames)
	if err != nil || st == nil {
		return sum, err
	}
	err = drum.WalkCache(r.set, nameNames, st, func(key drum.Key, value []byte) error {
		sum.Add(uint64(key))
		_, _, err := checkName(r.hasher, key, value)
		return err
	})
	return sum, err
}

// Graph gets what a crawl knows of hosts and PLDs. Nil functions are not called; bytes are valid during a call; an error ends
// the reading and is returned.
type Graph struct {
	// PLD and Host get each name at least once: those merged in order of keys, then those that wait.
	PLD  func(key uint64, name []byte) error
	Host func(key, pld uint64, name []byte) error
	// Edge gets each edge between two PLDs at least once, by their keys. Both have names.
	Edge func(from, to uint64) error
}

// ReadGraph reads names and edges of a stopped crawl in sequence, and verifies what it reads. Memory: some reads, and what was in
// buffers. It changes nothing but takes the directories' locks.
func ReadGraph(opt AuditOptions, g Graph) (err error) {
	r, m, err := openAudit(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.unlock()) }()
	}
	if err != nil {
		return err
	}
	names, err := statePart[drum.State](m, nameNames)
	if err != nil {
		return err
	}
	name := func(key drum.Key, value []byte) error {
		pld, host, err := checkName(r.hasher, key, value)
		switch {
		case err != nil:
			return fmt.Errorf("crawl: %s: %w", nameNames, err)
		case host == nil && g.PLD != nil:
			return g.PLD(uint64(key), pld)
		case host != nil && g.Host != nil:
			return g.Host(uint64(key), r.hasher.PLDKey(pld), host)
		}
		return nil
	}
	if err := drum.WalkCache(r.set, nameNames, names, name); err != nil {
		return err
	}
	if err := drum.Walk(r.set, nameNames, names, func(t drum.Tuple) error { return name(t.Key, t.Value) }); err != nil || g.Edge == nil {
		return err
	}
	st, err := statePart[star.State](m, nameStar)
	if err != nil {
		return err
	}
	return star.WalkEdges(r.set, nameStar, st, func(e star.Edge) error { return g.Edge(e.From, e.To) })
}
