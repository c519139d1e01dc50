package weburl

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestRecordGolden spells the coding of records of all versions byte by byte.
func TestRecordGolden(t *testing.T) {
	full := Record{
		URL: []byte("http://a.b/"), Depth: 300, Found: 1_700_000_000, Via: []byte("/v"),
		Parent: 0x0102030405060708, Budget: 10_000,
		Attempts: 2, Waits: 0, Reason: 7, Flags: FlagSeed | FlagRedirect, Redirects: 3, Faults: 200,
		Extra: []byte{0xEE, 0xFF},
	}
	tests := []struct {
		name string
		rec  Record
		want []byte
	}{
		{"least", Record{URL: []byte("http://a/")}, []byte{
			'h', 't', 't', 'p', ':', '/', '/', 'a', '/',
			3,    // version
			0,    // mask: no optional field
			0, 0, // depth, found
		}},
		{"full", full, []byte{
			'h', 't', 't', 'p', ':', '/', '/', 'a', '.', 'b', '/',
			3,           // version
			0xFF,        // mask: all eight
			2, '/', 'v', // via: http://a.b/v
			8, 7, 6, 5, 4, 3, 2, 1, // parent
			0x90, 0x4E, // budget 10,000
			2,    // attempts
			0, 7, // waits, reason
			5,      // flags
			3, 200, // redirects, faults
			0xAC, 0x02, // depth 300
			0x80, 0xC4, 0x9F, 0xD5, 0x0C, // found 1.7e9, zigzag
			2, 0xEE, 0xFF, // extra
		}},
		{"visited", Record{URL: []byte("http://a/"), Visits: []byte{1, 3, 4}}, []byte{
			'h', 't', 't', 'p', ':', '/', '/', 'a', '/',
			4,          // version
			3, 1, 3, 4, // visits
			0, 0, 0, // mask, depth, found
		}},
		{"visited, without a byte 3", Record{URL: []byte("http://a/"), Visits: []byte{9}}, []byte{
			'h', 't', 't', 'p', ':', '/', '/', 'a', '/',
			4, 1, 9, 0, 0, 0,
		}},
		{"scored", Record{URL: []byte("http://a/"), Score: 255}, []byte{
			'h', 't', 't', 'p', ':', '/', '/', 'a', '/',
			5,    // version
			255,  // score
			0,    // no visits
			0,    // mask
			0, 0, // depth, found
		}},
		{"scored and visited", Record{URL: []byte("http://a/"), Score: 1, Visits: []byte{3, 5}, Depth: 2, Found: 3},
			[]byte{
				'h', 't', 't', 'p', ':', '/', '/', 'a', '/',
				5, 1, 2, 3, 5, // version, score, visits
				0, 2, 6, // mask, depth, found
			}},
	}
	for _, test := range tests {
		got := test.rec.Append([]byte("prefix"))[6:]
		if !bytes.Equal(got, test.want) {
			t.Errorf("%s: got % x, want % x", test.name, got, test.want)
		}
		var back Record
		if err := back.Decode(got); err != nil || !reflect.DeepEqual(back, test.rec) {
			t.Errorf("%s: decoded: got %+v, %v, want %+v", test.name, back, err, test.rec)
		}
	}
}

func randomRecord(r *rand.Rand) Record {
	pick := func(n uint64) uint64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return r.Uint64() >> r.IntN(64) % n
	}
	rec := Record{
		URL: bytes.Repeat([]byte("u"), 1+r.IntN(300)), Depth: uint16(pick(1 << 16)), Found: int64(pick(1<<64 - 1)),
		Parent: pick(1<<64 - 1), Budget: uint32(pick(1 << 32)), Attempts: uint8(pick(256)), Waits: uint8(pick(256)),
		Reason: uint8(pick(256)), Flags: uint8(pick(256)),
		Redirects: uint8(pick(256)), Faults: uint8(pick(256)),
	}
	if n := pick(MaxViaBytes + 1); n > 0 {
		rec.Via = bytes.Repeat([]byte("v"), int(n))
	}
	if n := pick(200); n > 0 {
		rec.Extra = bytes.Repeat([]byte("e"), int(n))
	}
	if n := pick(200); n > 0 && r.IntN(2) == 0 {
		rec.Visits = make([]byte, n)
		for i := range rec.Visits {
			rec.Visits[i] = byte(r.IntN(7)) // among them all versions
		}
	}
	rec.Score = uint8(pick(256))
	return rec
}

func TestRecordRoundTripAndDamage(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 2000 {
		rec := randomRecord(r)
		b := rec.Append(nil)
		var back Record
		if err := back.Decode(b); err != nil || !reflect.DeepEqual(back, rec) {
			t.Fatalf("seed %d, record %d: got %+v, %v, want %+v", seed, i, back, err, rec)
		}
		if err := back.Decode(append(b[:len(b):len(b)], 0)); !errors.Is(err, ErrRecord) {
			t.Fatalf("seed %d, record %d with a byte more: got %v, want ErrRecord", seed, i, err)
		}
		if cut := r.IntN(len(b)); !errors.Is(back.Decode(b[:cut]), ErrRecord) {
			t.Fatalf("seed %d, record %d cut to %d of %d: no ErrRecord", seed, i, cut, len(b))
		}
	}
}

func TestRecordRejects(t *testing.T) {
	bad := map[string][]byte{
		"nothing":        {},
		"version 0":      {'x', 0, 0, 0, 0},
		"version 1":      {1, 0, 0, 0, 1, 'x'},
		"version 1, 2":   {1, 0, 0, 2, 0, 0, 0},
		"version 2":      {'x', 2, 0, 0, 0},
		"no URL":         {3, 0, 0, 0},
		"no mask":        {'x', 3},
		"score 0":        {'x', 5, 0, 0, 0, 0, 0},
		"score cut":      {'x', 5, 7},
		"long no visits": {'x', 5, 7, 0x80, 0, 0, 0, 0, 0},
		"visits of 1025": append(append([]byte{'x', 5, 7, 0x81, 8}, make([]byte, 1025)...), 0, 0, 0, 0),
		"via of 0":       {'x', 3, 0x80, 0, 0, 0},
		"via cut":        {'x', 3, 0x80, 2, 'v', 0, 0},
		"via too long":   append(append([]byte{'x', 3, 0x80, 1, 4}, bytes.Repeat([]byte("v"), 513)...), 0, 0),
		"origin twice":   append([]byte("a://b/\x03\x80\x07a://b/c"), 0, 0),
		"long depth":     {'x', 3, 0, 0x80, 0, 0},
		"depth 65536":    {'x', 3, 0, 0x80, 0x80, 4, 0},
		"parent 0":       {'x', 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"budget 0":       {'x', 3, 2, 0, 0, 0},
		"attempts 0":     {'x', 3, 4, 0, 0, 0},
		"waits 0 0":      {'x', 3, 8, 0, 0, 0, 0},
		"flags 0":        {'x', 3, 16, 0, 0, 0},
		"redirects 0 0":  {'x', 3, 64, 0, 0, 0, 0},
		"extra of 0":     {'x', 3, 32, 0, 0, 0},
		"huge length":    {'x', 3, 32, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 'x'},
		"endless varint": {'x', 3, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
	}
	for name, b := range bad {
		var r Record
		if err := r.Decode(b); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: got %v, want ErrRecord", name, err)
		}
	}
}

func TestRecordAllocs(t *testing.T) {
	rec := Record{URL: []byte("http://example.com/"), Via: []byte("http://example.org/"), Parent: 5, Extra: []byte("x")}
	buf := make([]byte, 0, 200)
	n := testing.AllocsPerRun(100, func() {
		b := rec.Append(buf)
		var back Record
		if back.Decode(b) != nil {
			t.Fatal("decode")
		}
	})
	if n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

// TestVia: a referrer is restored whole, or its first bytes and its key. In both cases the key of the page
// is that of its URL.
func TestVia(t *testing.T) {
	h := NewHasher(Secret{1})
	long := "http://a.test/" + strings.Repeat("x", 2000)
	for _, c := range []struct{ url, via, kept, want string }{
		{"http://a.test/1", "http://a.test/page?x", "/page?x", "http://a.test/page?x"},
		{"http://a.test/1", "http://a.test/", "/", "http://a.test/"},
		{"http://a.test/1", "http://a.test:81/", "http://a.test:81/", "http://a.test:81/"},
		{"http://a.test/1", "https://a.test/", "https://a.test/", "https://a.test/"},
		{"http://a.test/1", "http://a.tes/", "http://a.tes/", "http://a.tes/"},
		{"http://a.test/1", "", "", ""},
		{"http://a.test/1", long, long[13:MaxViaBytes], long[:MaxViaBytes]},
		{"http://b.test/1", long, long[:MaxViaBytes], long[:MaxViaBytes]},
	} {
		rec := Record{URL: []byte(c.url)}
		key := uint64(0)
		if c.via != "" {
			key = h.URLKey([]byte(c.via))
		}
		rec.SetVia([]byte(c.via), key)
		var back Record
		must(t, back.Decode(rec.Append(nil)))
		if got := string(back.AppendVia(nil)); string(back.Via) != c.kept || got != c.want ||
			h.ParentKey(&back) != key {
			t.Errorf("%s on %s: kept %q, got %q with key %x, want %q, %q, %x", c.url, c.via, back.Via, got,
				h.ParentKey(&back), c.kept, c.want, key)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		rec := Record{URL: []byte("http://a.test/1"), Via: []byte("/2")}
		h.ParentKey(&rec)
	}); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

// FuzzRecord: what can be decoded encodes to the same bytes, so each record has one coding.
func FuzzRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		rec := randomRecord(r)
		f.Add(rec.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec Record
		if err := rec.Decode(b); err != nil {
			return
		}
		if got := rec.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("coded again: got % x, want % x", got, b)
		}
	})
}
