package flags

import (
	"fmt"

	"drumbeat/crawl"
	"drumbeat/internal/urlrule"
)

// URLRules holds the flags that decide which URLs are equal, and which links to drop by their spelling.
type URLRules struct {
	Canonical      canonical `group:"urls" type:"parts" placeholder:"PARTS"`
	StripParams    string    `group:"urls" placeholder:"LIST"`
	SkipExtensions string    `group:"urls" placeholder:"LIST" default:"default"`
	Guards         guards    `group:"urls" type:"parts" placeholder:"PARTS"`
}

// canonical says which spellings are one URL.
type canonical struct {
	Escapes string `part:"escapes" enum:"fold,keep" default:"fold"`
	Sort    bool   `part:"sort"`
	Slashes bool   `part:"slashes"`
}

// Keep reports whether escapes stay as pages spell them.
func (c canonical) Keep() bool { return c.Escapes == "keep" }

// guards bound the spelling of links. Records of URLs of 3500 bytes fit into the buffers of the smallest crawl.
type guards struct {
	Depth   Count `part:"depth" default:"32" most:"3500"`
	Repeats Count `part:"repeats" default:"3" most:"3500"`
	Params  Count `part:"params" default:"32" most:"3500"`
	Length  Count `part:"length" default:"2083" least:"100" most:"3500" placeholder:"BYTES"`
}

// Check returns the first fault.
func (u *URLRules) Check() error {
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
	g := &u.Guards
	o.URLRules = urlrule.Options{StripParams: params, SortQuery: u.Canonical.Sort, CollapseSlashes: u.Canonical.Slashes,
		SkipExtensions: extensions, MaxPathDepth: int(g.Depth), MaxRepeats: int(g.Repeats), MaxParams: int(g.Params)}
	o.KeepEscapes, o.MaxURLBytes = u.Canonical.Keep(), int(g.Length)
}
