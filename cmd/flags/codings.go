package flags

import (
	"fmt"
	"strings"

	"drumbeat/fetch"
)

// Codings is --accept-encoding.
type Codings struct {
	Auto   bool   // the crawl chooses
	Header string // value of Accept-Encoding; gzip with Auto, before the first choice
}

// autoCodings is the value that leaves the choice to the crawl.
const autoCodings = "auto"

// UnmarshalText reads a list of content codings, or auto.
func (c *Codings) UnmarshalText(text []byte) (err error) {
	*c = Codings{Auto: string(text) == autoCodings}
	if c.Auto {
		c.Header = "gzip"
		return nil
	}
	if c.Header, err = fetch.ParseCodings(string(text)); err != nil {
		return fmt.Errorf("%w; give a list of these, or auto alone", err)
	}
	return nil
}

// String returns text that UnmarshalText reads.
func (c Codings) String() string {
	if c.Auto {
		return autoCodings
	}
	return strings.ReplaceAll(c.Header, " ", "")
}

// ForSitemaps returns the value of Accept-Encoding for sitemaps: gzip, or identity if gzip is not wanted.
func (c Codings) ForSitemaps() string {
	for name := range strings.SplitSeq(c.Header, ", ") {
		if name == "gzip" {
			return name
		}
	}
	return "identity"
}
