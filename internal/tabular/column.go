package tabular

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of the files that ReadColumn reads. The library trusts the sizes in a file, so they are checked before.
const (
	maxFooter     = 32 << 20 // bytes; some 250,000 column chunks
	maxParts      = 1 << 19  // structs in lists of the footer, some 600 bytes of RAM each
	maxDepth      = 16       // of structs and lists in the footer
	maxPage       = 64 << 20 // bytes, packed and unpacked
	maxPageValues = 16 << 20
	maxPageHead   = 1 << 20 // bytes of a page's header; its statistics may have two values
	namesShown    = 20      // columns in an error
)

// ReadColumn calls fn with each value of a column of text in a file of Parquet, nil for null, in order. The bytes are
// valid during the call. It reads files with flat or nested other columns, whose pages are not compressed, or by
// Snappy, gzip or Zstandard. It takes at most some 400 MiB of RAM, for pages of 64 MiB; pages usually have 1 MiB. An
// error of fn ends it and is returned.
func ReadColumn(in io.ReaderAt, size int64, name string, fn func(text []byte) error) (err error) {
	var ours error // of fn
	defer func() {
		if p := recover(); p != nil { // the library panics for some damaged files
			err = fmt.Errorf("damaged: %v", p)
		}
		if err != nil && ours == nil {
			err = fmt.Errorf("tabular: parquet: %w", err)
		}
	}()
	if err := checkFooter(in, size); err != nil {
		return err
	}
	file, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	column := file.Root().Column(name)
	switch {
	case column == nil:
		return fmt.Errorf("no column %s, only %s", name, columnNames(file))
	case !column.Leaf() || column.Repeated() || column.Type().Kind() != parquet.ByteArray:
		return fmt.Errorf("column %s is not one of text", name)
	}
	values := make([]parquet.Value, batchRows)
	for i, group := range file.RowGroups() {
		chunk := &file.Metadata().RowGroups[i].Columns[column.Index()].MetaData
		if err := checkPages(in, size, chunk, column.Optional()); err != nil {
			return fmt.Errorf("column %s of row group %d: %w", name, i, err)
		}
		if ours, err = eachValue(group.ColumnChunks()[column.Index()].Pages(), values, fn); ours != nil {
			return ours
		} else if err != nil {
			return err
		}
	}
	return nil
}

// columnNames returns the names of a file's columns, for an error.
func columnNames(file *parquet.File) string {
	var names []string
	for _, c := range file.Root().Columns() {
		if len(names) == namesShown {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%.60q", c.Name()))
	}
	return strings.Join(names, ", ")
}

// eachValue calls fn with the values of a column chunk. ours is an error of fn.
func eachValue(pages parquet.Pages, values []parquet.Value, fn func([]byte) error) (ours, err error) {
	defer func() { err = errors.Join(err, pages.Close()) }()
	for {
		page, err := pages.ReadPage()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return nil, err
		}
		from := page.Values()
		for end := error(nil); end == nil; {
			var n int
			n, end = from.ReadValues(values)
			if end != nil && end != io.EOF {
				return nil, end
			}
			for _, v := range values[:n] {
				var text []byte
				if !v.IsNull() {
					text = v.ByteArray()
				}
				if err := fn(text); err != nil {
					return err, nil
				}
			}
		}
		parquet.Release(page)
	}
}

// checkPages checks the sizes of the pages of a column chunk.
func checkPages(in io.ReaderAt, size int64, chunk *format.ColumnMetaData, optional bool) error {
	at := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		at = chunk.DictionaryPageOffset
	}
	end := at + chunk.TotalCompressedSize
	if at < 0 || chunk.TotalCompressedSize < 0 || end < at || end > size {
		return fmt.Errorf("damaged: its pages are outside of the file")
	}
	for at < end {
		header, length, err := pageHeader(in, at, end)
		if err != nil {
			return fmt.Errorf("damaged: the header of the page at %d: %w", at, err)
		}
		packed, unpacked := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
		values := max(header.DataPageHeader.V.NumValues, header.DataPageHeaderV2.V.NumValues,
			header.DictionaryPageHeader.V.NumValues)
		if packed > maxPage || unpacked > maxPage || values > maxPageValues {
			return fmt.Errorf("the page at %d has %d bytes (%d unpacked) and %d values, want at most %d and %d", at,
				packed, unpacked, values, maxPage, maxPageValues)
		}
		if at += length; packed < 0 || unpacked < 0 || at+packed > end {
			return fmt.Errorf("damaged: the page at %d has %d bytes", at, packed)
		}
		data, err := unpack(in, at, header, chunk.Codec)
		if err == nil {
			err = checkEncoding(header, data, optional)
		}
		if err != nil {
			return fmt.Errorf("the page at %d: %w", at, err)
		}
		at += packed
	}
	return nil
}

// pageHeader decodes the header of a page. It reads more bytes as long as they do not suffice.
func pageHeader(in io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	for most := int64(4 << 10); ; most *= 16 {
		b := make([]byte, min(most, end-at))
		if _, err := in.ReadAt(b, at); err != nil && err != io.EOF {
			return nil, 0, err
		}
		var protocol thrift.CompactProtocol
		r := protocol.NewReaderFromBytes(b)
		header := new(format.PageHeader)
		err := thrift.NewDecoder(r).Decode(header)
		if err == nil || int64(len(b)) == end-at || most >= maxPageHead {
			return header, int64(r.BytesRead()), err
		}
	}
}

// unpack returns the data of a page without its levels in version 2, which are not compressed, and checks that it has
// the size that the header states: the library would unpack any amount.
func unpack(in io.ReaderAt, at int64, header *format.PageHeader, codec format.CompressionCodec) ([]byte, error) {
	packed, want := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	if v2 := header.DataPageHeaderV2; v2.Valid {
		levels := int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if levels < 0 || levels > packed || levels > want {
			return nil, fmt.Errorf("damaged: %d bytes of levels", levels)
		}
		if at, packed, want = at+levels, packed-levels, want-levels; !v2.V.IsCompressed.V && v2.V.IsCompressed.Valid {
			codec = format.Uncompressed
		}
	}
	b := make([]byte, packed)
	if _, err := in.ReadAt(b, at); err != nil && err != io.EOF {
		return nil, err
	}
	var err error
	switch codec {
	case format.Uncompressed:
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(b); err == nil && int64(n) == want {
			b, err = snappy.Decode(nil, b)
		}
	case format.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(io.LimitReader(z, want+1))
		}
	case format.Zstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxPage))
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(z, want+1))
			z.Close()
		}
	default:
		return nil, fmt.Errorf("compressed by %s, want none, SNAPPY, GZIP or ZSTD", codec)
	}
	if err == nil && int64(len(b)) != want && packed > 0 {
		err = fmt.Errorf("it has not the %d bytes that its header states", want)
	}
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	return b, nil
}

// checkEncoding refuses encodings by which a small page can have any size in RAM.
func checkEncoding(header *format.PageHeader, data []byte, optional bool) error {
	encoding := max(header.DataPageHeader.V.Encoding, header.DataPageHeaderV2.V.Encoding)
	switch encoding {
	//lint:ignore SA1019 files of the first version of Parquet have it
	case format.Plain, format.PlainDictionary, format.RLEDictionary:
		return nil
	case format.DeltaLengthByteArray:
	default:
		return fmt.Errorf("encoded as %s, want PLAIN, a dictionary or DELTA_LENGTH_BYTE_ARRAY", encoding)
	}
	if header.DataPageHeader.Valid && optional { // its levels, after their length
		if len(data) < 4 || int64(len(data)-4) < int64(binary.LittleEndian.Uint32(data)) {
			return errors.New("damaged: its levels are longer than the page")
		}
		data = data[4+binary.LittleEndian.Uint32(data):]
	}
	w := thriftWalk{b: data}
	_, _ = w.varint() // values in a block
	_, _ = w.varint() // parts of a block
	if n, ok := w.varint(); len(data) > 0 && (!ok || n > maxPageValues) {
		return fmt.Errorf("damaged: %d lengths, want at most %d", n, maxPageValues)
	}
	return nil
}

// checkFooter checks the size of a file's metadata, and the lengths of the lists in it.
func checkFooter(in io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < int64(len(tail))+4 {
		return fmt.Errorf("damaged: a file of %d bytes", size)
	}
	if _, err := in.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return err
	}
	if string(tail[4:]) == "PARE" {
		return errors.New("the file is encrypted")
	} else if string(tail[4:]) != "PAR1" {
		return errors.New("damaged: the file does not end with PAR1; it may be cut off")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > maxFooter || n > size-12 {
		return fmt.Errorf("metadata of %d bytes in a file of %d, want at most %d", n, size, maxFooter)
	}
	b := make([]byte, n)
	if _, err := in.ReadAt(b, size-8-n); err != nil && err != io.EOF {
		return err
	}
	w := thriftWalk{b: b, parts: maxParts}
	if !w.value(thriftStruct, 0) {
		return errors.New("damaged: its metadata is no Thrift struct, or too large")
	}
	return nil
}

// thriftWalk checks that a value in Thrift's compact protocol fits into its bytes, with limits.
type thriftWalk struct {
	b     []byte
	parts int // structs in lists that are still allowed
}

// Types of the compact protocol (thrift-compact-protocol.md of Apache Thrift).
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

func (w *thriftWalk) skip(n uint64) bool {
	if n > uint64(len(w.b)) {
		return false
	}
	w.b = w.b[n:]
	return true
}

func (w *thriftWalk) varint() (uint64, bool) {
	v, n := binary.Uvarint(w.b)
	return v, n > 0 && w.skip(uint64(n))
}

func (w *thriftWalk) next() (byte, bool) {
	if len(w.b) == 0 {
		return 0, false
	}
	c := w.b[0]
	w.b = w.b[1:]
	return c, true
}

// value goes beyond a value. Parquet's metadata has no maps.
func (w *thriftWalk) value(kind byte, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch {
	case kind == thriftByte:
		return w.skip(1)
	case kind > thriftByte && kind <= thriftI64:
		_, ok := w.varint()
		return ok
	case kind == thriftDouble:
		return w.skip(8)
	case kind == thriftBinary:
		n, ok := w.varint()
		return ok && w.skip(n)
	case kind == thriftList || kind == thriftSet:
		return w.list(depth)
	case kind != thriftStruct:
		return false
	}
	for {
		head, ok := w.next()
		if !ok || head == 0 {
			return ok
		}
		if head>>4 == 0 { // the field's number follows
			if _, ok := w.varint(); !ok {
				return false
			}
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse && !w.value(kind, depth+1) {
			return false
		}
	}
}

func (w *thriftWalk) list(depth int) bool {
	head, ok := w.next()
	n, kind := uint64(head>>4), head&15
	if ok && n == 15 {
		n, ok = w.varint()
	}
	if !ok || n > uint64(len(w.b)) {
		return false
	}
	if kind == thriftTrue || kind == thriftFalse {
		return w.skip(n)
	}
	if kind == thriftStruct || kind == thriftList {
		if w.parts -= int(n); w.parts < 0 {
			return false
		}
	}
	for range n {
		if !w.value(kind, depth+1) {
			return false
		}
	}
	return true
}

// IsParquet reports whether a file that begins with head is one of Parquet, also an encrypted one.
func IsParquet(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PAR1")) || bytes.HasPrefix(head, []byte("PARE"))
}
