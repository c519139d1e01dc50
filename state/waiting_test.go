package state

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"drumbeat/drum"
	"drumbeat/internal/simhash"
)

// TestWaitingGolden holds both versions fixed: pages wait on disk while programs change.
func TestWaitingGolden(t *testing.T) {
	w := Waiting{Record: []byte("r"), Size: 300, Form: 3, Capture: []byte("cc"), Log: []byte("l"), Links: []byte{}}
	plain := "\x01\xac\x02\x03\x01r\x02cc\x01l\x00"
	if got := string(w.Append(nil)); got != plain {
		t.Errorf("got % x, want % x", got, plain)
	}
	entry := NearEntry{Simhash: 1, URL: 2, Body: 3, Features: 0x0807, Counts: simhash.Counts{5, 31: 6}}
	w.Near, w.Own = append(entry.Append(nil), 4), []byte("own")
	near := "\x02" + plain[1:] + "\x37" +
		"\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" +
		"\x07\x08\x05" + strings.Repeat("\x00", 30) + "\x06\x04\x03own"
	if got := string(w.Append(nil)); got != near {
		t.Errorf("got % x, want % x", got, near)
	}
	var again Waiting
	if err := again.Decode([]byte(near)); err != nil || !reflect.DeepEqual(w, again) ||
		NearEntryOf(again.Near) != entry {
		t.Errorf("%+v, %v", again, err)
	}
	if err := again.Decode([]byte(plain)); err != nil || again.Near != nil || again.Own != nil {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"", "\x03" + plain[1:], plain + "x", near[:len(near)-1], "\x01" + near[1:],
		"\x02" + plain[1:] + "\x01x\x03own", "\x02" + plain[1:] + near[len(plain):len(plain)+56] + "\x00"} {
		if again.Decode([]byte(bad)) == nil {
			t.Errorf("% x is accepted", bad)
		}
	}
}

func TestNearList(t *testing.T) {
	list := make([]byte, NearListHead)
	for i := range 3 {
		list = (&NearEntry{Simhash: 1, URL: uint32(i), Body: drum.Key(i)}).Append(list)
	}
	entries, ok := NearList(list)
	if !ok || len(entries) != 3*NearEntryBytes || NearEntryOf(entries[NearEntryBytes:]).URL != 1 {
		t.Errorf("% x, %v", entries, ok)
	}
	body := bytes.Clone(list)
	body[20] = 1 // the date of a body
	if _, ok := NearList(body); ok {
		t.Error("a body is a list")
	}
	if _, ok := NearList(list[:len(list)-1]); ok {
		t.Error("a part of an entry is accepted")
	}
}
