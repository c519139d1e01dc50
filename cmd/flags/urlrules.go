package flags

import (
	"fmt"
	"math"

	"drumbeat/crawl"
	"drumbeat/internal/urlrule"
)

// URLRules say which URLs are one and the same, and which are left out by the look of them.
type URLRules struct {
	Escapes         string `group:"urls" enum:"fold,keep" default:"fold" help:"Percent-escapes in paths and queries: fold (one spelling: hex digits in upper case, escapes of letters, digits and - . _ ~ decoded, so that /%7Ea and /~a are one URL), or keep (as pages spell them). Can't be changed later."`
	StripParams     string `group:"urls" placeholder:"LIST" help:"Parameters that are taken out of URLs, in queries and behind ; in paths: names, beginnings that end in *, and the lists session (PHPSESSID, jsessionid, ...) and tracking (utm_*, gclid, ...). Case doesn't count. URLs queued before keep their spelling."`
	SortQuery       bool   `group:"urls" help:"Sort the parameters of queries by name: the same ones in another order are the same URL."`
	CollapseSlashes bool   `group:"urls" help:"Make one of several slashes in a row in a path."`
	SkipExtensions  string `group:"urls" placeholder:"LIST" default:"default" help:"Links to files with these extensions are not followed: names, the list default (images, audio, video, archives, fonts, programs, office documents, data), or none. Seeds are."`
	MaxURLLength    Count  `group:"urls" name:"max-url-length" placeholder:"BYTES" default:"2083" help:"Longest URL that is followed."`
	MaxPathDepth    Count  `group:"urls" placeholder:"N" default:"32" help:"Most segments of a link's path. 0: no limit."`
	MaxRepeats      Count  `group:"urls" placeholder:"N" default:"3" help:"How many times a link's path may have the same segment: /a/b/a/b/a/b has two of them three times. 0: no limit."`
	MaxParams       Count  `group:"urls" placeholder:"N" default:"32" help:"Most parameters of a link's query. 0: no limit."`
	MaxPagesPerPLD  Count  `group:"urls" name:"max-pages-per-pld" placeholder:"N" default:"0" help:"Most URLs of a PLD that are taken up, over all runs; those beyond are refused. 0: no limit."`
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
			return fmt.Errorf("--%s %d: must lie between %d and %d", n.flag, n.v, n.least, n.most)
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

// Apply puts them into a crawl's options; check has been called.
func (u *URLRules) Apply(o *crawl.Options) {
	params, _ := urlrule.ParseParams(u.StripParams)
	extensions, _ := urlrule.ParseExtensions(u.SkipExtensions)
	o.URLRules = urlrule.Options{StripParams: params, SortQuery: u.SortQuery, CollapseSlashes: u.CollapseSlashes,
		SkipExtensions: extensions, MaxPathDepth: int(u.MaxPathDepth), MaxRepeats: int(u.MaxRepeats), MaxParams: int(u.MaxParams)}
	o.KeepEscapes = u.Escapes == "keep"
	o.MaxURLBytes, o.MaxPagesPerPLD = int(u.MaxURLLength), uint32(u.MaxPagesPerPLD)
}
