package tabular

import (
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

const (
	batchRows     = 256     // rows handed to the library at once
	batchBytes    = 1 << 20 // text of such rows
	pageBytes     = 256 << 10
	dictionaryMax = 1 << 20 // bytes; a column with more distinct text continues without a dictionary
)

// parquetTable writes row groups to one file after the other.
type parquetTable struct {
	w      *parquet.GenericWriter[any]
	limit  int64 // of a row group, in bytes of rows
	rows   []parquet.Row
	values []parquet.Value // of rows
	arena  []byte          // text of rows
	null   []bool
	narrow []bool // INT32
	group  int64  // bytes of the rows in the open row group
	count  int    // of rows in use
}

// newParquet returns the writer of a table with these columns.
func newParquet(columns []Column, compression string, limit int64) *parquetTable {
	p := &parquetTable{limit: limit, rows: make([]parquet.Row, batchRows)}
	p.values = make([]parquet.Value, batchRows*len(columns))
	for i := range p.rows {
		p.rows[i] = p.values[i*len(columns) : (i+1)*len(columns)]
	}
	for _, c := range columns {
		p.null = append(p.null, c.Nullable)
		p.narrow = append(p.narrow, c.Bits != 0)
	}
	p.w = parquet.NewGenericWriter[any](io.Discard, schemaOf(columns, compression), parquet.PageBufferSize(pageBytes),
		parquet.DictionaryMaxBytes(dictionaryMax), parquet.CreatedBy("drumbeat", "", ""))
	return p
}

// schemaOf makes a schema from a struct type, because it keeps the order of columns.
func schemaOf(columns []Column, compression string) *parquet.Schema {
	var fields []reflect.StructField
	for i, c := range columns {
		f := reflect.StructField{Name: fmt.Sprintf("C%d", i)}
		tag := c.Name + "," + compression
		switch c.Type {
		case String:
			f.Type = reflect.TypeFor[string]()
			if c.Few {
				tag += ",dict"
			}
		case Int64:
			f.Type = reflect.TypeFor[int64]()
			if c.Bits == 16 {
				f.Type = reflect.TypeFor[int16]()
			} else if c.Bits == 32 {
				f.Type = reflect.TypeFor[int32]()
			}
		case Binary:
			f.Type = reflect.TypeFor[[]byte]()
		case Float64:
			f.Type = reflect.TypeFor[float64]()
		case Bool:
			f.Type = reflect.TypeFor[bool]()
		case Time:
			f.Type = reflect.TypeFor[int64]()
			tag += ",timestamp(millisecond:utc)"
		}
		if c.Nullable {
			tag += ",optional"
		}
		f.Tag = reflect.StructTag(fmt.Sprintf("parquet:%q", tag))
		fields = append(fields, f)
	}
	return parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
}

// begin starts a file.
func (p *parquetTable) begin(out io.Writer) {
	p.w.Reset(out)
	p.group, p.count, p.arena = 0, 0, p.arena[:0]
}

// add adds a row of the given size, and tells whether a row group has just been written.
func (p *parquetTable) add(row []Value, size int64) (flushed bool, err error) {
	if p.count == len(p.rows) || int64(len(p.arena))+size > batchBytes {
		if err := p.send(); err != nil {
			return false, err
		}
	}
	cells := p.rows[p.count]
	p.count++
	for i, v := range row {
		var cell parquet.Value
		switch v.kind {
		case String:
			from := len(p.arena)
			p.arena = appendUTF8(p.arena, v.text)
			cell = parquet.ByteArrayValue(p.arena[from:len(p.arena):len(p.arena)])
		case Binary:
			from := len(p.arena)
			p.arena = append(p.arena, v.text...)
			cell = parquet.ByteArrayValue(p.arena[from:len(p.arena):len(p.arena)])
		case Int64, Time:
			if cell = parquet.Int64Value(v.int()); p.narrow[i] {
				cell = parquet.Int32Value(int32(v.int()))
			}
		case Float64:
			cell = parquet.DoubleValue(v.float())
		case Bool:
			cell = parquet.BooleanValue(v.num != 0)
		}
		present := 0
		if p.null[i] && v.kind != "" {
			present = 1
		}
		cells[i] = cell.Level(0, present, i)
	}
	if p.group += size; p.group < p.limit {
		return false, nil
	}
	if err := p.send(); err != nil {
		return false, err
	}
	p.group = 0
	return true, p.w.Flush()
}

// send hands the collected rows to the library, which copies them.
func (p *parquetTable) send() error {
	n, err := p.w.WriteRows(p.rows[:p.count])
	if err == nil && n < p.count {
		err = io.ErrShortWrite
	}
	p.count, p.arena = 0, p.arena[:0]
	return err
}

// end writes the last row group and the end of the file.
func (p *parquetTable) end() error {
	if err := p.send(); err != nil {
		return err
	}
	return p.w.Close()
}
