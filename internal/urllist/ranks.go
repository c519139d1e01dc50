package urllist

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Columns of lists with a header. Common Crawl's domain ranks have harmonicc_pos and host_rev.
var (
	rankColumns     = []string{"harmonicc_pos", "rank", "globalrank"}
	domainColumns   = []string{"domain", "pld", "host", "name"}
	reversedColumns = []string{"host_rev"} // com.example
)

// maxRankDomain is the longest name of a domain in bytes (RFC 1035, 2.3.4).
const maxRankDomain = 253

// Ranks calls fn with the domains of a list of ranks, up to a rank, in order. skipped is the number of lines whose name
// is none of a domain. The list has lines of fields divided by tabs or commas, compressed by gzip or Zstandard or not:
//
//	rank,domain                               Tranco, Umbrella
//	#harmonicc_pos #harmonicc_val ... #host_rev    Common Crawl's ranks of domains and hosts, by a header
//	rank,domain,...                           other lists, by a header
//
// Ranks must not fall from line to line, so the rest of the list after the last rank is not read. An error names the
// line. An error of fn ends it and is returned.
func Ranks(r io.Reader, last int64, fn func(domain []byte, rank int64) error) (skipped int64, err error) {
	l, err := NewReader(r)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if l.pull != nil {
		return 0, fmt.Errorf("urllist: not a list of ranks but a table in Parquet or a WARC file")
	}
	form, before := rankForm{rank: 0, domain: 1}, int64(0)
	for n := 1; ; n++ {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("urllist: line %d: %s", n, fmt.Sprintf(format, args...))
		}
		long, err := l.readLine()
		if err != nil && (err != io.EOF || len(l.line) == 0) {
			if err == io.EOF {
				return skipped, nil
			}
			return skipped, l.fail(err)
		}
		line := bytes.TrimRight(bytes.TrimPrefix(l.line, []byte("\ufeff")), "\r\n")
		switch {
		case long:
			return skipped, fail("longer than %d bytes", MaxLine)
		case len(line) == 0:
			continue
		}
		fields := rankFields(line)
		if n == 1 && form.header(fields) {
			continue
		}
		if len(fields) <= max(form.rank, form.domain) {
			return skipped, fail("%.60q is no rank and domain, divided by a comma or a tab", line)
		}
		rank, err := strconv.ParseInt(string(fields[form.rank]), 10, 64)
		if err != nil || rank < 1 {
			return skipped, fail("%.60q is no rank: want a whole number from 1", fields[form.rank])
		}
		if rank < before {
			return skipped, fail("rank %d after rank %d: sort the list by rank", rank, before)
		}
		if before = rank; rank > last {
			return skipped, nil
		}
		domain := bytes.ToLower(fields[form.domain])
		if form.reversed {
			labels := bytes.Split(domain, []byte("."))
			slices.Reverse(labels)
			domain = bytes.Join(labels, []byte("."))
		}
		if !isDomain(domain) {
			skipped++
			continue
		}
		if err := fn(domain, rank); err != nil {
			return skipped, err
		}
	}
}

// rankForm says which fields are the rank and the domain.
type rankForm struct {
	rank, domain int
	reversed     bool
}

// header reports whether fields are the names of columns, and takes them.
func (f *rankForm) header(fields [][]byte) bool {
	at := func(names []string) int {
		return slices.IndexFunc(fields, func(b []byte) bool {
			return slices.Contains(names, string(bytes.ToLower(bytes.Trim(b, `#" `))))
		})
	}
	rank, domain, reversed := at(rankColumns), at(domainColumns), at(reversedColumns)
	if rank < 0 || domain < 0 && reversed < 0 {
		return false
	}
	f.rank, f.domain = rank, domain
	if domain < 0 {
		f.domain, f.reversed = reversed, true
	}
	return true
}

// rankFields divides a line at tabs, or at commas if it has no tab. No rank or domain has quotes around a comma.
func rankFields(line []byte) [][]byte {
	by := []byte(",")
	if bytes.IndexByte(line, '\t') >= 0 {
		by = []byte("\t")
	}
	fields := bytes.Split(line, by)
	for i := range fields {
		fields[i] = bytes.Trim(fields[i], `" `)
	}
	return fields
}

// isDomain reports whether a name has the bytes of a domain.
func isDomain(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' && c < 0x80 {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxRankDomain && bytes.IndexByte(name, '.') > 0
}
