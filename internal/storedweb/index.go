package storedweb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/warc"
)

// indexer reads indexes and WARC files into a table.
type indexer struct {
	*maker
	fs     disk.FS
	files  []file
	seeds  *bufio.Writer // nil: no seeds are wanted
	found  Found
	reader warc.RecordReader
	damage *names
	// canceled returns an error when the work is no longer wanted.
	canceled func() error
}

// Found is what Open found.
type Found struct {
	Files int
	// Read counts the WARC files that were read because they have no sound index.
	Read int
	// URLs are distinct page URLs, Robots robots.txt files and the targets of their redirects, Hosts names.
	URLs, Robots, Hosts int64
	Seeds               int64
	// Damaged are the files that could not be read completely, and why; at most 20 are named.
	Damaged      []string
	DamagedCount int64
}

// maxMeta bounds a metadata record, and the beginning of other records that are read to index a WARC file.
const maxMeta = 64 << 10

// readAll reads all files.
func (x *indexer) readAll() error {
	defer x.reader.Close()
	for i := range x.files {
		if err := x.readFile(uint32(i)); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the index of a file, or the file itself.
func (x *indexer) readFile(i uint32) error {
	f := &x.files[i]
	data, err := x.fs.OpenRead(f.path)
	if err != nil {
		return fmt.Errorf("storedweb: %w", err)
	}
	defer data.Close() // read only
	if f.index != "" {
		err := x.readIndex(i, data)
		var bad *fault
		if err == nil || !errors.As(err, &bad) {
			return err
		}
		x.damage.add(f.index, bad.err.Error()+"; the WARC file was read instead")
	}
	x.found.Read++
	err = x.readRecords(i, data)
	var bad *fault
	if errors.As(err, &bad) {
		why := bad.err.Error()
		if strings.HasSuffix(f.path, openSuffix) {
			why = "not closed by its crawl, read up to its last whole record: " + why
		}
		x.damage.add(f.path, why)
		return nil
	}
	return err
}

// fault is an error of the stored data, which concerns one file.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }

// readIndex reads a CDXJ index.
func (x *indexer) readIndex(i uint32, data disk.File) error {
	in, err := x.fs.OpenRead(x.files[i].index)
	if err != nil {
		return fmt.Errorf("storedweb: %w", err)
	}
	defer in.Close() // read only
	size, err := in.Size()
	if err != nil {
		return fmt.Errorf("storedweb: %w", err)
	}
	var ours error // of the table or the seeds, not of the index
	err = warc.ReadIndex(io.NewSectionReader(in, 0, size), func(c *warc.Indexed) error {
		e := entry{file: i, date: dateOf(c.Time), offset: c.Offset, length: c.Length}
		if ours = x.canceled(); ours != nil {
			return ours
		}
		key, err := x.add(c.URL, kindFor(c.Kind), e)
		if err == nil && key != "" && x.seeds != nil && c.Kind == warc.KindPage {
			err = x.seedAt(data, x.files[i].size, c, key)
		}
		ours = err
		return err
	})
	if err != nil && ours == nil {
		err = &fault{err}
	}
	return err
}

// dateOf returns the seconds of Unix time, from 1970 to 2106.
func dateOf(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), 1<<32-1)) }

func kindFor(k string) kind {
	switch k {
	case warc.KindRobots:
		return kindRobots
	case warc.KindDNS, warc.KindRendered: // nothing that a server would answer
		return kindDNS
	}
	return kindPage
}

// seedAt reads the metadata record after a capture and writes the URL if it is a seed. A damaged record is
// none.
func (x *indexer) seedAt(data disk.File, size int64, c *warc.Indexed, key string) error {
	rec, err := x.reader.Open(data, size, c.Offset+c.Length)
	if err != nil || rec.Type() != "metadata" || rec.Size > maxMeta || rec.Get("WARC-Target-URI") != c.URL {
		return nil
	}
	block, err := io.ReadAll(&x.reader)
	if err != nil {
		return nil
	}
	return x.seed(key, block)
}

// seed writes the URL if the metadata in block is that of a seed.
func (x *indexer) seed(key string, block []byte) error {
	for _, f := range warc.MetaFields(block) {
		switch {
		case strings.EqualFold(f.Name, "via"), strings.EqualFold(f.Name, "depth") && f.Value != "0":
			return nil
		}
	}
	x.found.Seeds++
	if _, err := x.seeds.WriteString(key + "\n"); err != nil {
		return fmt.Errorf("storedweb: write the seeds: %w", err)
	}
	return nil
}

// readRecords reads a WARC file.
func (x *indexer) readRecords(i uint32, data disk.File) error {
	size := x.files[i].size
	var ours error
	var url, key string // of the last page
	err := warc.Read(io.NewSectionReader(data, 0, size), maxMeta, func(rec *warc.Record) error {
		if ours = x.canceled(); ours != nil {
			return ours
		}
		target := rec.Get("WARC-Target-URI")
		switch rec.Type() {
		case "response", "revisit":
			k := kindFor(rec.Get("WARC-Resource-Type"))
			if strings.HasPrefix(target, dnsPrefix) {
				k = kindDNS
			}
			when, err := time.Parse(time.RFC3339, rec.Get("WARC-Date"))
			if err != nil {
				when = time.Time{} // the oldest
			}
			e := entry{file: i, date: dateOf(when), offset: rec.Offset, length: rec.Length}
			url = target
			if key, ours = x.add(target, k, e); k != kindPage {
				key = ""
			}
		case "metadata":
			if key != "" && target == url && x.seeds != nil {
				ours = x.seed(key, rec.Block)
			}
			key = ""
		}
		return ours
	})
	if err != nil && ours == nil {
		err = &fault{err}
	}
	return err
}

// metaNumber returns the number in a field of a block of metadata; 0 if there is none.
func metaNumber(block []byte, name string) int64 {
	for _, f := range warc.MetaFields(block) {
		if strings.EqualFold(f.Name, name) {
			n, _ := strconv.ParseInt(f.Value, 10, 64) // 0 if it is no number
			return max(0, n)
		}
	}
	return 0
}
