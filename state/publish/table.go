package publish

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/internal/tabular"
	"drumbeat/weburl"
)

// tableColumns are those of Common Crawl's columnar index (cc-index-table, flat schema), in its order. crawl and subset
// are in the names of directories.
var tableColumns = []tabular.Column{
	{Name: "url_surtkey", Type: tabular.String},
	{Name: "url", Type: tabular.String},
	{Name: "url_host_name", Type: tabular.String, Few: true},
	{Name: "url_host_tld", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_2nd_last_part", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_3rd_last_part", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_4th_last_part", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_5th_last_part", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_registry_suffix", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_registered_domain", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_private_suffix", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_private_domain", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_host_name_reversed", Type: tabular.String, Nullable: true, Few: true},
	{Name: "url_protocol", Type: tabular.String, Few: true},
	{Name: "url_port", Type: tabular.Int64, Bits: 32, Nullable: true},
	{Name: "url_path", Type: tabular.String},
	{Name: "url_query", Type: tabular.String, Nullable: true},
	{Name: "fetch_time", Type: tabular.Time},
	{Name: "fetch_status", Type: tabular.Int64, Bits: 16},
	{Name: "fetch_redirect", Type: tabular.String, Nullable: true},
	{Name: "content_digest", Type: tabular.String, Nullable: true},
	{Name: "content_mime_type", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_mime_detected", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_charset", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_languages", Type: tabular.String, Nullable: true, Few: true},
	{Name: "content_truncated", Type: tabular.String, Nullable: true, Few: true},
	{Name: "warc_record_id", Type: tabular.Binary},
	{Name: "warc_filename", Type: tabular.String, Few: true},
	{Name: "warc_record_offset", Type: tabular.Int64, Bits: 32},
	{Name: "warc_record_length", Type: tabular.Int64, Bits: 32},
	{Name: "warc_segment", Type: tabular.String, Few: true},
}

// tableRows is the number of rows of a file of a table, some 300 MB.
const tableRows = 4e6

// tableWriter writes a table to files in a directory of the tree.
type tableWriter struct {
	j       *job
	dir     string
	columns []tabular.Column
	files   []file // that are complete
	out     *output
	rows    *tabular.Writer
	count   int64 // of rows in the open file
}

// write adds a row.
func (t *tableWriter) write(row []tabular.Value) (err error) {
	if t.out == nil {
		if t.out, err = t.j.create(fmt.Sprintf("%s/part-%05d.parquet", t.dir, len(t.files))); err != nil {
			return err
		}
		if t.rows, err = tabular.NewStream(t.out, tabular.Options{Format: tabular.Parquet, Columns: t.columns,
			GroupBytes: t.j.opt.RAMBytes / 16}); err != nil {
			return err
		}
	}
	if err := t.rows.Write(row); err != nil {
		return err
	}
	if t.count++; t.count == tableRows {
		return t.end()
	}
	return nil
}

// end ends the open file.
func (t *tableWriter) end() error {
	if t.out == nil {
		return nil
	}
	if err := t.rows.Close(); err != nil {
		return err
	}
	f, err := t.out.close()
	t.files, t.out, t.count = append(t.files, f), nil, 0
	return err
}

// row appends the row of a capture in a segment.
func (j *job) row(v []tabular.Value, key []byte, at time.Time, c *captured,
	segment string) ([]tabular.Value, error) {
	url := weburl.Split([]byte(c.URL))
	v = append(v, tabular.Text(key), tabular.Str(c.URL))
	v = j.appendHost(v, string(bytes.TrimSuffix(url.Host, []byte{'.'})))
	path, query, hasQuery := bytes.Cut(url.Path, []byte{'?'})
	port, queryValue := tabular.Null, tabular.Null
	if usual := map[string]uint16{"http": 80, "https": 443}[string(url.Scheme)]; url.Port != usual {
		port = tabular.Int(int64(url.Port))
	}
	if hasQuery {
		queryValue = tabular.Text(query)
	}
	status, err1 := strconv.ParseInt(c.Status, 10, 16)
	offset, err2 := strconv.ParseInt(c.Offset, 10, 32)
	length, err3 := strconv.ParseInt(c.Length, 10, 32)
	id, err4 := hex.DecodeString(strings.ReplaceAll(c.RecordID, "-", ""))
	return append(v, tabular.Text(url.Scheme), port, tabular.Text(path), queryValue, tabular.At(at),
			tabular.Int(status), tabular.StrOrNull(c.Redirect), tabular.StrOrNull(c.Digest), tabular.StrOrNull(c.MIME),
			tabular.StrOrNull(c.Detected), tabular.StrOrNull(c.Charset), tabular.StrOrNull(c.Languages),
			tabular.StrOrNull(c.Truncated), tabular.Bytes(id), tabular.Str(c.Filename), tabular.Int(offset),
			tabular.Int(length), tabular.Str(segment)),
		errors.Join(err1, err2, err3, err4)
}

// hostParts is the number of columns for the last labels of a host.
const hostParts = 5

// appendHost appends the values of a host, from its name to its reversed name. An address has its name alone.
func (j *job) appendHost(v []tabular.Value, host string) []tabular.Value {
	v = append(v, tabular.Str(host))
	if weburl.IsAddress(host) {
		for range hostParts + 5 {
			v = append(v, tabular.Null)
		}
		return v
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	for i := range hostParts {
		if i < len(labels) {
			v = append(v, tabular.Str(labels[i]))
		} else {
			v = append(v, tabular.Null)
		}
	}
	for _, list := range []*weburl.Suffixes{j.icann, j.all} {
		suffix, domain := host, ""
		if !list.IsSuffix(host) {
			domain = list.PLD(host)
			_, suffix, _ = strings.Cut(domain, ".")
		}
		v = append(v, tabular.StrOrNull(suffix), tabular.StrOrNull(domain))
	}
	return append(v, tabular.Str(strings.Join(labels, ".")))
}

// bothSuffixes returns a list without and with the suffixes of private registries.
func bothSuffixes(list *weburl.Suffixes) (icann, all *weburl.Suffixes, err error) {
	var text bytes.Buffer
	_, _ = list.WriteTo(&text) // a Buffer does not fail
	icann, err1 := weburl.LoadSuffixes(text.Bytes(), false)
	all, err2 := weburl.LoadSuffixes(text.Bytes(), true)
	return icann, all, errors.Join(err1, err2)
}
