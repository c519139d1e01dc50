package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// visit is what the host index takes of a capture.
type visit struct {
	host     string
	at       int64 // Unix seconds
	to       Subset
	status   int
	length   int64
	millis   string // of the fetch; "": unknown
	language string
	signal   string // Content-Signal
}

// append appends the line of a visit: the key of its host, which sorts it, and its values, separated by tabs.
func (v *visit) append(dst []byte) []byte {
	return fmt.Appendf(dst, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", surtHost(v.host), v.host, v.at, v.to, v.status,
		v.length, v.millis, v.language, strings.ReplaceAll(v.signal, "\t", " "))
}

// meta takes the values of the metadata record of the capture.
func (v *visit) meta(block []byte) {
	for _, f := range warc.MetaFields(block) {
		switch f.Name {
		case "fetchTimeMs":
			if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil && n >= 0 {
				v.millis = f.Value
			}
		case "contentSignal":
			v.signal = f.Value
		}
	}
}

// surtHost returns the labels of a host in reverse, joined by commas; an address as it is.
func surtHost(host string) string {
	if weburl.IsAddress(host) {
		return host
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ",")
}

// statusNames are the classes of statuses, as Common Crawl's host index names them.
var statusNames = [...]string{"200", "3xx", "4xx", "5xx", "gone", "notModified", "other", "redirPerm", "redirTemp"}

// statusClass returns the class of a status, by its place in statusNames. A class of a hundred has what no other has.
func statusClass(status int) int {
	switch status {
	case 200:
		return 0
	case 404, 410:
		return 4
	case 304:
		return 5
	case 301, 308:
		return 7
	case 302, 303, 307:
		return 8
	}
	if c := status / 100; c >= 3 && c <= 5 {
		return c - 2
	}
	return 6
}

// hostColumns are the columns of the host index. Those that Common Crawl's has, too, have its names.
var hostColumns = func() []tabular.Column {
	count := func(name string) tabular.Column { return tabular.Column{Name: name, Type: tabular.Int64, Bits: 32} }
	some := func(name string) tabular.Column {
		return tabular.Column{Name: name, Type: tabular.Int64, Bits: 32, Nullable: true}
	}
	text := func(name string) tabular.Column {
		return tabular.Column{Name: name, Type: tabular.String, Nullable: true, Few: true}
	}
	list := []tabular.Column{{Name: "surt_host_name", Type: tabular.String},
		{Name: "url_host_name", Type: tabular.String}, text("url_host_tld"), text("url_host_registered_domain")}
	for _, kind := range []string{"fetch_", "robots_"} {
		for _, name := range statusNames {
			list = append(list, count(kind+name))
		}
	}
	return append(list, count("fetch_200_lote"), some("fetch_200_lote_pct"), text("content_language_top"),
		some("content_language_top_pct"), some("warc_record_length_av"), some("warc_record_length_median"),
		tabular.Column{Name: "warc_record_length_sum", Type: tabular.Int64}, some("fetch_time_ms_av"),
		some("fetch_time_ms_median"), text("content_signal"))
}()

// hostTotals are the totals of a host.
type hostTotals struct {
	key, host string
	statuses  [2][len(statusNames)]int64 // of pages, of robots.txt
	lengths   sample                     // of records in warc
	bytes     int64                      // of all records
	millis    sample
	languages map[string]int64
	signal    string // the last one in time
	signalAt  int64
}

// sample has the mean of numbers, and their median. Of more than maxSample it keeps every second one, and again every
// second of these when it is full.
type sample struct {
	n, sum, stride int64
	kept           []int64
}

// maxSample bounds a sample to 2 MB. The numbers of a host come sorted in part, so the median stays close.
const maxSample = 1 << 18

func (s *sample) add(n int64) {
	if s.stride == 0 {
		s.stride = 1
	}
	if s.n%s.stride == 0 {
		if len(s.kept) == maxSample {
			for i := range maxSample / 2 {
				s.kept[i] = s.kept[2*i]
			}
			s.kept, s.stride = s.kept[:maxSample/2], 2*s.stride
		}
		if s.n%s.stride == 0 {
			s.kept = append(s.kept, n)
		}
	}
	s.n++
	s.sum += n
}

// values returns mean and median; null without numbers.
func (s *sample) values() (mean, median tabular.Value) {
	if s.n == 0 {
		return tabular.Null, tabular.Null
	}
	slices.Sort(s.kept)
	return tabular.Int(s.sum / s.n), tabular.Int(s.kept[len(s.kept)/2])
}

// add adds the values of a line, behind its key.
func (t *hostTotals) add(fields []string) error {
	at, err1 := strconv.ParseInt(fields[0], 10, 64)
	to, err2 := strconv.Atoi(fields[1])
	status, err3 := strconv.Atoi(fields[2])
	length, err4 := strconv.ParseInt(fields[3], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	kind := 0
	if Subset(to) == Robots {
		kind = 1
	}
	t.statuses[kind][statusClass(status)]++
	t.bytes += length
	if Subset(to) == Pages {
		t.lengths.add(length)
	}
	if millis, err := strconv.ParseInt(fields[4], 10, 64); err == nil {
		t.millis.add(millis)
	}
	if code := fields[5]; code != "" {
		t.languages[code]++
	}
	if fields[6] != "" && at >= t.signalAt {
		t.signal, t.signalAt = fields[6], at
	}
	return nil
}

// row returns the row of the host.
func (t *hostTotals) row(j *job) []tabular.Value {
	host := j.appendHost(nil, t.host)
	v := []tabular.Value{tabular.Str(t.key), host[0], host[1], host[2+hostParts]}
	for _, kind := range t.statuses {
		for _, n := range kind {
			v = append(v, tabular.Int(n))
		}
	}
	all, top, code := int64(0), int64(0), ""
	for _, c := range slices.Sorted(maps.Keys(t.languages)) {
		n := t.languages[c]
		if all += n; n > top {
			top, code = n, c
		}
	}
	other, share, topShare := all-t.languages["eng"], tabular.Null, tabular.Null
	if all > 0 {
		share, topShare = tabular.Int(100*other/all), tabular.Int(100*top/all)
	}
	length, medianLength := t.lengths.values()
	millis, medianMillis := t.millis.values()
	return append(v, tabular.Int(other), share, tabular.StrOrNull(code), topShare, length, medianLength,
		tabular.Int(t.bytes), millis, medianMillis, tabular.StrOrNull(t.signal))
}

// hosts writes the host index.
func (j *job) hosts(ctx context.Context, parts []*part) (_ []file, err error) {
	sorter := extsort.New(extsort.Options{FS: j.opt.FS, Dir: j.opt.TempDir + "/sort", RAMBytes: j.opt.RAMBytes / 4})
	table := tableWriter{j: j, columns: hostColumns, dir: "host-index/crawl=" + j.report.Name}
	defer func() {
		if table.out != nil {
			table.out.Abort()
		}
		err = errors.Join(err, sorter.Close())
	}()
	for _, p := range parts {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := addLines(j.opt.FS, sorter, p.path+hostsSuffix, p.Hosts); err != nil {
			return nil, err
		}
	}
	if err := sorter.Sort(); err != nil {
		return nil, err
	}
	var t *hostTotals
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line, err := sorter.Next()
		if err != nil {
			return nil, err
		}
		fields := strings.Split(string(line), "\t")
		if t != nil && (line == nil || t.key != fields[0]) {
			if err := table.write(t.row(j)); err != nil {
				return nil, err
			}
			t = nil
		}
		if line == nil {
			break
		}
		if len(fields) != 9 {
			return nil, fmt.Errorf("publish: the line %.200q of a host", line)
		}
		if t == nil {
			t = &hostTotals{key: fields[0], host: fields[1], languages: map[string]int64{}}
		}
		if err := t.add(fields[2:]); err != nil {
			return nil, fmt.Errorf("publish: the line %.200q of a host: %w", line, err)
		}
	}
	err = table.end()
	return table.files, err
}
