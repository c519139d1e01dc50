package flags

import (
	"reflect"
	"testing"

	"drumbeat/crawl"
	"drumbeat/parse"
)

// TestFollow: the kinds of links that --follow names, and those that it has by default.
func TestFollow(t *testing.T) {
	for given, want := range map[string]crawl.LinksOptions{
		"next": {Rels: parse.DefaultRels}, "next=off,prev=off,canonical=off": {Rels: parse.NoRels},
		"alternate,assets":          {Rels: parse.DefaultRels | parse.RelAlternate, Assets: true},
		"canonical=off,other,forms": {Rels: parse.RelNext | parse.RelPrev | parse.RelOther, Forms: true},
	} {
		v := defaultsOf(reflect.TypeFor[follow]())
		if err := setParts(v, given); err != nil {
			t.Fatal(err)
		}
		l := Links{Follow: v.Interface().(follow)}
		var o crawl.LinksOptions
		l.Apply(&o)
		if o.Rels != want.Rels || o.Forms != want.Forms || o.Assets != want.Assets {
			t.Errorf("%s: got %+v, want %+v", given, o, want)
		}
	}
}
