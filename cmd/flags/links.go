package flags

import (
	"fmt"

	"drumbeat/crawl"
	"drumbeat/parse"
)

// Links holds the flags that select the links of a page to follow.
type Links struct {
	RobotsMeta
	MaxRedirects Count  `group:"limits" placeholder:"N" default:"20"`
	Follow       follow `group:"what" type:"parts" placeholder:"PARTS"`
}

// RobotsMeta says what the directives of meta robots and X-Robots-Tag do.
type RobotsMeta struct {
	RobotsMeta robotsMeta `group:"politeness" type:"parts" placeholder:"PARTS"`
}

type robotsMeta struct {
	Nofollow  string `part:"nofollow" enum:"obey,ignore" default:"obey"`
	NoArchive string `part:"noarchive" enum:"keep,headers,drop" default:"keep"`
	NoIndex   string `part:"noindex" enum:"keep,drop" default:"keep"`
}

// follow are the kinds of links beside those of elements such as <a>, <area> and <frame>.
type follow struct {
	Next      bool `part:"next" default:"on"`
	Prev      bool `part:"prev" default:"on"`
	Canonical bool `part:"canonical" default:"on"`
	Alternate bool `part:"alternate"`
	Other     bool `part:"other"`
	Forms     bool `part:"forms"`
	Assets    bool `part:"assets"`
}

// rels returns the types of <link> elements.
func (f *follow) rels() (rels parse.Rel) {
	for _, r := range [...]struct {
		on  bool
		rel parse.Rel
	}{{f.Next, parse.RelNext}, {f.Prev, parse.RelPrev}, {f.Canonical, parse.RelCanonical},
		{f.Alternate, parse.RelAlternate}, {f.Other, parse.RelOther}} {
		if r.on {
			rels |= r.rel
		}
	}
	if rels == 0 {
		return parse.NoRels
	}
	return rels
}

// Check returns the first fault.
func (l *Links) Check() error {
	if l.MaxRedirects > 250 {
		return fmt.Errorf("--max-redirects %d: must be between 0 and 250", l.MaxRedirects)
	}
	return nil
}

// Apply sets a crawl's options.
func (l *Links) Apply(o *crawl.LinksOptions) {
	o.IgnoreNofollow = l.RobotsMeta.RobotsMeta.Nofollow == "ignore"
	o.Rels, o.Forms, o.Assets = l.Follow.rels(), l.Follow.Forms, l.Follow.Assets
	if o.MaxRedirects = int(l.MaxRedirects); o.MaxRedirects == 0 {
		o.MaxRedirects = crawl.NoRedirects
	}
}
