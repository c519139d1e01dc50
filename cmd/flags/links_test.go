package flags

import (
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/parse"
)

func TestLinkFlags(t *testing.T) {
	for given, want := range map[string]parse.Rel{
		"next,prev,canonical": parse.DefaultRels, "none": parse.NoRels, "alternate": parse.RelAlternate, " next , other": parse.RelNext | parse.RelOther,
	} {
		l := Links{Nofollow: "ignore", LinkRels: given, Assets: true, Forms: true}
		var o crawl.LinksOptions
		if err := l.Check(); err != nil {
			t.Errorf("%q: %v", given, err)
		}
		if l.Apply(&o); o.Rels != want || !o.IgnoreNofollow || !o.Assets || !o.Forms {
			t.Errorf("%q: got %+v", given, o.Rels)
		}
	}
	for _, given := range []string{"", "nxt", "next,,prev", "none,next", "stylesheet"} {
		l := Links{LinkRels: given}
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), "--link-rels") {
			t.Errorf("%q: got %v", given, err)
		}
	}
}
