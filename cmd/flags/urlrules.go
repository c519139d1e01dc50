package flags

import (
	"fmt"
	"math"

	"drumbeat/crawl"
	"drumbeat/internal/urlrule"
)

// URLRules holds the flags that decide which URLs are equal, and which links to drop by their spelling.
type URLRules struct {
	Escapes         string `group:"urls" enum:"fold,keep" default:"fold"`
	StripParams     string `group:"urls" placeholder:"LIST"`
	SortQuery       bool   `group:"urls"`
	CollapseSlashes bool   `group:"urls"`
	SkipExtensions  string `group:"urls" placeholder:"LIST" default:"default"`
	MaxURLLength    Count  `group:"urls" name:"max-url-length" placeholder:"BYTES" default:"2083"`
	MaxPathDepth    Count  `group:"urls" placeholder:"N" default:"32"`
	MaxRepeats      Count  `group:"urls" placeholder:"N" default:"3"`
	MaxParams       Count  `group:"urls" placeholder:"N" default:"32"`
	MaxPagesPerPLD  Count  `group:"urls" name:"max-pages-per-pld" placeholder:"N" default:"0"`
}

// maxURLLength bounds --max-url-length: records of URLs must fit into the buffers of the smallest crawl.
const maxURLLength = 3500

// Check returns the first fault.
func (u *URLRules) Check() error {
	for _, n := range []struct {
		flag        string
		v           Count
		least, most int64
	}{{"max-url-length", u.MaxURLLength, 100, maxURLLength}, {"max-path-depth", u.MaxPathDepth, 0, maxURLLength},
		{"max-repeats", u.MaxRepeats, 0, maxURLLength}, {"max-params", u.MaxParams, 0, maxURLLength},
		{"max-pages-per-pld", u.MaxPagesPerPLD, 0, math.MaxUint32 - 1}} {
		if int64(n.v) < n.least || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must be between %d and %d", n.flag, n.v, n.least, n.most)
		}
	}
	if _, err := urlrule.ParseParams(u.StripParams); err != nil {
		return fmt.Errorf("--strip-params: %w", err)
	}
	if _, err := urlrule.ParseExtensions(u.SkipExtensions); err != nil {
		return fmt.Errorf("--skip-extensions: %w (or none, or default)", err)
	}
	return nil
}

// Apply sets a crawl's options; Check has been called.
func (u *URLRules) Apply(o *crawl.AdmissionOptions) {
	params, _ := urlrule.ParseParams(u.StripParams)
	extensions, _ := urlrule.ParseExtensions(u.SkipExtensions)
	o.URLRules = urlrule.Options{StripParams: params, SortQuery: u.SortQuery, CollapseSlashes: u.CollapseSlashes,
		SkipExtensions: extensions, MaxPathDepth: int(u.MaxPathDepth), MaxRepeats: int(u.MaxRepeats),
		MaxParams: int(u.MaxParams)}
	o.KeepEscapes = u.Escapes == "keep"
	o.MaxURLBytes, o.MaxPagesPerPLD = int(u.MaxURLLength), uint32(u.MaxPagesPerPLD)
}
