package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"

	"drumbeat/internal/damage"
)

// indexRow has some of the columns of Common Crawl's columnar index, with a nested one beside.
type indexRow struct {
	Key    string   `parquet:"url_surtkey"`
	URL    *string  `parquet:"url"`
	Status int16    `parquet:"fetch_status"`
	Tags   []string `parquet:"tags,list"`
}

// indexFile returns a file of Parquet with n rows, every tenth without a URL, and the URLs, "null" for none.
func indexFile(t testing.TB, n int, options ...parquet.WriterOption) (data []byte, urls []string) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[indexRow](&b, options...)
	for i := range n {
		row := indexRow{Key: fmt.Sprint(i), Status: 200, Tags: []string{"a", "b"}}
		url := "null"
		if i%10 != 9 {
			url = fmt.Sprintf("http://h%d.test/%d", i%7, i)
			row.URL = &url
		}
		urls = append(urls, url)
		_, err := w.Write([]indexRow{row})
		must(t, err)
		if i%400 == 399 {
			must(t, w.Flush())
		}
	}
	must(t, w.Close())
	return b.Bytes(), urls
}

func readColumn(data []byte, name string) (got []string, err error) {
	err = ReadColumn(bytes.NewReader(data), int64(len(data)), name, func(text []byte) error {
		if text == nil {
			text = []byte("null")
		}
		got = append(got, string(text))
		return nil
	})
	return got, err
}

// TestReadColumn: each value of a column is read, from pages of both versions, with and without a dictionary, under
// all compressions that indexes have.
func TestReadColumn(t *testing.T) {
	plain := parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.Plain)
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		for version := range 4 {
			options := []parquet.WriterOption{parquet.Compression(codec), parquet.DataPageVersion(version/2 + 1),
				parquet.PageBufferSize(1000)}
			if version%2 == 1 {
				options = append(options, plain)
			}
			data, want := indexFile(t, 1000, options...)
			if got, err := readColumn(data, "url"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, form %d: %d values, want %d, %v", codec, version, len(got), len(want), err)
			}
		}
	}
	var own bytes.Buffer // a dictionary, as exports have it
	w := newParquet(columns, "zstd", 1<<20)
	w.begin(&own)
	rows := makeRows(random(t), 300)
	var want []string
	for _, row := range rows {
		_, err := w.add(row, 100)
		must(t, err)
		mime := "null"
		if !row[1].IsNull() {
			mime = string(row[1].text)
		}
		want = append(want, mime)
	}
	must(t, w.end())
	got, err := readColumn(own.Bytes(), "mime")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("of an export: %d values, want %d, %v", len(got), len(want), err)
	}
	stop := errors.New("stop")
	err = ReadColumn(bytes.NewReader(own.Bytes()), int64(own.Len()), "mime", func([]byte) error { return stop })
	if err != stop {
		t.Errorf("an error of the caller: %v", err)
	}
}

// TestReadColumnRefuses: other files get an error that says what they have.
func TestReadColumnRefuses(t *testing.T) {
	data, _ := indexFile(t, 100)
	brotli, _ := indexFile(t, 100, parquet.Compression(&parquet.Brotli))
	delta, _ := indexFile(t, 100, parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.DeltaByteArray))
	footer := func(n int, b []byte) []byte {
		size := []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
		return slices.Concat([]byte("PAR1"), b, size, []byte("PAR1"))
	}
	for _, c := range []struct {
		what, column string
		data         []byte
		want         string
	}{
		{"another column", "uri", data, `no column uri, only "url_surtkey", "url", "fetch_status", "tags"`},
		{"a column of numbers", "fetch_status", data, "not one of text"},
		{"a nested column", "tags", data, "not one of text"},
		{"cut off", "url", data[:len(data)-100], "does not end with PAR1"},
		{"short", "url", data[:7], "a file of 7 bytes"},
		{"encrypted", "url", append(data[:len(data)-4:len(data)-4], "PARE"...), "encrypted"},
		{"brotli", "url", brotli, "compressed by BROTLI, want none, SNAPPY, GZIP or ZSTD"},
		{"delta", "url", delta, "encoded as DELTA_BYTE_ARRAY, want PLAIN, a dictionary"},
		{"a large footer", "url", footer(1<<30, nil), "metadata of 1073741824 bytes"},
		// A list of 2^31-1 structs in 6 bytes: field 2, a list, its length, no elements.
		{"a long list", "url", footer(8, []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0}), "too large"},
		{"deep", "url", footer(100, bytes.Repeat([]byte{0x1c}, 100)), "too large"},
	} {
		got, err := readColumn(c.data, c.column)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// TestReadColumnDamaged: a file with changed bytes gives an error or some rows, and takes no more RAM than the limits.
// A changed byte of a page is found by its checksum, so rows are those of the file.
func TestReadColumnDamaged(t *testing.T) {
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		data, _ := indexFile(t, 100, parquet.Compression(codec))
		for at := range data {
			for _, b := range []byte{0, 0x7f, 0xff} {
				broken := slices.Clone(data)
				broken[at] ^= b
				checkDamaged(t, broken)
			}
		}
	}
}

func checkDamaged(t testing.TB, data []byte) {
	t.Helper()
	const most = 1 << 30
	if n := damage.Allocated(func() { _, _ = readColumn(data, "url") }); n > most {
		t.Errorf("allocated %d bytes", n)
	}
}

func FuzzReadColumn(f *testing.F) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		data, _ := indexFile(f, 30, parquet.Compression(codec))
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkDamaged(t, data) })
}

// TestReadColumnBomb: a page that unpacks to more than its header states is refused before it is unpacked.
func TestReadColumnBomb(t *testing.T) {
	for _, codec := range []compress.Codec{&parquet.Gzip, &parquet.Zstd, &parquet.Snappy} {
		packed, err := codec.Encode(nil, make([]byte, 1<<20))
		must(t, err)
		for size, want := range map[int32]string{1 << 20: "", 1000: "not the 1000 bytes"} {
			head := &format.PageHeader{CompressedPageSize: int32(len(packed)), UncompressedPageSize: size}
			_, err := unpack(bytes.NewReader(packed), 0, head, codec.CompressionCodec())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", codec, err, want)
			}
		}
	}
	head := &format.PageHeader{}
	head.DataPageHeader.Valid, head.DataPageHeader.V.Encoding = true, format.DeltaLengthByteArray
	lengths := []byte{128, 1, 4, 0xff, 0xff, 0xff, 0xff, 7, 0} // 2^31-1 of them
	if err := checkEncoding(head, lengths, false); err == nil || !strings.Contains(err.Error(), "2147483647 lengths") {
		t.Error(err)
	}
	lengths = append([]byte{3, 0, 0, 0, 1, 2, 3}, lengths...)
	if err := checkEncoding(head, lengths, true); err == nil || !strings.Contains(err.Error(), "2147483647 lengths") {
		t.Error("after levels:", err)
	}
}
