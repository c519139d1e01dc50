package state

import (
	"bytes"
	"reflect"
	"testing"

	"drumbeat/weburl"
)

// TestRenderTask spells the bytes of docs/reference/files/render.md.
func TestRenderTask(t *testing.T) {
	url := weburl.Record{URL: []byte("http://a.test/"), Depth: 3}
	rec := url.Append(nil)
	want := append([]byte{1, 1, 1, byte(len(rec))}, rec...)
	want = append(want, "\x00\x09text/html\x00<p>"...)
	task := RenderTask{Record: rec, Type: "text/html", NoFollow: true, Tries: 1, Body: []byte("<p>")}
	got := task.Append(nil)
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	var back RenderTask
	var read weburl.Record
	if err := back.Decode(got, &read); err != nil || !reflect.DeepEqual(back, task) ||
		string(read.URL) != "http://a.test/" || read.Depth != 3 {
		t.Errorf("decoded %+v of %+v: %v", back, read, err)
	}
	for _, bad := range [][]byte{nil, {2, 0, 0}, {1, 4, 0}, got[:5],
		append([]byte{1, 0, 0, 255, 255, 255, 255, 127}, got...)} {
		if back.Decode(bad, &read) == nil {
			t.Errorf("no error for %x", bad)
		}
	}
}

func FuzzRenderTask(f *testing.F) {
	url := weburl.Record{URL: []byte("http://a.test/"), Depth: 3}
	f.Add((&RenderTask{Record: url.Append(nil), Of: "id", Type: "t", Policy: "p", Body: []byte("b")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var task, again RenderTask
		var rec weburl.Record
		if task.Decode(b, &rec) != nil {
			return
		}
		if err := again.Decode(task.Append(nil), &rec); err != nil || !reflect.DeepEqual(task, again) {
			t.Errorf("%+v became %+v: %v", task, again, err)
		}
	})
}
