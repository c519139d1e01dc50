package flags

import (
	"fmt"
	"strings"

	"drumbeat/crawl"
	"drumbeat/parse"
)

// Links say which links of a page are followed.
type Links struct {
	Nofollow     string `group:"manners" enum:"obey,ignore" default:"obey" help:"What pages and links say against being followed (meta robots, X-Robots-Tag, rel=nofollow): obey it, or ignore it. It is kept with the page in either case."`
	LinkRels     string `group:"what" placeholder:"TYPES" default:"next,prev,canonical" help:"Types of <link> elements and of Link headers that are followed: a list of next, prev, canonical, alternate and other, or none."`
	MaxRedirects Count  `group:"limits" placeholder:"N" default:"20" help:"Redirects followed in a row, counted from the last page that links to one of them; at most 250. 0: none is followed."`
	Forms        bool   `group:"what" help:"Follow the action of forms whose method is get, as it stands: no fields are made up."`
	Assets       bool   `group:"what" help:"Fetch and store what pages consist of, too: images, scripts, style sheets and what these name, fonts, media. None of it is a page."`
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
			return 0, fmt.Errorf("--link-rels %q: %q is none of next, prev, canonical, alternate, other; or give none alone", l.LinkRels, word)
		}
		rels |= rel
	}
	return rels, nil
}

// Check returns the first fault.
func (l *Links) Check() error {
	if l.MaxRedirects > 250 {
		return fmt.Errorf("--max-redirects %d: must lie between 0 and 250", l.MaxRedirects)
	}
	_, err := l.rels()
	return err
}

// Apply puts them into a crawl's options.
func (l *Links) Apply(o *crawl.Options) {
	o.IgnoreNofollow = l.Nofollow == "ignore"
	o.LinkRels, _ = l.rels() // has been checked
	o.Forms, o.Assets = l.Forms, l.Assets
	if o.MaxRedirects = int(l.MaxRedirects); o.MaxRedirects == 0 {
		o.MaxRedirects = crawl.NoRedirects
	}
}
