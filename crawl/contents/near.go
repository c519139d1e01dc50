package contents

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/drum"
	"drumbeat/internal/revisit"
	"drumbeat/internal/simhash"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Near-duplicates of a host (--near-duplicates) are found by the same drum. For each host it has a list of the pages
// that are kept: simhash and counts, part of the URL's key, key of the body. That is 54 bytes a page, and one tuple a
// page. The list is one value, so a page is compared with all of it, at a nanosecond an entry and for any distance.
// The pages of a host are judged one after another, in order of arrival, and no list has a URL. Tables of permuted
// bits (Manku, Jain and Das Sarma, section 3) would take 4 to 10 tuples a page, whose answers come at different times.
//
// A page takes up to three steps, each a tuple with the page as aux:
//
//  1. under the key of its host, with its entry as value. If no kept page is near, the page is kept itself: its entry
//     joins the list. A page that is certainly new, by the filter in RAM, does not wait: the filter has the blocks of
//     all simhashes, and two of them that differ in at most k bits have one of k+1 blocks in common.
//  2. for a copy, under the key of the kept page's body, without a value. The answer is the capture that has this body.
//     If there is none (it was erased), or if it is of another host or of the page itself, the page is kept, and its
//     entry takes the place of the one that led nowhere.
//  3. for a kept page, under the key of its own body, as without near-duplicates.
//
// A page that is gone at a later visit leaves the list, by a tuple with an entry without a body.
//
// The body of a copy never gets an entry of its own. So a record without a body names a capture that has one, of a
// page of the same host within k bits and their share of the text: no chain of copies leads away from the text that is
// kept.

// LeastNear is the number of features (package simhash) below which pages are not compared: one changed word changes
// two features, 1 % of 186, which moves the 3 bits that near-duplicates may differ in. In shorter texts chance would
// decide about a single word, and that word may be what the page is about.
const LeastNear = 186

// mix is a bijection that spreads a key over 64 bits (splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nearKey returns the key of the list of a URL's host.
func (c *Store) nearKey(url []byte) drum.Key {
	return drum.Key(mix(c.saved.HostKey(weburl.Split(url).Host)))
}

// filterNear adds the blocks of a simhash in a list to the filter. It reports whether the list may have a page within
// the distance; false is certain.
func (c *Store) filterNear(list drum.Key, hash uint64) (maybe bool) {
	if c.filter == nil {
		return true
	}
	blocks := c.opt.Near.Bits + 1
	for i := range blocks {
		from, to := 64*i/blocks, 64*(i+1)/blocks
		block := hash << (64 - to) >> (64 - to + from)
		maybe = c.filter.Add(drum.Key(mix(uint64(list)^mix(block<<8|uint64(i+1))))) || maybe
	}
	return maybe
}

// Gone takes the page of a URL that is gone from the list of its host: its copy is kept at its next visit. It is part
// of a transaction.
func (c *Store) Gone(url []byte) error {
	if !c.opt.Near.KeepOne {
		return nil
	}
	e := state.NearEntry{URL: uint32(c.saved.Hasher.URLKey(url))} // no page has body 0
	return c.Drum.Add([]drum.Tuple{{Key: c.nearKey(url), Op: drum.Update, Value: e.Append(bytes.Clone(noEntry[:]))}})
}

// filterList adds a list, or the value of a tuple for one, to the filter.
func (c *Store) filterList(key drum.Key, value []byte) {
	if !c.opt.Near.KeepOne {
		return
	}
	entries, _ := state.NearList(value)
	for ; len(entries) > 0; entries = entries[state.NearEntryBytes:] {
		if e := state.NearEntryOf(entries); e.Body != 0 { // otherwise of a page that is gone
			c.filterNear(key, e.Simhash)
		}
	}
}

// sendNear tells the list of the page's host of a page whose body is not known to be seen. It is part of the page's
// transaction. waits means that a kept page may be near; the store has the page.
func (c *Store) sendNear(tx *account.Tx, b *Body, p *Page) (waits bool, _ error) {
	b.text.URL, b.text.Body = uint32(c.saved.Hasher.URLKey(p.Rec.URL)), b.key
	b.near = append(b.text.Append(append(b.near[:0], noEntry[:]...)), 0)
	t := &b.tuple[0]
	*t = drum.Tuple{Key: c.nearKey(p.Rec.URL), Op: drum.Update, Value: b.near[:len(b.near)-1]}
	mu := &c.nearOrder[t.Key>>56]
	mu.Lock()
	defer mu.Unlock()
	if c.filterNear(t.Key, b.text.Simhash) {
		if waits = c.wrap(b, p, b.near[state.NearListHead:]); waits {
			t.Op, t.Aux = drum.CheckUpdate, b.aux
			tx.Wake(c.merges)
		}
	}
	return waits, c.Drum.Add(b.tuple[:])
}

// noEntry is a list without entries.
var noEntry [state.NearListHead]byte

// nearList is a list while it changes. Entries that leave it stay in their place until
// close, so that a page moves none.
type nearList struct {
	entries []byte // with what precedes them
	from    int    // of the first entry
	left    []bool // by the number of the entry: it has left the list
	first   int    // no entry before it is in the list
	n       int    // entries in the list
	most    int    // beyond it the page that was kept, or repeated, longest ago goes
	changed bool
}

func (l *nearList) at(i int) state.NearEntry {
	return state.NearEntryOf(l.entries[l.from+i*state.NearEntryBytes:])
}

// remove removes an entry.
func (l *nearList) remove(i int) {
	l.left[i], l.changed = true, true
	l.n--
}

// add adds an entry as the latest.
func (l *nearList) add(entry []byte) {
	for ; l.n >= l.most; l.first++ {
		if !l.left[l.first] {
			l.remove(l.first)
		}
	}
	l.entries, l.left = append(l.entries, entry...), append(l.left, false)
	l.n++
	l.changed = true
}

// close closes the gaps. Numbers of entries are others then.
func (l *nearList) close() {
	to := l.from
	for i, left := range l.left {
		if at := l.from + i*state.NearEntryBytes; !left {
			to += copy(l.entries[to:], l.entries[at:at+state.NearEntryBytes])
		}
	}
	l.entries, l.left, l.first = l.entries[:to], l.left[:l.n], 0
	clear(l.left)
}

// early reports whether an entry is in the first half of the list.
func (l *nearList) early(i int) bool {
	before := 0
	for _, left := range l.left[l.first:i] {
		if !left {
			before++
		}
	}
	return before < l.n/2
}

// find returns the entry of a URL and the nearest other one within the distance, the latest of several; -1 for none.
func (l *nearList) find(e *state.NearEntry, most int) (own, near, distance int) {
	own, near, distance = -1, -1, most+1
	for i := len(l.left) - 1; i >= l.first; i-- {
		b := l.entries[l.from+i*state.NearEntryBytes:]
		hash, url := state.NearKeysOf(b)
		switch d := simhash.Distance(hash, e.Simhash); {
		case url != e.URL && d >= distance || l.left[i]:
		case url == e.URL:
			own = i
		default:
			if other := state.NearEntryOf(b); nearTexts(e, &other, most) {
				near, distance = i, d
			}
		}
	}
	return own, near, distance
}

// nearTexts reports whether two texts differ in as few features as a distance in bits stands for: a share of
// 1-cos(pi*bits/64) on each side (package simhash). The simhashes alone do not say that. Two texts of one template
// that differ in 5 % are within 3 bits once in nine pairs, and the list of a host has a thousand. The estimate has an
// error of a quarter, which is the margin.
func nearTexts(a, b *state.NearEntry, bits int) bool {
	const margin, most = 1.25, 5_000 // most is where the estimate ends
	n := max(a.Features, b.Features) // modulo 2^16, so of very long texts fewer may differ
	allowed := min(margin*2*float64(n)*(1-math.Cos(math.Pi*float64(bits)/64)), most)
	return simhash.Differ(&a.Counts, &b.Counts, int(int16(a.Features-b.Features))) <= allowed
}

// applyNear is apply for a list. A check is of a page: its entry joins the list, unless another is near. An update is
// of a page that is kept: its entry replaces those that are near. A second time (see apply) a page that was kept is
// kept, and a copy is a copy, perhaps of a page that came later.
func (c *Store) applyNear(old []byte, exists bool, run []drum.Item, dst []byte) ([]byte, drum.Action) {
	entries, ok := state.NearList(old)
	if exists && !ok {
		return dst, drum.Keep // a body has the key of a host
	}
	most := -1 // the pages that wait are kept
	if c.opt.Near.KeepOne {
		most = c.opt.Near.Bits
	}
	before, n := len(dst), len(entries)/state.NearEntryBytes
	dst = append(append(dst, noEntry[:]...), entries...)
	l := nearList{entries: dst, from: before + state.NearListHead, n: n, left: make([]bool, n),
		most: (c.maxValue() - state.NearListHead) / state.NearEntryBytes}
	for i := range run {
		if value, ok := state.NearList(run[i].Value); ok && len(value) == state.NearEntryBytes {
			if len(l.left) >= 2*l.most {
				l.close()
			}
			c.judge(&l, &run[i], value, most)
		}
	}
	if !l.changed {
		return dst[:before], drum.Keep
	}
	l.close()
	return l.entries, drum.Set
}

// judge applies one tuple to a list. Result is 0 for a page that is kept, else the position in firsts, plus one.
func (c *Store) judge(l *nearList, it *drum.Item, value []byte, most int) {
	e := state.NearEntryOf(value)
	own, near, distance := l.find(&e, most)
	check := it.Op == drum.CheckUpdate
	if e.Body == 0 && !check { // the page is gone
		if own >= 0 {
			l.remove(own)
		}
		return
	}
	if it.New = check; own >= 0 && (check || near < 0) && l.at(own) == e {
		return // kept before
	}
	if check && near >= 0 && int64(len(c.firsts)+nearFirst) <= c.opt.Plan.Content.BucketBytes {
		first := l.at(near)
		it.New, it.Result = false, uint64(len(c.firsts)+1)
		c.firsts = append(binary.LittleEndian.AppendUint64(c.firsts, uint64(first.Body)), byte(distance))
		if l.early(near) { // later ones stay long enough
			l.remove(near)
			l.add(first.Append(nil))
		}
	}
	if own >= 0 && !l.left[own] {
		l.remove(own)
	}
	if it.Result > 0 {
		return
	}
	for !check {
		if _, near, _ = l.find(&e, most); near < 0 {
			break
		}
		l.remove(near)
	}
	l.add(value)
}

// nearFirst is the size of what firsts has of a kept page: the key of its body, and the distance.
const nearFirst = 8 + 1

// endNear continues with a page that the list of its host has answered for.
func (c *Store) endNear(res *drum.Result, wait *state.Waiting, rec *weburl.Record) error {
	own := state.NearEntryOf(wait.Near).Body
	if res.Result == 0 {
		return c.compareBody(wait, rec, own)
	}
	first := c.firsts[res.Result-1:][:nearFirst]
	body := drum.Key(binary.LittleEndian.Uint64(first))
	if body == own {
		return c.compareBody(wait, rec, own) // the same body, too
	}
	wait.Near[state.NearEntryBytes] = first[8]
	if value, ok := c.recalled(body); ok {
		return c.endCopy(value, wait, rec)
	}
	return c.waitAgain(drum.Tuple{Key: body, Op: drum.CheckUpdate, Aux: wait.Append(nil)})
}

// recalled returns the value of a body from RAM.
func (c *Store) recalled(body drum.Key) (value []byte, ok bool) {
	if c.recent == nil {
		return nil, false
	}
	c.value, ok = c.recent.get(c.value[:0], body)
	return c.value, ok
}

// waitAgain sends a page that waits to another key.
func (c *Store) waitAgain(t drum.Tuple) error {
	return c.run.Transact(func(tx *account.Tx) error {
		tx.Wake(c.merges)
		return c.Drum.Add([]drum.Tuple{t})
	})
}

// endCopy ends a copy of the page that has a body, by the body's value; empty if there is none. A page whose kept page
// is gone is kept itself.
func (c *Store) endCopy(value []byte, wait *state.Waiting, rec *weburl.Record) error {
	var first bodyValue
	if len(value) > 0 {
		if err := first.decode(value); err != nil {
			return err
		}
	}
	if first.digest != ([20]byte{}) && sameHost(first.url, rec.URL) && c.opt.Near.KeepOne {
		v := verdict{first: first, near: true, distance: int(wait.Near[state.NearEntryBytes])}
		return c.finish(wait, rec, &v)
	}
	entry := append(noEntry[:state.NearListHead:state.NearListHead], wait.Near[:state.NearEntryBytes]...)
	if err := c.run.Transact(func(*account.Tx) error {
		return c.Drum.Add([]drum.Tuple{{Key: c.nearKey(rec.URL), Op: drum.Update, Value: entry}})
	}); err != nil {
		return err
	}
	return c.compareBody(wait, rec, state.NearEntryOf(wait.Near).Body)
}

// compareBody looks for the body of a page that is kept, as Send does for others.
func (c *Store) compareBody(wait *state.Waiting, rec *weburl.Record, key drum.Key) error {
	own := bytes.Clone(wait.Own)
	wait.Near, wait.Own = nil, nil
	if value, ok := c.recalled(key); ok {
		v := verdict{known: true}
		if err := v.first.decode(value); err != nil {
			return err
		}
		return c.finish(wait, rec, &v)
	}
	waits := false
	if err := c.run.Transact(func(tx *account.Tx) error {
		t := drum.Tuple{Key: key, Op: drum.Update, Value: own}
		mu := &c.order[key>>56]
		mu.Lock()
		defer mu.Unlock()
		if waits = c.opt.Seen != state.ContentOff && (c.filter == nil || c.filter.Add(key)); waits {
			t.Op, t.Aux = drum.CheckUpdate, wait.Append(nil)
			tx.Wake(c.merges)
		} else if c.recent != nil {
			c.recent.put(key, own)
		}
		return c.Drum.Add([]drum.Tuple{t})
	}); err != nil || waits {
		return err
	}
	return c.finish(wait, rec, new(verdict))
}

// sameHost reports whether two URLs are of one host, and not equal.
func sameHost(a, b []byte) bool {
	return !bytes.Equal(a, b) && bytes.Equal(weburl.TrimDot(weburl.Split(a).Host), weburl.TrimDot(weburl.Split(b).Host))
}

// note removes the body of a copy from its records, and names the page that is kept.
func (c *Store) note(v *verdict) error {
	if c.encoder == nil {
		c.encoder = c.output.NewEncoder()
	}
	return c.encoder.HeadOnly(&c.prepared, []warc.Field{
		{Name: "stored", Value: "head only, because the text is nearly that of another page of the host"},
		{Name: warc.NearDuplicateOf, Value: string(v.first.url)},
		{Name: "nearDuplicateDate", Value: v.first.date.UTC().Format(time.RFC3339)},
		{Name: "nearDuplicateBits", Value: strconv.Itoa(v.distance)},
	})
}

// noteCopy makes the next visit to a copy a later one. noted says that its body was not stored.
func (c *Store) noteCopy(rec *weburl.Record, noted bool) error {
	policy, ok := c.others.Revisits(rec.URL)
	if !ok || !revisit.Visited(rec.Visits) {
		return nil
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	if noted {
		h.Captured = 0
	}
	policy.Copy(&h)
	rec.Visits = h.Append(nil)
	return nil
}

// CopyOf reports whether the body is known as that of another page of the URL's host.
func (b *Body) CopyOf(url []byte) bool { return b.known && sameHost(b.first.url, url) }
