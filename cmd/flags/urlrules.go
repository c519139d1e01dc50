package flags

import (
	"fmt"
	"math"

	"drumbeat/crawl"
	"drumbeat/internal/urlrule"
)

// URLRules holds the flags that decide which URLs are equal, and which links to drop by their spelling.
type URLRules struct {
	Escapes         string `group:"urls" enum:"fold,keep" default:"fold" help:"Percent-escapes in paths and queries. fold uses one spelling (hex digits in upper case; letters, digits and - . _ ~ unescaped), so /%7Ea and /~a are one URL. keep leaves them as pages spell them. Cannot be changed later."`
	StripParams     string `group:"urls" placeholder:"LIST" help:"Remove these parameters from queries, and after ; in paths: names, prefixes that end in *, and the lists session (PHPSESSID, jsessionid, ...) and tracking (utm_*, gclid, ...). Case is ignored. Queued URLs keep their spelling."`
	SortQuery       bool   `group:"urls" help:"Sort query parameters by name, so URLs that differ only in their order are one URL."`
	CollapseSlashes bool   `group:"urls" help:"Replace repeated slashes in a path by one."`
	SkipExtensions  string `group:"urls" placeholder:"LIST" default:"default" help:"Do not follow links to files with these extensions: names, the list default (images, audio, video, archives, fonts, programs, office documents, data), or none. Seeds are exempt."`
	MaxURLLength    Count  `group:"urls" name:"max-url-length" placeholder:"BYTES" default:"2083" help:"Follow no URL longer than this, 100 to 3500 bytes."`
	MaxPathDepth    Count  `group:"urls" placeholder:"N" default:"32" help:"Follow no link with more than N path segments. 0: no limit."`
	MaxRepeats      Count  `group:"urls" placeholder:"N" default:"3" help:"Follow no link whose path has the same segment more than N times: /a/b/a/b/a/b has a and b three times. 0: no limit."`
	MaxParams       Count  `group:"urls" placeholder:"N" default:"32" help:"Follow no link with more than N query parameters. 0: no limit."`
	MaxPagesPerPLD  Count  `group:"urls" name:"max-pages-per-pld" placeholder:"N" default:"0" help:"Accept at most N URLs of a PLD, over all runs; refuse further ones. 0: no limit."`
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
func (u *URLRules) Apply(o *crawl.Options) {
	params, _ := urlrule.ParseParams(u.StripParams)
	extensions, _ := urlrule.ParseExtensions(u.SkipExtensions)
	o.Admission.URLRules = urlrule.Options{StripParams: params, SortQuery: u.SortQuery, CollapseSlashes: u.CollapseSlashes,
		SkipExtensions: extensions, MaxPathDepth: int(u.MaxPathDepth), MaxRepeats: int(u.MaxRepeats), MaxParams: int(u.MaxParams)}
	o.Admission.KeepEscapes = u.Escapes == "keep"
	o.Admission.MaxURLBytes, o.Admission.MaxPagesPerPLD = int(u.MaxURLLength), uint32(u.MaxPagesPerPLD)
}
