package queue

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// golden returns a checkpointed queue of six records, the first three in a block and the rest in the tail.
// It then appends records for three more blocks, so that a block follows the gap.
func golden(t *testing.T) (disk.Set, *manifest) {
	t.Helper()
	mem := memfs.New(1)
	must(t, mem.MkdirAll("one"))
	set := disk.Set{FS: mem, Paths: []string{"one"}}
	q, err := Open(Options{Set: set, Name: "q", BlockBytes: 16}, nil)
	must(t, err)
	for _, s := range []string{"one", "two", "three", "four", "", "six"} {
		must(t, q.Append([]byte(s)))
	}
	_, _, err = q.Peek()
	must(t, err)
	q.Advance()
	m := &manifest{Gen: 5}
	must(t, checkpoint(set, q, m, func() error { return nil }))
	must(t, q.Append([]byte("seven")))
	must(t, q.Append([]byte("eight")))
	return set, m
}

const goldenHeader = "6472756d62656174" + // magic "drumbeat"
	"71756575" + // kind "queu"
	"02000000" + // version
	"0000000000000000" + // segment number
	"0000000000000000" + // directory
	"b8234766dd3f8360" // xxhash64 of the preceding 32 bytes

const goldenBlock = "51424c4b" + // magic "QBLK"
	"00000000" + // sequence
	"0e000000" + // raw length
	"0e000000" + // stored length
	"03000000" + // records
	"00000000" + // codec: not compressed
	"8073b1cdc3a2dba2" + // xxhash64 of the preceding 24 bytes and the payload
	"036f6e65" + "0374776f" + "057468726565"

const goldenSecondBlock = "51424c4b" + "01000000" + "10000000" + "10000000" + "04000000" + "00000000" +
	"0509be124e61b185" + "04666f7572" + "00" + "03736978" + "05736576656e"

func TestGoldenSegment(t *testing.T) {
	set, _ := golden(t)
	data, err := disk.ReadFile(set.FS, "one/state/q/0000000000.seg")
	must(t, err)
	want := goldenHeader + goldenBlock
	want += strings.Repeat("00", alignBytes-len(want)/2) + goldenSecondBlock
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("segment\n got %s\nwant %s", strings.ReplaceAll(got, "0000000000000000", "-"),
			strings.ReplaceAll(want, "0000000000000000", "-"))
	}
}

func TestGoldenTailAndState(t *testing.T) {
	set, m := golden(t)
	tail, err := disk.ReadTail(set, m.Queue.Tail)
	must(t, err)
	if got, want := hex.EncodeToString(tail), "04666f7572"+"00"+"03736978"; got != want {
		t.Errorf("tail %s, want %s", got, want)
	}
	got, err := json.Marshal(m.Queue)
	must(t, err)
	want := `{"V":2,"Records":5,"Bytes":15,"NextSegment":1,"NextDir":0,` +
		`"Segments":[{"Number":0,"Dir":0,"Size":86,"Blocks":1}],"Offset":40,"Skip":1,` +
		`"Tail":{"Dir":0,"Gen":5,"Off":40,"Len":10,"Sum":9442133162107155286},"TailRecords":3}`
	if string(got) != want {
		t.Errorf("state\n got %s\nwant %s", got, want)
	}
}

// TestGoldenCompressed reads a block compressed by hand: a literal "\x1f" and "a", then a copy of 30 bytes.
func TestGoldenCompressed(t *testing.T) {
	payload, err := hex.DecodeString("20" + "04" + "1f61" + "76" + "0100")
	must(t, err)
	header := []byte("QBLK\x07\x00\x00\x00\x20\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	header = binary.LittleEndian.AppendUint64(header, xxhash.Sum64(append(header[:24:24], payload...)))
	h, err := parseBlockHeader(header, "p", 0, 7)
	must(t, err)
	raw, err := decodeBlock(nil, header, payload, h, blockPlace{"p", 0}, new(coder))
	must(t, err)
	if want := "\x1f" + strings.Repeat("a", 31); string(raw) != want {
		t.Errorf("got %q, want %q", raw, want)
	}
}

// TestBitFlips damages each byte of a segment, one at a time. Scan and a reader must both notice it and
// give the position.
func TestBitFlips(t *testing.T) {
	set, m := golden(t)
	const name = "one/state/q/0000000000.seg"
	f, err := set.FS.Open(name)
	must(t, err)
	must(t, f.Truncate(m.Queue.Segments[0].Size))
	good, err := disk.ReadFile(set.FS, name)
	must(t, err)
	for i := range good {
		_, err := f.WriteAt([]byte{good[i] ^ 0x10}, int64(i))
		must(t, err)
		check := func(how string, err error) {
			var corrupt *disk.CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("byte %d flipped: %s returned %v", i, how, err)
			}
			first, last := int64(0), int64(8) // fields checked in the file header
			if i >= disk.HeaderBytes {
				first, last = disk.HeaderBytes, disk.HeaderBytes // the block
			}
			if corrupt.Path != name || corrupt.Offset < first || corrupt.Offset > last {
				t.Errorf("byte %d flipped: %s found it at %s %d", i, how, corrupt.Path, corrupt.Offset)
			}
		}
		check("Scan", walk(set, "q", m.Queue, func([]byte) error { return nil }))
		q, err := Open(Options{Set: set, Name: "q"}, m.Queue)
		must(t, err)
		_, _, err = q.Peek()
		check("Peek", err)
		_, err = f.WriteAt(good[i:i+1], int64(i))
		must(t, err)
	}
	must(t, f.Truncate(int64(len(good)-1)))
	if _, err := Open(Options{Set: set, Name: "q"}, m.Queue); !errors.As(err, new(*disk.CorruptError)) {
		t.Errorf("open of a cut segment: %v", err)
	}
}

// TestImpossibleStates checks that Open and Scan reject invalid states.
func TestImpossibleStates(t *testing.T) {
	set, m := golden(t)
	for what, change := range map[string]func(*State){
		"version":       func(st *State) { st.V = 1 },
		"directory":     func(st *State) { st.Segments[0].Dir = 1 },
		"segment order": func(st *State) { st.Segments = append(st.Segments, st.Segments[0]) },
		"next segment":  func(st *State) { st.NextSegment = 0 },
		"cursor":        func(st *State) { st.Offset = 1000 },
		"negative":      func(st *State) { st.Records = -1 },
	} {
		st := *m.Queue
		st.Segments = append([]Segment(nil), st.Segments...)
		change(&st)
		if _, err := Open(Options{Set: set, Name: "q"}, &st); err == nil {
			t.Errorf("impossible %s: opened", what)
		}
		if err := walk(set, "q", &st, func([]byte) error { return nil }); err == nil {
			t.Errorf("impossible %s: walked", what)
		}
	}
	st := *m.Queue
	st.Records++
	if err := walk(set, "q", &st, func([]byte) error { return nil }); err == nil {
		t.Error("wrong count: walked")
	}
	st = *m.Queue
	st.Bytes++
	if err := walk(set, "q", &st, func([]byte) error { return nil }); err == nil {
		t.Error("wrong bytes: walked")
	}
}

func TestStateSurvivesJSON(t *testing.T) {
	_, m := golden(t)
	data, err := json.Marshal(m.Queue)
	must(t, err)
	var got State
	must(t, json.Unmarshal(data, &got))
	if !reflect.DeepEqual(&got, m.Queue) {
		t.Errorf("got %+v, want %+v", got, *m.Queue)
	}
}

// FuzzBlock passes arbitrary bytes to the block decoder. It must return an error or records, without a
// panic or a huge allocation.
func FuzzBlock(f *testing.F) {
	for _, raw := range []string{"\x03one\x03two", "\x20" + strings.Repeat("a", 32),
		strings.Repeat("\x10http://a.test/12", 40)} {
		block, b := encodeBlock(nil, []byte(raw), uint32(max(1, len(raw)/17)), new(coder))
		b.finish(block, 0)
		f.Add(block)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < blockHeaderBytes {
			return
		}
		header, payload := append([]byte(nil), b[:blockHeaderBytes]...), b[blockHeaderBytes:]
		// Without a valid checksum little code would run.
		binary.LittleEndian.PutUint64(header[sumOffset:], blockSum(header, payload))
		h, err := parseBlockHeader(header, "p", 0, 0)
		if err != nil || int(h.stored) != len(payload) {
			return
		}
		raw, err := decodeBlock(nil, header, payload, h, blockPlace{"p", 0}, new(coder))
		if err != nil {
			return
		}
		if len(raw) != int(h.raw) {
			t.Fatalf("%d bytes, want %d", len(raw), h.raw)
		}
		for len(raw) > 0 {
			rec, size := nextRecord(raw)
			if size == 0 {
				return
			}
			if recordBytes(len(rec)) > size {
				t.Fatalf("record of %d bytes takes %d", len(rec), size)
			}
			raw = raw[size:]
		}
	})
}

func TestRecordBytes(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, MaxRecord} {
		if got, want := recordBytes(n), len(appendRecord(nil, make([]byte, n))); got != want {
			t.Errorf("recordBytes(%d) = %d, want %d", n, got, want)
		}
	}
}
