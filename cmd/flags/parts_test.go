package flags

import (
	"reflect"
	"testing"
	"time"
)

// some has a part of each kind.
type some struct {
	Main    *time.Duration `part:"" most:"1h"`
	Depth   Count          `part:"depth" default:"32" least:"1" most:"3500"`
	Size    *Size          `part:"size"`
	Share   Fraction       `part:"share" default:"1/4" most:"1"`
	Factor  *float64       `part:"factor" least:"0.5"`
	Escapes string         `part:"escapes" enum:"fold,keep" default:"fold"`
	File    string         `part:"file" placeholder:"FILE"`
	Weights []Count        `part:"weights" least:"1"`
	Robots  bool           `part:"robots" default:"on"`
	Sort    bool           `part:"sort"`
}

// TestParts: values of a flag with parts, and their errors, which name the part and what it takes.
func TestParts(t *testing.T) {
	read := func(text string) (s some, err error) {
		v := defaultsOf(reflect.TypeFor[some]())
		err = setParts(v, text)
		return v.Interface().(some), err
	}
	base := some{Depth: 32, Share: 0.25, Escapes: "fold", Robots: true}
	for text, change := range map[string]func(*some){
		"depth=32":                  func(*some) {},
		"90s":                       func(s *some) { s.Main = new(90 * time.Second) },
		"0,depth=7":                 func(s *some) { s.Main, s.Depth = new(time.Duration(0)), 7 },
		"size=2MiB, share=0.5":      func(s *some) { s.Size, s.Share = new(Size(2<<20)), 0.5 },
		"factor=0.5,escapes=keep":   func(s *some) { s.Factor, s.Escapes = new(0.5), "keep" },
		`file=a\,b=c,weights=8:4:1`: func(s *some) { s.File, s.Weights = "a,b=c", []Count{8, 4, 1} },
		"sort,robots=off":           func(s *some) { s.Sort, s.Robots = true, false },
		"sort=on,robots":            func(s *some) { s.Sort = true },
		"sort=off,file=true":        func(s *some) { s.File = "true" },
	} {
		want := base
		change(&want)
		got, err := read(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		back := formatParts(reflect.ValueOf(got), reflect.ValueOf(base))
		if back == "" && text == "depth=32" {
			continue
		}
		if again, err := read(back); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is printed as %s: read again got %+v, %v", text, back, again, err)
		}
	}
	for text, want := range map[string]string{
		"depth=x":         "depth=x: want a whole number, 1 to 3500, as in depth=32",
		"depth=0":         "depth=0: want a whole number, 1 to 3500, as in depth=32",
		"depth":           "depth: want a whole number, 1 to 3500, as in depth=32",
		"depth=1,depth=1": "depth=1: this part is given twice",
		"2h":              "2h: want a duration, at most 1h, as in 90s",
		"-1s":             `"-1s" is negative; want a duration such as 90s, 12h or 7d`,
		"1ns":             "1ns: want a duration, at most 1h, as in 90s",
		"size=-1":         "size=-1: want a size, as in size=64MiB",
		"share=2":         "share=2: want a number or a quotient, at most 1, as in share=1/4",
		"factor=NaN":      "factor=NaN: want a number, at least 0.5, as in factor=10",
		"escapes=x":       "escapes=x: want fold or keep, as in escapes=fold",
		"file=":           "file=: want a FILE, as in file=FILE",
		"weights=8:0":     "weights=8:0: want a whole number, at least 1, as in weights=8",
		"sort=1":          "sort=1: want sort, sort=on or sort=off",
		"deep=1": "deep=1: want DURATION first, depth=N, size=SIZE, share=SHARE, factor=N, " +
			"escapes=fold|keep, file=FILE, " +
			"weights=N, robots or sort",
	} {
		if _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", ",", "depth=1,", "depth=1,90s", "=1", "sort,,robots"} {
		if got, err := read(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
