package warc

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// zstRecords returns a Writer of zst files and the records of the sample exchange.
func zstRecords(t *testing.T, dict []byte) (*Writer, []byte) {
	t.Helper()
	opt := testOptions(memfs.New(1), 1)
	opt.Format, opt.Dict = Zstd, dict
	w := open(t, opt, nil)
	x := sampleExchange()
	x.Body, x.Encoded = []byte("\x1f\x8bhi"), true
	return w, slices.Clone(prepared(t, w.NewEncoder(), x).buf)
}

// skippableFrame returns a frame of a type that readers skip.
func skippableFrame(magic string, content []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(content))), content...)
}

// TestGoldenFrame: the header and the end of a frame are those of docs/reference/files/warc.md. A file with a
// dictionary begins with its frame.
func TestGoldenFrame(t *testing.T) {
	w, _ := zstRecords(t, nil)
	x := sampleExchange()
	x.Body, x.Encoded, x.Request, x.Meta = []byte("\x1f\x8bhi"), true, nil, nil
	p := prepared(t, w.NewEncoder(), x)
	size := len(texts(t, p.buf, nil)[0])
	begin := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x64, byte(size - 256), byte((size - 256) >> 8)}
	end := "\x20\x00\x00\x1f\x8bhi\x21\x00\x00\r\n\r\n"
	if !bytes.HasPrefix(p.buf, begin) || !strings.HasSuffix(string(p.buf[:len(p.buf)-4]), end) {
		t.Errorf("record of %d bytes: got % x", size, p.buf)
	}
	w, _ = zstRecords(t, testDict)
	head := w.head("name", when)
	packed := head[8:][:binary.LittleEndian.Uint32(head[4:])]
	z, err := zstd.NewReader(nil)
	must(t, err)
	defer z.Close()
	got, err := z.DecodeAll(packed, nil)
	if string(head[:4]) != "\x5d\x2a\x4d\x18" || err != nil || !bytes.Equal(got, testDict) {
		t.Errorf("head % x, dictionary of %d bytes, %v", head[:20], len(got), err)
	}
}

// TestForeignZst: what the proposal allows and other writers may do is read, or refused with a reason.
func TestForeignZst(t *testing.T) {
	plain, some := zstRecords(t, nil)
	coded, own := zstRecords(t, testDict)
	ext := skippableFrame("\x50\x2a\x4d\x18", []byte("any"))
	raw := skippableFrame(dictFrameMagic, testDict)
	other := slices.Clone(testDict)
	other[4]++ // its number
	z, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
	must(t, err)
	var half []byte
	for _, text := range []string{texts(t, some, nil)[0][:300], texts(t, some, nil)[0][300:]} {
		w, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
		must(t, err)
		half = w.EncodeAll([]byte(text), half)
	}
	whole, err := zstd.NewWriter(nil)
	must(t, err)
	var stream, member bytes.Buffer
	oneFrame := whole.EncodeAll([]byte(strings.Join(texts(t, some, nil), "")), nil)
	pieceHead := []byte(frameMagic + "\x84") // content size of 4 bytes, a window, a checksum
	pieces, err := zstd.NewWriter(&stream)
	must(t, err)
	for _, to := range []interface {
		io.WriteCloser
		Flush() error
	}{pieces, gzip.NewWriter(&member)} {
		_, err := io.WriteString(to, strings.Join(texts(t, some, nil), ""))
		must(t, errors.Join(err, to.Flush(), to.Close()))
	}
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for name, c := range map[string]struct {
		file []byte
		want int
		err  string
	}{
		"without dictionary":      {join(plain.info("f", when), some), 4, ""},
		"compressed dictionary":   {join(coded.head("f", when), own), 4, ""},
		"uncompressed dictionary": {join(raw, own), 3, ""},
		"extension frames":        {join(some, ext, ext, some, ext), 6, ""},
		"gzip members too":        {join(some, open(t, testOptions(memfs.New(1), 1), nil).info("f", when)), 4, ""},
		"dictionary is missing":   {own, 0, "frame for dictionary 77777, the file has 0"},
		"another dictionary":      {join(skippableFrame(dictFrameMagic, other), own), 0, "the file has 77778"},
		"dictionary in the midst": {join(some, raw, own), 3, "not at the head"},
		"dictionary cut off":      {raw[:1000], 0, "unexpected EOF"},
		"no dictionary":           {join(skippableFrame(dictFrameMagic, []byte("abc")), own), 0, "zstd --train"},
		"empty dictionary":        {join(skippableFrame(dictFrameMagic, nil), own), 0, "without a dictionary"},
		"huge dictionary":         {[]byte("\x5d\x2a\x4d\x18\x01\x00\x80\x00abcdefgh"), 0, "at most"},
		"extension cut off":       {join(some, ext[:9]), 3, "unexpected EOF"},
		"no checksum":             {z.EncodeAll([]byte(texts(t, some, nil)[0]), nil), 0, "without checksum"},
		"all in one frame":        {oneFrame, 0, "not the whole file"},
		"a frame of a stream":     {stream.Bytes(), 0, "without checksum or content size"},
		"a large window":          {append(pieceHead, 0x71, 0, 0, 0, 1), 0, "window of 18874368 bytes"},
		"all in one member":       {member.Bytes(), 0, "not the whole file"},
		"record of two frames":    {half, 0, "unexpected EOF"},
		"a wrong checksum":        {join(some[:len(some)-1], []byte{some[len(some)-1] ^ 1}), 2, "CRC"},
	} {
		got := 0
		err := Read(bytes.NewReader(c.file), 1<<20, func(*Record) error { got++; return nil })
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %d records, %v; want %d, %q", name, got, err, c.want, c.err)
		}
	}
}

// TestReadDict: a dictionary is refused before anything is written.
func TestReadDict(t *testing.T) {
	mem := memfs.New(1)
	for name, c := range map[string]struct {
		data []byte
		err  string
	}{
		"good": {testDict, ""}, "empty": {nil, "empty file"}, "text": {[]byte("<html>"), "not a dictionary"},
		"cut":       {testDict[:20], "dictionary"},
		"no number": {append([]byte(dictMagic+"\x00\x00\x00\x00"), testDict[8:]...), "number"},
	} {
		must(t, disk.WriteFileAtomic(mem, "/"+name, c.data))
		dict, err := ReadDict(mem, "/"+name)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			err == nil && !bytes.Equal(dict, c.data) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
	if _, err := ReadDict(mem, "/none"); err == nil {
		t.Error("no error for a file that is not there")
	}
	opt := testOptions(mem, 1)
	opt.Dict = testDict
	if err := opt.Validate(); err == nil {
		t.Error("no error for a dictionary of gz files")
	}
}
