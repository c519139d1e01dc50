package export

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/simhash"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
)

// Near-duplicates are found as Manku, Jain and Das Sarma do (Detecting Near-Duplicates for Web Crawling, WWW
// 2007, section 3): two hashes of 64 bits that differ in at most 3 bits agree in at least two of five blocks of
// bits. So the hashes are sorted ten times, each time by another pair of blocks, and compared with the others
// in the same group. All sorting is external. Pages with equal hashes count as one, represented by that with the
// smallest digest and URL; otherwise a trap of a million equal pages would have 10^12 pairs.

const (
	// nearBits is the largest distance of near-duplicates.
	nearBits = 3
	// nearWindow bounds the hashes of a group that a hash is compared with. A group shares 25 or 26 bits, so
	// only 10^11 unrelated hashes fill it, or a cluster of this many similar texts.
	nearWindow = 4096
	// nearPairs bounds the pairs of one hash with those before it, for each pair of blocks.
	nearPairs = 100
)

// nearTable has a row for each page with the hash of another page, which is the same in all rows of this hash,
// and for each pair of such pages with similar hashes.
func nearTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url", Type: tabular.String},
			{Name: "near_url", Type: tabular.String},
			{Name: "distance", Type: tabular.Int64}, // differing bits, 0 to 3
			{Name: "same_body", Type: tabular.Bool}, // the bodies are equal
			{Name: "simhash", Type: tabular.String}, // of url, in hexadecimal
			{Name: "near_simhash", Type: tabular.String},
		},
		files: indexFiles,
		fill:  fillNear,
		logs:  []string{"warc"},

		indexed: true,
	}
}

// indexFiles returns the files of WARC files that are not final, with their indexes.
func indexFiles(j *job) ([]string, error) {
	if j.Out.Len() == 0 {
		return nil,
			fmt.Errorf("export: the indexes are in the output directories of the crawl: name them with --out: %w",
				state.ErrIncompatible)
	}
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return nil, err
	}
	return warc.OpenFiles(j.WARCFiles(), st), nil
}

// nearJoin finds the pairs.
type nearJoin struct {
	j     *job
	pages *extsort.Sorter    // hash, digest, 0, URL of each page
	urls  [2]*extsort.Sorter // hash and URL of the page that represents a hash
	next  *extsort.Sorter    // hashes in the order of the next pair of blocks
	pairs *extsort.Sorter    // two hashes
	// window holds hashes of the current group.
	window           []uint64
	rec              []byte
	compared, capped int64 // hashes that met a bound
	// take, if set, gets the rows.
	take func(url, near []byte, nearHash uint64, sameBody bool) error
}

func fillNear(j *job) error {
	if err := j.noteAbsent(); err != nil {
		return err
	}
	n := newNearJoin(j)
	pages, hashed, err := n.read()
	if err != nil {
		return err
	}
	if hashed == 0 && pages > 0 {
		j.note("none of %s has a simhash: the crawl ran without --simhash, or its pages have little text",
			human.Counted(pages, "page", "pages"))
	}
	return n.find()
}

func newNearJoin(j *job) *nearJoin {
	return &nearJoin{j: j, pages: j.sorter(), window: make([]uint64, 0, 2*nearWindow)}
}

// find writes the rows of the pages that were added.
func (n *nearJoin) find() error {
	j := n.j
	for i := range n.urls {
		n.urls[i] = j.sorterOf(8)
	}
	n.next = j.sorterOf(8)
	if err := n.equal(); err != nil {
		return err
	}
	n.pairs = j.sorterOf(8)
	for t := range nearTables {
		j.meter.Set("comparing, " + strconv.Itoa(t+1) + " of " + strconv.Itoa(nearTables))
		if err := n.compare(t); err != nil {
			return err
		}
	}
	if n.compared > 0 {
		j.note("%s more than %d others in the group, and only these were compared",
			human.Counted(n.compared, "hash has", "hashes have"), nearWindow)
	}
	if n.capped > 0 {
		j.note("%s more than %d similar ones, and only these pairs are listed",
			human.Counted(n.capped, "hash has", "hashes have"), nearPairs)
	}
	return n.write()
}

// read sorts the pages by hash.
func (n *nearJoin) read() (pages, hashed int64, _ error) {
	st, err := part[warc.State](n.j, state.NameWARC)
	if err != nil {
		return 0, 0, err
	}
	n.j.meter.Set("indexes")
	err = warc.WalkIndexes(n.j.WARCFiles(), st, func(x *warc.Index) error {
		return x.Lines(func(line []byte) error {
			c, err := x.Parse(line)
			if err != nil || c.Kind != warc.KindPage {
				return err
			}
			if pages++; c.Simhash == 0 {
				return n.j.live()
			}
			hashed++
			if err := n.j.live(); err != nil {
				return err
			}
			return n.add(c.Simhash, strings.TrimPrefix(c.Digest, "sha1:"), c.URL)
		})
	})
	return pages, hashed, err
}

// add adds a page with the digest of its body.
func (n *nearJoin) add(hash uint64, digest, url string) error {
	n.rec = binary.BigEndian.AppendUint64(n.rec[:0], hash)
	n.rec = append(append(n.rec, digest...), 0)
	n.rec = append(n.rec, url...)
	return n.pages.Add(n.rec)
}

// equal writes the rows of pages with equal hashes, and collects the different hashes.
func (n *nearJoin) equal() error {
	pages, err := sorted(n.pages)
	var last uint64
	var digest, url, rec []byte
	any := false
	for ; err == nil && pages.ok; err = pages.next() {
		d, u, _ := bytes.Cut(pages.value, []byte{0})
		if !any || pages.key != last {
			any, last = true, pages.key
			digest, url = append(digest[:0], d...), append(url[:0], u...)
			rec = append(binary.BigEndian.AppendUint64(rec[:0], last), url...)
			for _, s := range n.urls {
				if err := s.Add(rec); err != nil {
					return err
				}
			}
			if err := n.next.Add(binary.BigEndian.AppendUint64(rec[:0], forTable(last, 0))); err != nil {
				return err
			}
			continue
		}
		if bytes.Equal(u, url) {
			continue // stored twice
		}
		if err := n.row(u, url, pages.key, pages.key, bytes.Equal(d, digest)); err != nil {
			return err
		}
	}
	return err
}

// compare finds the pairs that agree in pair t of blocks, and not in one before, and prepares the next.
func (n *nearJoin) compare(t int) error {
	this := n.next
	if n.next = nil; t+1 < nearTables {
		n.next = n.j.sorterOf(8)
	}
	hashes, err := sorted(this)
	var rec [16]byte
	mask := tableMask(t)
	for ; err == nil && hashes.ok; err = hashes.next() {
		if err := n.j.live(); err != nil {
			return err
		}
		hash := fromTable(hashes.key, t)
		if len(n.window) > 0 && (n.window[0]^hash)&mask != 0 {
			n.window = n.window[:0]
		}
		found := 0
		from := max(0, len(n.window)-nearWindow)
		for _, other := range n.window[from:] {
			if simhash.Distance(hash, other) > nearBits || firstTable(hash^other) != t {
				continue
			}
			if found++; found > nearPairs {
				n.capped++
				break
			}
			binary.BigEndian.PutUint64(rec[:], min(hash, other))
			binary.BigEndian.PutUint64(rec[8:], max(hash, other))
			if err := n.pairs.Add(rec[:]); err != nil {
				return err
			}
		}
		if from > 0 {
			n.compared++
		}
		if len(n.window) == cap(n.window) {
			n.window = n.window[:copy(n.window, n.window[from:])]
		}
		n.window = append(n.window, hash)
		if n.next != nil {
			binary.BigEndian.PutUint64(rec[:], forTable(hash, t+1))
			if err := n.next.Add(rec[:8]); err != nil {
				return err
			}
		}
	}
	n.window = n.window[:0]
	return err
}

// write writes the rows of pairs with the URLs of both.
func (n *nearJoin) write() error {
	n.j.meter.Set("URLs of pairs")
	bySecond := n.j.sorterOf(8)
	var rec []byte
	err := n.named(n.pairs, n.urls[0], func(first uint64, url, value []byte) error {
		rec = append(rec[:0], value[:8]...)
		rec = append(binary.BigEndian.AppendUint64(rec, first), url...)
		return bySecond.Add(rec)
	})
	if err != nil {
		return err
	}
	return n.named(bySecond, n.urls[1], func(second uint64, url, value []byte) error {
		return n.row(value[8:], url, binary.BigEndian.Uint64(value), second, false)
	})
}

// named calls fn for each item of a sorter with the URL that represents the item's key.
func (n *nearJoin) named(items, urls *extsort.Sorter, fn func(key uint64, url, value []byte) error) error {
	at, err := sorted(items)
	if err != nil {
		return err
	}
	names, err := sorted(urls)
	for ; err == nil && at.ok; err = at.next() {
		if _, err := names.seek(at.key); err != nil { // it is there
			return err
		}
		if err := fn(at.key, names.value, at.value); err != nil {
			return err
		}
	}
	return err
}

func (n *nearJoin) row(url, near []byte, hash, nearHash uint64, sameBody bool) error {
	if bytes.Equal(url, near) { // two visits of a page
		return nil
	}
	if n.take != nil {
		return n.take(url, near, nearHash, sameBody)
	}
	return n.j.write(tabular.Text(url), tabular.Text(near), tabular.Int(int64(simhash.Distance(hash, nearHash))),
		tabular.Truth(sameBody), tabular.Str(hexText(hash)), tabular.Str(hexText(nearHash)))
}

// hexText returns a hash as 16 digits; "" for none.
func hexText(hash uint64) string {
	if hash == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", hash)
}

// The blocks of a hash: five, of 13 bits, and 12 in the last. A table is a pair of them.
const nearTables = 10

var (
	blockMasks = [5]uint64{0x1FFF << 51, 0x1FFF << 38, 0x1FFF << 25, 0x1FFF << 12, 0xFFF}
	tablePairs = [nearTables][2]int{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}
)

func tableMask(t int) uint64 { return blockMasks[tablePairs[t][0]] | blockMasks[tablePairs[t][1]] }

// firstTable returns the first table in whose blocks two hashes with the given differences agree; -1 for none.
func firstTable(diff uint64) int {
	for t := range nearTables {
		if diff&tableMask(t) == 0 {
			return t
		}
	}
	return -1
}

// forTable returns the hash with the bits of the table's blocks first, so that sorting brings together the
// hashes that agree in them. fromTable is its inverse.
func forTable(hash uint64, t int) uint64 {
	high, low := splitBits(t)
	return gather(hash, high)<<low.len | gather(hash, low)
}

func fromTable(key uint64, t int) uint64 {
	high, low := splitBits(t)
	return scatter(key>>low.len, high) | scatter(key&(1<<low.len-1), low)
}

// blockList are blocks of a hash, the highest first, with their number of bits.
type blockList struct {
	blocks []int
	len    int
}

func splitBits(t int) (high, low blockList) { return tableBits[t][0], tableBits[t][1] }

// tableBits are the blocks of each table, and the others. It is read-only.
var tableBits = func() (all [nearTables][2]blockList) {
	for t, pair := range tablePairs {
		for b := range blockMasks {
			l := &all[t][1]
			if b == pair[0] || b == pair[1] {
				l = &all[t][0]
			}
			l.blocks = append(l.blocks, b)
			l.len += blockLen(b)
		}
	}
	return all
}()

func blockLen(b int) int {
	if b == 4 {
		return 12
	}
	return 13
}

func blockShift(b int) int { return max(0, 51-13*b) }

func gather(hash uint64, l blockList) (v uint64) {
	for _, b := range l.blocks {
		v = v<<blockLen(b) | hash&blockMasks[b]>>blockShift(b)
	}
	return v
}

func scatter(v uint64, l blockList) (hash uint64) {
	for i := len(l.blocks) - 1; i >= 0; i-- {
		b := l.blocks[i]
		hash |= v & (1<<blockLen(b) - 1) << blockShift(b)
		v >>= blockLen(b)
	}
	return hash
}
