package main

import (
	"strings"
	"testing"
)

// TestServe: the hook greets and answers each request by a line.
func TestServe(t *testing.T) {
	in := `{"hook":1,"program":"drumbeat/1"}
{"id":1,"url":"http://a.test/","status":200,"text":"The turbine, the other turbine, and énergie."}
{"id":2,"url":"http://a.test/2","status":200,"text":"short"}
{"id":3,"url":"http://a.test/3","status":404,"text":"This page is long enough"}
`
	want := `{"hook":1,"want":["text"]}
{"id":1,"keep":true,"fields":{"words":7,"top":["turbine","other","énergie"]}}
{"id":2,"keep":false,"fields":{"words":1,"top":["short"]}}
{"id":3,"keep":false,"fields":{"words":5,"top":["enough"]}}
`
	var out strings.Builder
	if err := serve(strings.NewReader(in), &out, 3); err != nil || out.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, out.String(), want)
	}
	if err := serve(strings.NewReader(""), &out, 3); err == nil {
		t.Error("no greeting: no error")
	}
	if err := serve(strings.NewReader("{}\n{]\n"), &out, 3); err == nil {
		t.Error("a bad request: no error")
	}
}
