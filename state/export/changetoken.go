package export

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/state/erase"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// A mark says how much of the files of a crawl one checkpoint covers. Files grow between two marks; an erasure may
// write some of them again.
type mark struct {
	serial   uint64     // of the next WARC file
	open     []openFile // WARC files that were still written, by serial
	lines    uint64     // of the crawl log, since the crawl began
	erasures uint64
}

// openFile is a WARC file that a mark covers in part. erasure is in its name.
type openFile struct{ serial, size, erasure uint64 }

// maxOpen bounds the files of a mark: the crawl writes one in each directory, and each long body to a file of its own.
const maxOpen = 1 << 16

// markNow returns the mark of the checkpoint.
func (j *job) markNow() (m mark, err error) {
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return m, err
	}
	log, err := part[crawllog.State](j, state.NameCrawlLog)
	if err != nil {
		return m, err
	}
	erased, err := erase.Records(j.Set)
	if err != nil {
		return m, err
	}
	m = mark{serial: st.Files.Serial, lines: uint64(log.Entries), erasures: uint64(len(erased))}
	for _, v := range st.Files.Volumes {
		_, erasure, _ := serialOf(v.Name)
		size := uint64(v.Streams[0].Size) + uint64(v.Streams[0].Tail.Len)
		m.open = append(m.open, openFile{v.Serial, size, erasure})
	}
	// No state names the file of a long body before it is complete, but its serial is taken.
	for dir := range j.Out.Paths {
		names, err := j.Out.FS.List(j.Out.Path(dir, "warc"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("export: list WARC files: %w", err)
		}
		for _, name := range names {
			serial, _, ok := serialOf(name)
			if ok && strings.HasSuffix(name, outfile.OpenSuffix) && serial < m.serial && m.find(serial) < 0 {
				m.open = append(m.open, openFile{serial: serial})
			}
		}
	}
	slices.SortFunc(m.open, func(a, b openFile) int { return cmp.Compare(a.serial, b.serial) })
	if len(m.open) > maxOpen {
		return m, fmt.Errorf("export: the checkpoint has %d open WARC files, at most %d are possible", len(m.open),
			maxOpen)
	}
	return m, nil
}

func (m *mark) find(serial uint64) int {
	return slices.IndexFunc(m.open, func(f openFile) bool { return f.serial == serial })
}

// serialOf returns the serial in the name of a WARC file, and the number of the erasure that wrote it, 0 for none:
// DRUMBEAT-20261121224305678-00012-host-e3.warc.gz.
func serialOf(name string) (serial, erasure uint64, ok bool) {
	_, rest, _ := strings.Cut(name, "-")
	_, rest, _ = strings.Cut(rest, "-")
	digits, rest, _ := strings.Cut(rest, "-")
	serial, err := strconv.ParseUint(digits, 10, 63)
	rest, _, _ = strings.Cut(rest, ".warc")
	if i := strings.LastIndex(rest, "-e"); i >= 0 {
		if n, err := strconv.ParseUint(rest[i+2:], 10, 31); err == nil {
			erasure = n
		}
	}
	return serial, erasure, err == nil
}

// covers tells whether a record was there at the mark. Of a file that was open then and that an erasure has written
// since, nobody knows: its records count as new ones.
func (m *mark) covers(name string, offset int64) bool {
	serial, erasure, _ := serialOf(name)
	i, open := slices.BinarySearchFunc(m.open, serial,
		func(f openFile, s uint64) int { return cmp.Compare(f.serial, s) })
	if open {
		return uint64(offset) < m.open[i].size && erasure == m.open[i].erasure
	}
	return serial < m.serial
}

// whole tells whether all records of a file were there at the mark.
func (m *mark) whole(name string) bool {
	serial, _, _ := serialOf(name)
	return serial < m.serial && m.find(serial) < 0
}

func (m *mark) equal(to *mark) bool {
	return m.serial == to.serial && slices.Equal(m.open, to.open) && m.lines == to.lines && m.erasures == to.erasures
}

func (m *mark) append(dst []byte) []byte {
	for _, n := range [...]uint64{m.serial, m.lines, m.erasures, uint64(len(m.open))} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, f := range m.open {
		for _, n := range [...]uint64{f.serial, f.size, f.erasure} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

// read reads what append wrote, and returns the rest; nil if it is no mark.
func (m *mark) read(b []byte) []byte {
	ok := true
	next := func() uint64 {
		n, w := binary.Uvarint(b)
		if ok = ok && w > 0; !ok {
			return 0
		}
		b = b[w:]
		return n
	}
	m.serial, m.lines, m.erasures = next(), next(), next()
	n := next()
	if n > maxOpen {
		return nil
	}
	for range n {
		m.open = append(m.open, openFile{next(), next(), next()})
	}
	if !ok {
		return nil
	}
	return b
}

// position is a place in the feed of changes: after the row with the key last, of those that the checkpoint of to added
// to that of from, or after all of them if last is empty.
type position struct {
	from, to mark
	last     []byte // of rowKeyBytes, or empty
}

// rowKeyBytes is the length of the key of a row: time, key of the URL, and a part of a hash of what it says.
const rowKeyBytes = 8 + 8 + 4

// tokenVersion begins a token. The rest is Base64 (RFC 4648, 5) of hash of the crawl (4), from, to, last, and a
// checksum of these (4).
const tokenVersion = "1."

const tokenEnds = 4 // bytes of the hash and of the checksum

// ErrToken is wrapped by the error for a token that is none, or none of the crawl.
var ErrToken = errors.New("not the token of a row of this crawl")

// token returns the text of a position.
func (p *position) token(crawl string) string {
	b := appendHash(nil, []byte(crawl))
	b = append(p.to.append(p.from.append(b)), p.last...)
	return tokenVersion + base64.RawURLEncoding.EncodeToString(appendHash(b, b))
}

func appendHash(dst, of []byte) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(xxhash.Sum64(of)))
}

// IsToken tells whether a text has the form of a token; whose it is, Run says.
func IsToken(text string) bool {
	_, err := readToken(text)
	return err == nil
}

// readToken returns the bytes of a token without its checksum.
func readToken(text string) ([]byte, error) {
	code, ok := strings.CutPrefix(text, tokenVersion)
	b, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if n := len(b) - tokenEnds; ok && err == nil && n > tokenEnds && string(appendHash(nil, b[:n])) == string(b[n:]) {
		return b[:n], nil
	}
	return nil, fmt.Errorf("%q is %w: copy it whole", text, ErrToken)
}

// position returns the place that a token names.
func (j *job) position(text string) (p position, err error) {
	b, err := readToken(text)
	if err != nil {
		return p, err
	}
	if string(b[:tokenEnds]) != string(appendHash(nil, []byte(j.Manifest.Crawl))) {
		return p, fmt.Errorf("%q is %w, but of another one", text, ErrToken)
	}
	if b = p.from.read(b[tokenEnds:]); b != nil {
		b = p.to.read(b)
	}
	if b == nil || len(b) != 0 && len(b) != rowKeyBytes {
		return p, fmt.Errorf("%q is %w", text, ErrToken)
	}
	p.last = b
	return p, nil
}
