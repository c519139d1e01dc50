package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/minhash"
	"drumbeat/internal/tabular"
	"drumbeat/state/extract"
)

// Texts has two tables: in kept the texts of pages, of each cluster of copies one, as extract writes them, and in
// duplicates the other copies. A first pass over the stored pages signs them; sorting finds the clusters; a second pass
// writes the texts of the kept ones.
//
// Copies are pages with equal main texts, and revisits, whose body is that of a page. With DedupNear so are pages whose
// MinHash signatures have an equal band and a similarity of Options.Similarity or more, and copies of
// copies. The kept copy is the one with the shortest URL, of these the first in the order of bytes, and of several
// captures of it the latest.

// Dedup says which pages are copies.
type Dedup string

// The values of Dedup.
const (
	DedupExact Dedup = "exact"
	DedupNear  Dedup = "near"
)

// LeastSimilarity is the least value of Options.Similarity, and its default.
const LeastSimilarity = minhash.Near

// nearLeaders bounds the different texts of a band with which each other text of this band is compared.
const nearLeaders = 64

// Subdirectories of the target.
const (
	keptDir       = "kept"
	duplicatesDir = "duplicates"
)

func textTable() table {
	return table{files: indexFiles, logs: []string{"warc"}, parts: []string{"warc"}, indexed: true}
}

// duplicateColumns are the columns of duplicates.
var duplicateColumns = []tabular.Column{
	{Name: "url", Type: tabular.String},
	{Name: "fetch_time", Type: tabular.Time},
	{Name: "warc_filename", Type: tabular.String, Few: true},
	{Name: "warc_record_offset", Type: tabular.Int64},
	{Name: "warc_record_length", Type: tabular.Int64},
	{Name: "kept_url", Type: tabular.String},
	{Name: "kept_fetch_time", Type: tabular.Time},
	{Name: "same_text", Type: tabular.Bool},
	{Name: "similarity", Type: tabular.Float64, Nullable: true}, // estimated, of the two texts
}

// textJoin makes the tables.
type textJoin struct {
	j    *job
	docs *extsort.Sorter // document of each page, the kept copy of a cluster first; the number of a page is its place
	// bodies has for each page its digest, 0, 0 and its signature, and for each revisit digest, 0, 1 and the document.
	bodies *extsort.Sorter
	names  []string // of the WARC files, some 100 bytes each
	// wanted are the pages that are kept: number of the file, offset.
	wanted *extsort.Sorter
	next   []byte          // the current record of wanted; nil at the end
	dups   *extsort.Sorter // number of the kept copy, number of a copy, its document
	rec    []byte

	readers []*extract.Pages // one for each worker
	damage  error            // the first of Report.Damaged
	moved   int64            // pages whose WARC file is not there
	capped  int64            // texts that met nearLeaders
}

// document is what is known of a page.
type document struct {
	url            []byte
	millis         int64
	file           uint32
	offset, length int64
	sign           extract.Signature
	revisit        bool // the record has no body; never kept, since a page has the same text
}

// append appends a document, in the order in which copies are kept: whether it is a revisit (1), length of the URL (4),
// URL, complement of the time (8), file (4), offset (8), length (8), signature.
func (d *document) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, flag(d.revisit)), uint32(len(d.url)))
	dst = append(dst, d.url...)
	dst = place(binary.BigEndian.AppendUint64(dst, ^uint64(d.millis)), d.file, d.offset)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.length))
	return appendSign(dst, &d.sign)
}

// appendSign appends a signature, signBytes long.
func appendSign(dst []byte, s *extract.Signature) []byte {
	return append(append(append(dst, s.Text[:]...), flag(s.Long)), s.MinHash[:]...)
}

const signBytes = 16 + 1 + minhash.Bytes

// readSign reads what appendSign wrote.
func readSign(rec []byte) (s extract.Signature) {
	copy(s.Text[:], rec)
	s.Long = rec[16] == 1
	copy(s.MinHash[:], rec[17:])
	return s
}

// read reads what append wrote. The URL is a part of it.
func (d *document) read(rec []byte) {
	d.revisit = rec[0] == 1
	n := 5 + binary.BigEndian.Uint32(rec[1:])
	d.url, rec = rec[5:n], rec[n:]
	d.millis = int64(^binary.BigEndian.Uint64(rec))
	d.file = binary.BigEndian.Uint32(rec[8:])
	d.offset, d.length = int64(binary.BigEndian.Uint64(rec[12:])), int64(binary.BigEndian.Uint64(rec[20:]))
	d.sign = readSign(rec[28:])
}

// texts writes the tables.
func (j *job) texts() error {
	if j.opt.Fields == nil {
		j.opt.Fields = extract.Fields(j.opt.Format)
	}
	duplicates, err := j.create(duplicatesDir, j.opt.Format, duplicateColumns)
	if err != nil {
		return err
	}
	done := j.report.Complete
	kept, err := j.create(keptDir, j.opt.Format, extract.Columns(j.opt.Fields))
	if err != nil {
		duplicates.Abort()
		return err
	}
	j.report.Complete = j.report.Complete && done
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	if j.report.Complete {
		return nil
	}
	t := &textJoin{j: j, docs: j.sorter(), bodies: j.sorterOf(8), dups: j.sorterOf(8), wanted: j.sorterOf(8)}
	if err = errors.Join(j.noteAbsent(), t.sign()); err == nil {
		j.meter.Set("sorting texts")
		err = t.cluster()
	}
	if !done {
		j.rows = duplicates
		if err == nil {
			err = t.writeDuplicates()
		}
		if err = j.finish(duplicates, err); err != nil {
			kept.Abort()
			return err
		}
	}
	j.rows = kept
	if err = errors.Join(err, t.docs.Close()); err == nil {
		j.note("%s kept, %s in %s", human.Counted(t.wanted.N(), "text is", "texts are"),
			human.Counted(duplicates.Resumed().Rows+duplicates.Rows(), "copy is listed", "copies are listed"),
			duplicatesDir)
		err = t.writeKept()
	}
	t.note()
	return j.finish(kept, errors.Join(err, j.RemoteFailed()))
}

// cluster fills dups and wanted.
func (t *textJoin) cluster() error {
	j := t.j
	if err := t.addRevisits(); err != nil {
		return err
	}
	if err := t.docs.Sort(); err != nil {
		return err
	}
	c := j.newClusters()
	if err := t.linkEqual(c); err != nil {
		return err
	}
	for band := 0; band < minhash.Bands && j.opt.Dedup == DedupNear; band++ {
		if err := t.linkBand(c, band); err != nil {
			return err
		}
	}
	copies, err := c.find()
	if err != nil {
		return err
	}
	err = t.eachDoc(func(n uint64, rec []byte, d *document) error {
		is, err := copies.seek(n)
		if err != nil {
			return err
		}
		if !is {
			return t.wanted.Add(place(t.rec[:0], d.file, d.offset))
		}
		t.rec = binary.BigEndian.AppendUint64(append(t.rec[:0], copies.value...), n)
		t.rec = append(t.rec, rec...)
		return t.dups.Add(t.rec)
	})
	return errors.Join(err, t.wanted.Sort())
}

// addRevisits adds the documents of the revisits that share the body of a page.
func (t *textJoin) addRevisits() error {
	err := t.bodies.Sort()
	var digest []byte
	var sign extract.Signature
	for err == nil {
		var rec []byte
		if rec, err = t.bodies.Next(); rec == nil {
			break
		}
		end := bytes.IndexByte(rec, 0)
		switch rest := rec[end+2:]; {
		case rec[end+1] == 0:
			digest, sign = append(digest[:0], rec[:end]...), readSign(rest)
		case bytes.Equal(digest, rec[:end]):
			t.rec = appendSign(append(t.rec[:0], rest[:len(rest)-signBytes]...), &sign)
			err = t.docs.Add(t.rec)
		}
		err = errors.Join(err, t.j.live())
	}
	return errors.Join(err, t.bodies.Close())
}

// eachDoc calls each for the documents, in order, with their numbers.
func (t *textJoin) eachDoc(each func(n uint64, rec []byte, d *document) error) error {
	if err := t.docs.Rewind(); err != nil {
		return err
	}
	var d document
	for n := uint64(0); ; n++ {
		rec, err := t.docs.Next()
		if err != nil || rec == nil {
			return err
		}
		d.read(rec)
		if err := errors.Join(each(n, rec, &d), t.j.live()); err != nil {
			return err
		}
	}
}

// linkEqual links the pages with equal texts.
func (t *textJoin) linkEqual(c *clusters) error {
	byText := t.j.sorterOf(8) // hash, number
	err := t.eachDoc(func(n uint64, _ []byte, d *document) error {
		t.rec = binary.BigEndian.AppendUint64(append(t.rec[:0], d.sign.Text[:]...), n)
		return byText.Add(t.rec)
	})
	if err == nil {
		err = byText.Sort()
	}
	var text []byte
	var first uint64
	for err == nil {
		var rec []byte
		if rec, err = byText.Next(); rec == nil {
			break
		}
		n := binary.BigEndian.Uint64(rec[16:])
		if !bytes.Equal(text, rec[:16]) {
			text, first = append(text[:0], rec[:16]...), n
			continue
		}
		err = errors.Join(c.link(n, first), t.j.live())
	}
	return errors.Join(err, byText.Close())
}

// leader is a text of a band that is similar to none before it.
type leader struct {
	n    uint64
	sign minhash.Signature
}

// linkBand links pages with an equal band and similar signatures.
func (t *textJoin) linkBand(c *clusters, band int) error {
	byBand := t.j.sorterOf(8) // band, number, signature
	err := t.eachDoc(func(n uint64, _ []byte, d *document) error {
		if !d.sign.Long {
			return nil
		}
		t.rec = binary.BigEndian.AppendUint64(append(t.rec[:0], d.sign.MinHash.Band(band)...), n)
		return byBand.Add(append(t.rec, d.sign.MinHash[:]...))
	})
	if err == nil {
		err = byBand.Sort()
	}
	var value []byte
	leaders := make([]leader, 0, nearLeaders)
	least := max(LeastSimilarity, t.j.opt.Similarity)
	for err == nil {
		var rec []byte
		if rec, err = byBand.Next(); rec == nil {
			break
		}
		if !bytes.Equal(value, rec[:minhash.BandBytes]) {
			value, leaders = append(value[:0], rec[:minhash.BandBytes]...), leaders[:0]
		}
		rec = rec[minhash.BandBytes:]
		l := leader{n: binary.BigEndian.Uint64(rec), sign: minhash.Signature(rec[8:])}
		alone := true
		for i := range leaders {
			if minhash.Similarity(&leaders[i].sign, &l.sign) >= least {
				alone = false
				err = errors.Join(err, c.link(l.n, leaders[i].n))
			}
		}
		switch {
		case !alone:
		case len(leaders) < nearLeaders:
			leaders = append(leaders, l)
		default:
			t.capped++
		}
		err = errors.Join(err, t.j.live())
	}
	return errors.Join(err, byBand.Close())
}

// writeDuplicates writes the copies, in the order of the kept ones.
func (t *textJoin) writeDuplicates() error {
	dups, err := sorted(t.dups)
	if err != nil {
		return err
	}
	var d document
	return t.eachDoc(func(n uint64, _ []byte, kept *document) error {
		for dups.ok && dups.key == n {
			d.read(dups.value[8:])
			if d.revisit && bytes.Equal(d.url, kept.url) { // another visit
				if err := dups.next(); err != nil {
					return err
				}
				continue
			}
			similarity := tabular.Null
			if d.sign.Long && kept.sign.Long {
				share := minhash.Similarity(&d.sign.MinHash, &kept.sign.MinHash)
				similarity = tabular.Float(math.Round(share*1e3) / 1e3)
			}
			if err := t.j.write(tabular.Text(d.url), tabular.At(time.UnixMilli(d.millis)), tabular.Str(t.names[d.file]),
				tabular.Int(d.offset), tabular.Int(d.length), tabular.Text(kept.url),
				tabular.At(time.UnixMilli(kept.millis)), tabular.Truth(d.sign.Text == kept.sign.Text),
				similarity); err != nil {
				return err
			}
			if err := dups.next(); err != nil {
				return err
			}
		}
		return nil
	})
}

// note says which pages are missing.
func (t *textJoin) note() {
	if t.moved > 0 {
		t.j.note("%s missing", human.Counted(t.moved, "page is in a WARC file that was moved away: its text is",
			"pages are in WARC files that were moved away: their texts are"))
	}
	if t.damage != nil {
		t.j.note("%s missing; the first: %v", human.Counted(int64(t.j.report.Damaged),
			"record is damaged: its text is", "records are damaged: their texts are"), t.damage)
	}
	failed := int64(0)
	for _, p := range t.readers {
		failed += p.Failed
	}
	if failed > 0 {
		t.j.note("%s be read as HTML: left out", human.Counted(failed, "page cannot", "pages cannot"))
	}
	if t.capped > 0 {
		t.j.note("a part of the signature of %s equals that of more than %d different texts: some copies may be kept",
			human.Counted(t.capped, "text", "texts"), nearLeaders)
	}
}
