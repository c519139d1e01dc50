package baselines

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// polybot is the batch check with text in RAM of section IV.A. A batch lies in an arena in order of arrival:
// key, length and verdict, text. An array of 16 bytes per link is sorted by text and merged with seen, all
// known URLs as sorted text, from which what a text has in common with the one before is left out:
//
//	length in common, length of the rest (both unsigned varints), the rest
//
// The merge tracks the length of the prefix that each side's next text shares with the text written last.
// If the lengths differ, the text with the longer prefix is the lower one, without a comparison of text.
// Only if they are equal, the rest of the texts is compared.
type polybot struct {
	base
	files files
	seen  seenFile
	texts []textRef // the batch
	arena []byte
	bufs  [][]byte

	old     []byte // the next text of seen
	loading bool   // the batch comes from Load, so it gets no verdicts
}

const (
	// arenaHeader is the key of a link and, in 2 bytes, its length and verdict.
	arenaHeader = 8 + 2
	arenaFresh  = 1 << 15
	// maxRecordBytes bounds a text in seen; textRoom is more.
	maxRecordBytes = 2*binary.MaxVarintLen16 + MaxTextBytes
	// maxArenaBytes bounds an arena: positions in it have 32 bits.
	maxArenaBytes = math.MaxUint32
)

func openPolybot(b base) (Store, error) {
	chunk := chunkBytes(b.o.RAMBytes)
	s := &polybot{base: b, files: files{fs: b.o.FS, dir: b.o.Dir}, bufs: buffers(4, textRoom+chunk)}
	s.seen.files = &s.files
	s.old = make([]byte, 0, MaxTextBytes)
	s.stats.RAMBytes = s.ioBytes()
	return s, nil
}

// ioBytes returns the RAM that is not for the batch.
func (s *polybot) ioBytes() int64 { return emitBytes + 4*int64(len(s.bufs[0])) + MaxTextBytes }

// Load implements Store. It makes up the text of a key; see TextLoader.
func (s *polybot) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	text := make([]byte, 0, 64)
	for _, k := range keys {
		text = appendMadeText(text[:0], k)
		if s.arena == nil {
			s.allocate(len(text))
		}
		if err := s.hold(Link{k, text}, true); err != nil {
			return err
		}
	}
	return nil
}

// appendMadeText appends a URL that no crawler meets, of typical length.
func appendMadeText(dst []byte, key uint64) []byte {
	const digits = "0123456789abcdef"
	hex := func(k uint64, n int) {
		for n--; n >= 0; n-- {
			dst = append(dst, digits[k>>(4*n)&15])
		}
	}
	// One site per 2^44 keys: with 1e8 known URLs a site has 100 of them.
	dst = append(dst, "http://www.site-"...)
	hex(key>>44, 5)
	dst = append(dst, ".invalid/articles/archive/section/"...)
	hex(key>>40, 6)
	dst = append(dst, "/the-title-of-a-page-"...)
	hex(key, 16)
	return append(dst, ".html"...)
}

// LoadLinks implements TextLoader.
func (s *polybot) LoadLinks(links []Link) error {
	if err := s.checkLoadLinks(links); err != nil {
		return err
	}
	return s.holdAll(links, true)
}

// Add implements Store.
func (s *polybot) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	return s.holdAll(links, false)
}

// holdAll adds links to the batch.
func (s *polybot) holdAll(links []Link, loading bool) error {
	if s.arena == nil {
		s.allocate(meanText(links))
	}
	for _, l := range links {
		if err := s.hold(l, loading); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements Store.
func (s *polybot) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	return s.check(ctx)
}

// hold adds a link to the batch. It first checks the batch if that is full or of the other kind.
func (s *polybot) hold(l Link, loading bool) error {
	full := len(s.texts) == cap(s.texts) || len(s.arena)+arenaHeader+len(l.Text) > cap(s.arena)
	if full || s.loading != loading {
		if err := s.check(context.Background()); err != nil {
			return err
		}
		s.loading = loading
	}
	s.texts = append(s.texts, textRef{at: uint32(len(s.arena)), size: uint32(len(l.Text))})
	s.arena = binary.LittleEndian.AppendUint64(s.arena, l.Key)
	s.arena = binary.LittleEndian.AppendUint16(s.arena, uint16(len(l.Text)))
	s.arena = append(s.arena, l.Text...)
	return nil
}

// allocate divides the RAM between the arena and the array, for texts of about b bytes.
func (s *polybot) allocate(b int) {
	rest := s.o.RAMBytes - s.ioBytes()
	each := int64(max(32, b) + arenaHeader + textRefBytes)
	n := min(rest/each, maxArenaBytes/each)
	arena := min(rest-n*textRefBytes, maxArenaBytes)
	s.texts, s.arena = make([]textRef, 0, n), make([]byte, 0, arena)
	s.stats.RAMBytes = s.ioBytes() + n*textRefBytes + arena
}

// text returns the text of a link in the arena.
func (t textRef) text(arena []byte) []byte { return arena[t.at+arenaHeader:][:t.size] }

// check merges the batch with seen, and emits its verdicts.
func (s *polybot) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.texts) == 0 {
		return nil
	}
	sortTexts(s.arena, s.texts)
	err := s.seen.merge(&s.stats, textRoom, s.bufs, func(r *reader, w *writer) (int64, error) {
		return s.merge(ctx, r, w)
	})
	if err != nil {
		return s.fail("merge", err)
	}
	if !s.loading {
		s.stats.Batches++
		s.stats.BatchLinks += int64(len(s.texts))
		err = s.answer()
	} else if !s.loaded {
		s.countLoaded()
	}
	s.texts, s.arena = s.texts[:0], s.arena[:0]
	return err
}

// countLoaded counts the links of a batch that were not known before.
func (s *polybot) countLoaded() {
	for _, t := range s.texts {
		if binary.LittleEndian.Uint16(s.arena[t.at+8:])&arenaFresh != 0 {
			s.stats.Known++
		}
	}
}

// answer emits the batch, which the arena holds in order of arrival.
func (s *polybot) answer() error {
	for at := 0; at < len(s.arena); {
		head := s.arena[at : at+arenaHeader]
		size := binary.LittleEndian.Uint16(head[8:])
		end := at + arenaHeader + int(size&^arenaFresh)
		l := Link{binary.LittleEndian.Uint64(head), s.arena[at+arenaHeader : end : end]}
		if err := s.put(l, size&arenaFresh != 0); err != nil {
			return err
		}
		at = end
	}
	return s.putOut()
}

// oldTexts iterates over the texts of seen.
type oldTexts struct {
	r      *reader
	window []byte // from the current record on
	text   []byte // the current text
	common int    // length of the prefix shared with the text before
	record int    // length of the current record; 0 at the end
}

// next advances to the next text.
func (o *oldTexts) next(ctx context.Context) error {
	o.window = o.window[o.record:]
	if len(o.window) < maxRecordBytes && !o.r.end() {
		var err error
		if o.window, err = o.r.more(ctx, o.window); err != nil {
			return err
		}
	}
	o.record = 0
	if len(o.window) == 0 {
		return nil
	}
	common, n := binary.Uvarint(o.window)
	if n <= 0 {
		return errDamaged
	}
	rest, m := binary.Uvarint(o.window[n:])
	if m <= 0 || common > uint64(len(o.text)) || rest > uint64(min(len(o.window)-n-m, MaxTextBytes)) {
		return errDamaged
	}
	o.text = append(o.text[:common], o.window[n+m:n+m+int(rest)]...)
	o.common, o.record = int(common), n+m+int(rest)
	return nil
}

var errDamaged = errors.New("the file of known URLs has changed since it was written")

// merge merges the sorted batch with the known texts of r into w, marks the first link of each new text,
// and counts the new texts.
func (s *polybot) merge(ctx context.Context, r *reader, w *writer) (added int64, err error) {
	old := oldTexts{r: r, text: s.old[:0]}
	if err := old.next(ctx); err != nil {
		return 0, err
	}
	b := newTexts{arena: s.arena, refs: s.texts}
	b.start()
	common := old.common // length of the prefix that old's text shares with the text written last
	raw := true          // old's predecessor was written last, so old's record can be copied
	var head [2 * binary.MaxVarintLen16]byte
	for old.record > 0 || len(b.refs) > 0 {
		takeOld := len(b.refs) == 0
		if !takeOld && old.record > 0 {
			if takeOld = common > b.common; common == b.common {
				n := common + prefix(old.text[common:], b.text[common:])
				takeOld = compareFrom(old.text, b.text, n) <= 0
				if takeOld {
					b.common = n
				} else {
					common = n
				}
			}
		}
		if !takeOld {
			if err := writeText(w, &head, b.text, b.common); err != nil {
				return 0, err
			}
			raw = false
			b.mark()
			added++
			b.next()
			continue
		}
		if raw {
			err = w.write(old.window[:old.record])
		} else {
			err = writeText(w, &head, old.text, common)
		}
		if err != nil {
			return 0, err
		}
		raw = true
		if len(b.refs) > 0 && b.common == len(old.text) && len(b.text) == b.common {
			b.next() // a duplicate
		}
		if err := old.next(ctx); err != nil {
			return 0, err
		}
		common = old.common
	}
	return added, nil
}

// compareFrom compares texts whose first n bytes are equal. It doesn't read those bytes.
func compareFrom(a, b []byte, n int) int {
	switch {
	case n == len(a) && n == len(b):
		return 0
	case n == len(a):
		return -1
	case n == len(b):
		return 1
	}
	return int(a[n]) - int(b[n])
}

// writeText writes a text that shares its first common bytes with the text before.
func writeText(w *writer, head *[2 * binary.MaxVarintLen16]byte, text []byte, common int) error {
	h := binary.AppendUvarint(head[:0], uint64(common))
	h = binary.AppendUvarint(h, uint64(len(text)-common))
	if err := w.write(h); err != nil {
		return err
	}
	return w.write(text[common:])
}

// newTexts iterates over the distinct texts of a sorted batch.
type newTexts struct {
	arena  []byte
	refs   []textRef // from the first link of the current text on
	text   []byte
	common int // length of the prefix shared with the text written last
}

func (b *newTexts) start() {
	if len(b.refs) > 0 {
		b.text = b.refs[0].text(b.arena)
	}
}

// mark sets the verdict of the first link of the current text.
func (b *newTexts) mark() {
	p := b.arena[b.refs[0].at+8:]
	binary.LittleEndian.PutUint16(p, binary.LittleEndian.Uint16(p)|arenaFresh)
}

// next advances to the next distinct text. The current one must be the text written last, or equal to it.
func (b *newTexts) next() {
	before := b.text
	for b.refs = b.refs[1:]; len(b.refs) > 0; b.refs = b.refs[1:] {
		text := b.refs[0].text(b.arena)
		n := prefix(before, text)
		if n < len(text) {
			b.text, b.common = text, n
			return
		}
	}
	b.text, b.common = nil, 0
}

// prefix returns the length of the common prefix of two texts.
func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// Close implements Store.
func (s *polybot) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	s.err, s.texts, s.arena, s.bufs = ErrClosed, nil, nil, nil
	return errors.Join(s.files.close(), s.removeDir())
}

// textRef is a text of a batch: its offset in the arena, which also gives its order of arrival, its length,
// and its first 8 bytes.
type textRef struct {
	head     uint64
	at, size uint32
}

const textRefBytes = 16

// sortTexts sorts by text; equal texts stay in order of arrival.
func sortTexts(arena []byte, refs []textRef) {
	for i := range refs {
		refs[i].head = load8(refs[i].text(arena))
	}
	slices.SortFunc(refs, func(a, b textRef) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(bytes.Compare(a.text(arena), b.text(arena)), cmp.Compare(a.at, b.at))
	})
}

// load8 returns the first 8 bytes of p as a big-endian number, padded with zeros, so numbers sort like texts.
func load8(p []byte) uint64 {
	if len(p) >= 8 {
		return binary.BigEndian.Uint64(p)
	}
	var x uint64
	for i, c := range p {
		x |= uint64(c) << (56 - 8*i)
	}
	return x
}
