package storedweb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sort"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/weburl"
)

// kind is what an entry of the table locates.
type kind byte

const (
	kindPage kind = 1 + iota
	kindRobots
	kindDNS
	kindHost // a capture of the host
)

// entry locates a record.
type entry struct {
	hash   uint64 // of the key
	date   uint32 // seconds of Unix time
	kind   kind
	file   uint32
	offset int64
	length int64 // of the record in the file; the next record follows it
	pos    int64 // in the table
}

// An entry in the table: the hash, the complement of the date, so the newest is first, the kind and 3 bytes of
// the file's number, the offset, 7 bytes of the length, and whether it was requested; all big-endian.
const (
	entryBytes = 32
	entryMark  = 31
)

func (e *entry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, e.hash)
	dst = binary.BigEndian.AppendUint32(dst, ^e.date)
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.kind)<<24|e.file)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.offset))
	return binary.BigEndian.AppendUint64(dst, uint64(e.length)<<8)
}

func (e *entry) decode(b []byte) {
	tag := binary.BigEndian.Uint32(b[12:])
	*e = entry{
		hash: binary.BigEndian.Uint64(b), date: ^binary.BigEndian.Uint32(b[8:]), kind: kind(tag >> 24),
		file: tag & (1<<24 - 1), offset: int64(binary.BigEndian.Uint64(b[16:])),
		length: int64(binary.BigEndian.Uint64(b[24:]) >> 8),
	}
}

// urlKey returns the key of a URL: its canonical form with folded escapes. ok is false for other schemes.
func urlKey(url string) (key string, ok bool) {
	c, err := weburl.Canonical(url)
	if err != nil {
		return "", false
	}
	return string(weburl.FoldEscapes([]byte(c))), true
}

// Prefixes of the keys that are not URLs.
const (
	dnsPrefix  = "dns:" // as in WARC-Target-URI
	hostPrefix = "host:"
)

func hostKey(url string) string { return hostPrefix + hostOf(url) }

// hostOf returns the host of a key of a URL.
func hostOf(url string) string { return string(weburl.Split([]byte(url)).Host) }

// maker collects the entries of a table.
type maker struct {
	seed     maphash.Seed
	sorter   *extsort.Sorter
	buf      []byte
	lastHost string
	ports    [1 << 16 / 64]uint64 // the set of ports
}

// add adds a capture. It ignores URLs that cannot be requested.
func (m *maker) add(url string, k kind, e entry) (key string, err error) {
	if k == kindDNS {
		key = strings.ToLower(url)
		return key, m.put(key, kindDNS, e)
	}
	key, ok := urlKey(url)
	if !ok {
		return "", nil
	}
	if err := m.put(key, k, e); err != nil {
		return "", err
	}
	parts := weburl.Split([]byte(key))
	m.ports[parts.Port/64] |= 1 << (parts.Port % 64)
	if host := hostKey(key); host != m.lastHost {
		m.lastHost = host
		return key, m.put(host, kindHost, e)
	}
	return key, nil
}

func (m *maker) put(key string, k kind, e entry) error {
	e.hash, e.kind = maphash.String(m.seed, key), k
	m.buf = e.append(m.buf[:0])
	return m.sorter.Add(m.buf)
}

// table is the sorted entries on disk. Reading is safe for concurrent use.
type table struct {
	seed   maphash.Seed
	f      disk.File
	n      int64
	stride int64
	sample []uint64 // the hash of each stride-th entry
	// Numbers of distinct keys.
	urls, robots, hosts int64
}

// maxSample bounds the entries in RAM.
const maxSample = 1 << 16

// write sorts the entries and writes the table.
func (m *maker) write(fsys disk.FS, name string) (t *table, err error) {
	if err := m.sorter.Sort(); err != nil {
		return nil, err
	}
	t = &table{seed: m.seed, n: m.sorter.N()}
	t.stride = max(1, (t.n+maxSample-1)/maxSample)
	if t.f, err = fsys.Create(name); err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(&appender{f: t.f}, 256<<10)
	var last entry
	dns := int64(0)
	for i := int64(0); ; i++ {
		rec, err := m.sorter.Next()
		if err == nil && rec != nil {
			_, err = out.Write(rec)
		}
		if err != nil {
			return nil, errors.Join(err, t.f.Close())
		}
		if rec == nil {
			break
		}
		var e entry
		e.decode(rec)
		if i%t.stride == 0 {
			t.sample = append(t.sample, e.hash)
		}
		if i == 0 || e.hash != last.hash {
			switch e.kind {
			case kindPage:
				t.urls++
			case kindRobots:
				t.robots++
			case kindHost:
				t.hosts++
			case kindDNS:
				dns++
			}
		}
		last = e
	}
	t.hosts = max(t.hosts, dns)
	if err := out.Flush(); err != nil {
		return nil, errors.Join(err, t.f.Close())
	}
	return t, nil
}

// appender writes to the end of a file.
type appender struct {
	f   disk.File
	end int64
}

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	n, err := a.f.WriteAt(p, a.end)
	a.end += int64(n)
	return n, err
}

// find calls fn with the entries of a key's hash, the newest first, until it returns true or an error.
func (t *table) find(key string, fn func(e *entry) (done bool, err error)) error {
	hash := maphash.String(t.seed, key)
	// The first entry with a hash of at least hash lies after the last sample below hash.
	s := int64(sort.Search(len(t.sample), func(i int) bool { return t.sample[i] >= hash }))
	lo, hi := max(0, s-1)*t.stride, min(t.n, s*t.stride)
	var failed error
	var b [entryBytes]byte
	at := lo + int64(sort.Search(int(hi-lo), func(i int) bool {
		if _, err := t.f.ReadAt(b[:8], (lo+int64(i))*entryBytes); err != nil {
			failed = err
		}
		return binary.BigEndian.Uint64(b[:]) >= hash
	}))
	for ; failed == nil && at < t.n; at++ {
		if _, failed = t.f.ReadAt(b[:], at*entryBytes); failed != nil {
			break
		}
		var e entry
		e.decode(b[:])
		if e.hash != hash {
			return nil
		}
		e.pos = at
		if done, err := fn(&e); done || err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("storedweb: read the table: %w", failed)
	}
	return nil
}

// mark notes that the capture of an entry was requested.
func (t *table) mark(e *entry) error {
	if _, err := t.f.WriteAt([]byte{1}, e.pos*entryBytes+entryMark); err != nil {
		return fmt.Errorf("storedweb: write the table: %w", err)
	}
	return nil
}

// unmarked calls fn with the newest capture of each page that was not requested.
func (t *table) unmarked(fn func(e *entry) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(t.f, 0, t.n*entryBytes), 256<<10)
	var b [entryBytes]byte
	var first entry
	marked := true
	flush := func() error {
		if marked || first.kind != kindPage {
			return nil
		}
		return fn(&first)
	}
	for i := int64(0); i < t.n; i++ {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return fmt.Errorf("storedweb: read the table: %w", err)
		}
		var e entry
		e.decode(b[:])
		if i == 0 || e.hash != first.hash {
			if err := flush(); err != nil {
				return err
			}
			first, marked = e, false
		}
		marked = marked || b[entryMark] != 0
	}
	return flush()
}
