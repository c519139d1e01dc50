package warc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDistinctKeys: keys count in any case and any spelling, but not within values.
func TestDistinctKeys(t *testing.T) {
	for object, want := range map[string]bool{
		`{}`:                                  true,
		`{"a": "1", "b": "2"}`:                true,
		`{"a":"1","a":"2"}`:                   false,
		`{"a": "1" , "A": "2"}`:               false,
		`{"offset": "1", "\u006fffset": "2"}`: false,
		`{"\u006Fffset": "1", "OFFSET": "2"}`: false,
		`{"status": "1", "ſtatus": "2"}`:      false, // encoding/json folds it
		`{"x": {"a": 1, "a": 2}, "a": [{"a": 3}, "a"], "b": "a"}`:         true,
		`{"x": "\"a\": 1, ", "a": "{,", "b": "\\", "c": "}\\\""}`:         true,
		`{"x": [1, "a", {"b": []}], "b": null, "a": true, "x\u0000": -1}`: true,
		`{"x": ",\"a\":", "y": "a", "a": "1", "Y": "2"}`:                  false,
	} {
		if !json.Valid([]byte(object)) {
			t.Fatalf("%s: not JSON", object)
		}
		if got := distinctKeys(object); got != want {
			t.Errorf("%s: got %v, want %v", object, got, want)
		}
	}
	var many []string
	for i := range maxIndexKeys + 1 {
		many = append(many, fmt.Sprintf(`"%d": 0`, i))
	}
	if distinctKeys("{" + strings.Join(many, ",") + "}") {
		t.Errorf("%d keys pass", len(many))
	}
}

// TestIndexRepeatsKeys: a line with a repeated key is damage for all that read lines, and for audit.
func TestIndexRepeatsKeys(t *testing.T) {
	const line = `test,h)/ 20260101000000 {"url": "http://h.test/", "mime": "unk", "status": "200", ` +
		`"digest": "sha1:x", ` +
		`"length": "10", "offset": "20", "filename": "a.warc.gz"%s}` + "\n"
	for more, good := range map[string]bool{"": true, `, "x": "y"`: true, `, "offset": "20"`: false,
		`, "Length": "5"`: false, `, "STATUS": "404"`: false, `, "url": "http://other.test/"`: false,
		`, "d\u0069gest": "sha1:y"`: false, `, "x": "1", "X": "2"`: false, `, "filename": "b.warc.gz"`: false} {
		text := fmt.Sprintf(line, more)
		if x, err := (&indexFile{}).parse([]byte(text)); good != (err == nil) {
			t.Errorf("%s: %+v, %v", more, x, err)
		}
		if _, l, err := parseLine(text, "a.warc.gz"); !good && err == nil {
			t.Errorf("%s: audit: %+v, %v", more, l, err)
		}
	}
}
