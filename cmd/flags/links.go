package flags

import (
	"fmt"
	"strings"

	"drumbeat/crawl"
	"drumbeat/parse"
)

// Links holds the flags that select the links of a page to follow.
type Links struct {
	Nofollow     string `group:"politeness" enum:"obey,ignore" default:"obey"`
	LinkRels     string `group:"what" placeholder:"TYPES" default:"next,prev,canonical"`
	MaxRedirects Count  `group:"limits" placeholder:"N" default:"20"`
	Forms        bool   `group:"what"`
	Assets       bool   `group:"what"`
}

// linkTypes are the words of --link-rels.
var linkTypes = map[string]parse.Rel{"next": parse.RelNext, "prev": parse.RelPrev, "canonical": parse.RelCanonical,
	"alternate": parse.RelAlternate, "other": parse.RelOther}

func (l *Links) rels() (rels parse.Rel, err error) {
	if l.LinkRels == "none" {
		return parse.NoRels, nil
	}
	for word := range strings.SplitSeq(l.LinkRels, ",") {
		rel, ok := linkTypes[strings.TrimSpace(word)]
		if !ok {
			return 0, fmt.Errorf("--link-rels %q: unknown type %q; give next, prev, canonical, alternate and other, "+
				"or none alone", l.LinkRels, word)
		}
		rels |= rel
	}
	return rels, nil
}

// Check returns the first fault.
func (l *Links) Check() error {
	if l.MaxRedirects > 250 {
		return fmt.Errorf("--max-redirects %d: must be between 0 and 250", l.MaxRedirects)
	}
	_, err := l.rels()
	return err
}

// Apply sets a crawl's options.
func (l *Links) Apply(o *crawl.LinksOptions) {
	o.IgnoreNofollow = l.Nofollow == "ignore"
	o.Rels, _ = l.rels() // Check has reported its error
	o.Forms, o.Assets = l.Forms, l.Assets
	if o.MaxRedirects = int(l.MaxRedirects); o.MaxRedirects == 0 {
		o.MaxRedirects = crawl.NoRedirects
	}
}
