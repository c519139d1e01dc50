package tabular

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// Cell is a value of a row that Filter passes on. The zero Value of Set leaves it as it is.
type Cell struct {
	Text []byte // of a string; of numbers in CSV and JSON their text
	Int  int64  // of an integer in Parquet
	set  Value
	edit bool
}

// Number returns the integer in a cell.
func (c *Cell) Number() (int64, error) {
	if len(c.Text) == 0 {
		return c.Int, nil
	}
	return strconv.ParseInt(string(c.Text), 10, 64)
}

// Set replaces the value. In a Parquet column that has no null, null is the empty string.
func (c *Cell) Set(v Value) { c.set, c.edit = v, true }

// maxFilteredRow bounds a row of CSV or JSON lines, in bytes: one of MaxRowBytes with each byte escaped.
const maxFilteredRow = 8 << 20

// Filter copies one part of a table: row says of each row whether it stays, and may replace its cells. begin gets the
// names of the columns. Rows of CSV and JSON lines without a change keep their bytes; Parquet keeps its schema,
// metadata and row groups. With a nil out it only reads. It takes the memory of a row group of Parquet, else of a row.
func Filter(format Format, in io.ReaderAt, size int64, out io.Writer, begin func(columns []string) error,
	row func(cells []Cell) (keep bool, err error)) error {
	if out == nil {
		out = io.Discard
	}
	f := &filter{in: bufio.NewReaderSize(io.NewSectionReader(in, 0, size), bufferBytes), out: bufio.NewWriter(out),
		begin: begin, row: row}
	var err error
	switch format {
	case Parquet:
		return f.parquet(in, size, out)
	case CSV:
		err = f.csv()
	case JSONL:
		err = f.jsonl()
	default:
		err = fmt.Errorf("no filter for the format %s", format)
	}
	if err != nil {
		return fmt.Errorf("tabular: %w", err)
	}
	return f.out.Flush()
}

type filter struct {
	in    *bufio.Reader
	out   *bufio.Writer
	begin func([]string) error
	row   func([]Cell) (bool, error)
	line  []byte
	cells []Cell
	spans []span // of the cells in line
	at    int64
}

// span is where the bytes of a value are in a line.
type span struct{ from, to int }

// next reads a row of text, up to a line feed that is not within quotes if quoted is set.
func (f *filter) next(quoted bool) (ok bool, err error) {
	f.line = f.line[:0]
	quotes := 0
	for {
		part, err := f.in.ReadSlice('\n')
		f.line = append(f.line, part...)
		f.at += int64(len(part))
		if len(f.line) > maxFilteredRow {
			return false, fmt.Errorf("a row of more than %d bytes at %d", maxFilteredRow, f.at)
		}
		if quoted {
			quotes += bytes.Count(part, []byte{'"'})
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || err == nil && quotes%2 == 1:
		case errors.Is(err, io.EOF) && quotes%2 == 1:
			return false, fmt.Errorf("quotes that do not end at %d", f.at)
		case err != nil && !errors.Is(err, io.EOF):
			return false, err
		default:
			return len(f.line) > 0, nil
		}
	}
}

func (f *filter) csv() error {
	columns := 0
	for {
		ok, err := f.next(true)
		if err != nil || !ok {
			return err
		}
		f.splitCSV()
		if columns == 0 {
			var names []string
			for i := range f.cells {
				names = append(names, string(f.cells[i].Text))
			}
			columns = len(names)
			if err := f.begin(names); err != nil {
				return err
			}
			if _, err := f.out.Write(f.line); err != nil {
				return err
			}
			continue
		}
		if len(f.cells) != columns {
			return fmt.Errorf("a row of %d values before %d, want %d", len(f.cells), f.at, columns)
		}
		if err := f.write(func(dst []byte, v Value) []byte {
			text := appendCSV(dst, []Value{v})
			return text[:len(text)-1]
		}); err != nil {
			return err
		}
	}
}

// splitCSV finds the cells of a row (RFC 4180).
func (f *filter) splitCSV() {
	f.cells, f.spans = f.cells[:0], f.spans[:0]
	line := bytes.TrimRight(f.line, "\r\n")
	for at := 0; ; at++ {
		from, quoted := at, false
		for at < len(line) && (quoted || line[at] != ',') {
			if line[at] == '"' {
				quoted = !quoted
			}
			at++
		}
		text := line[from:at]
		if len(text) >= 2 && text[0] == '"' {
			text = bytes.ReplaceAll(text[1:len(text)-1], []byte(`""`), []byte{'"'})
		}
		f.cells, f.spans = append(f.cells, Cell{Text: text}), append(f.spans, span{from, at})
		if at >= len(line) {
			return
		}
	}
}

func (f *filter) jsonl() error {
	var columns []string
	for {
		ok, err := f.next(false)
		if err != nil || !ok {
			return err
		}
		names, err := f.splitJSON()
		if err != nil {
			return fmt.Errorf("the line before %d: %w", f.at, err)
		}
		if columns == nil {
			columns = names
			if err := f.begin(names); err != nil {
				return err
			}
		}
		if !slices.Equal(columns, names) {
			return fmt.Errorf("the line before %d has other names than the first one", f.at)
		}
		if err := f.write(func(dst []byte, v Value) []byte {
			text := appendJSON(dst, []Column{{}}, []Value{v})
			return text[len(dst)+len(`{"":`) : len(text)-len("}\n")]
		}); err != nil {
			return err
		}
	}
}

// splitJSON finds the cells of a line: the values of an object. It returns their names.
func (f *filter) splitJSON() (names []string, err error) {
	f.cells, f.spans = f.cells[:0], f.spans[:0]
	d := json.NewDecoder(bytes.NewReader(f.line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	for d.More() {
		name, err := d.Token()
		var raw json.RawMessage
		if err == nil {
			err = d.Decode(&raw)
		}
		if err != nil {
			return nil, err
		}
		to := int(d.InputOffset())
		names = append(names, fmt.Sprint(name))
		cell := Cell{Text: raw}
		switch raw[0] {
		case '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, err
			}
			cell.Text = []byte(text)
		case 'n':
			cell.Text = nil
		}
		f.cells, f.spans = append(f.cells, cell), append(f.spans, span{to - len(raw), to})
	}
	_, err = d.Token()
	return names, err
}

// write writes a row with the cells that were replaced, or leaves it out.
func (f *filter) write(appendValue func(dst []byte, v Value) []byte) error {
	keep, err := f.row(f.cells)
	if err != nil || !keep {
		return err
	}
	at := 0
	for i := range f.cells {
		if c := &f.cells[i]; c.edit {
			if _, err := f.out.Write(f.line[at:f.spans[i].from]); err != nil {
				return err
			}
			if _, err := f.out.Write(appendValue(nil, c.set)); err != nil {
				return err
			}
			at = f.spans[i].to
		}
	}
	_, err = f.out.Write(f.line[at:])
	return err
}

// parquet copies a file of Parquet with flat columns.
func (f *filter) parquet(in io.ReaderAt, size int64, out io.Writer) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("tabular: parquet: %w", err)
		}
	}()
	file, err := parquet.OpenFile(in, size)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range file.Root().Columns() {
		if !c.Leaf() || c.Repeated() {
			return fmt.Errorf("column %s has parts or repeats", c.Name())
		}
		names = append(names, c.Name())
	}
	if err := f.begin(names); err != nil {
		return err
	}
	options := []parquet.WriterOption{file.Schema(), parquet.PageBufferSize(pageBytes),
		parquet.DictionaryMaxBytes(dictionaryMax), parquet.CreatedBy("drumbeat", "", "")}
	for _, pair := range file.Metadata().KeyValueMetadata {
		options = append(options, parquet.KeyValueMetadata(pair.Key, pair.Value))
	}
	w := parquet.NewGenericWriter[any](out, options...)
	for _, group := range file.RowGroups() {
		if err := f.group(w, group, len(names)); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return w.Close()
}

// group copies a row group.
func (f *filter) group(w *parquet.GenericWriter[any], group parquet.RowGroup, columns int) error {
	rows := group.Rows()
	defer rows.Close()
	batch := make([]parquet.Row, batchRows)
	for {
		n, err := rows.ReadRows(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		kept := batch[:0:0]
		for _, row := range batch[:n] {
			if len(row) != columns {
				return fmt.Errorf("a row of %d values, want %d", len(row), columns)
			}
			keep, err := f.parquetRow(row)
			if err != nil {
				return err
			}
			if keep {
				kept = append(kept, row)
			}
		}
		if _, err := w.WriteRows(kept); err != nil {
			return err
		}
		if n == 0 || err != nil {
			return nil
		}
	}
}

// parquetRow passes on a row, and takes the cells that were replaced.
func (f *filter) parquetRow(row parquet.Row) (keep bool, err error) {
	f.cells = f.cells[:0]
	for _, v := range row {
		var c Cell
		switch {
		case v.IsNull():
		case v.Kind() == parquet.ByteArray:
			c.Text = v.ByteArray()
		case v.Kind() == parquet.Int64:
			c.Int = v.Int64()
		}
		f.cells = append(f.cells, c)
	}
	keep, err = f.row(f.cells)
	for i := range f.cells {
		c := &f.cells[i]
		if !c.edit {
			continue
		}
		old, cell, present := row[i], parquet.Value{}, 0
		switch c.set.kind {
		case String:
			cell, present = parquet.ByteArrayValue(c.set.text), old.DefinitionLevel()
		case Int64:
			cell, present = parquet.Int64Value(c.set.int()), old.DefinitionLevel()
		default:
			if old.DefinitionLevel() == 0 && !old.IsNull() {
				cell = parquet.ByteArrayValue(nil)
			}
		}
		row[i] = cell.Level(0, present, old.Column())
	}
	return keep, err
}
