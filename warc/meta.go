package warc

import (
	"errors"
	"fmt"
	"io"

	"drumbeat/warc/outfile"
)

// maxMetaBytes exceeds the size of any metadata record.
const maxMetaBytes = 64 << 10

// Meta returns the fields of the metadata record that follows the response of an index line; none if there
// is no such record or the file was moved away.
func Meta(opt Options, st *State, x *Indexed) ([]Field, error) {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return nil, fmt.Errorf("warc: metadata: %w", err)
	}
	for i := range all {
		s := all[i].Streams[dataStream]
		if all[i].Name+s.Suffix != x.File || s.Path == "" && s.Tail.Len == 0 {
			continue
		}
		b, err := s.Open(opt.Set.FS, opt.State)
		var fields []Field
		if err == nil {
			fields, err = metaAt(b, x)
		}
		if b != nil {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("warc: metadata in %s: %w", x.File, err)
		}
		return fields, nil
	}
	return nil, nil
}

// metaAt reads the record after a response.
func metaAt(b *outfile.Bytes, x *Indexed) (fields []Field, err error) {
	at := x.Offset + x.Length
	in := io.NewSectionReader(b, at, min(maxMetaBytes, max(0, b.Size()-at)))
	err = fileDecoder(b).read(in, maxMetaBytes, func(rec *Record) error {
		if rec.Type() != "metadata" || rec.Get("WARC-Target-URI") != x.URL {
			return io.EOF
		}
		fields = MetaFields(rec.Block)
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return fields, err
}
