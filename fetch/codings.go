package fetch

import (
	"fmt"
	"slices"
	"strings"
)

// AllCodings lists the content codings that this package decodes, and identity, by their names in HTTP.
func AllCodings() []string { return []string{"gzip", "br", "zstd", "deflate", "identity"} }

// ParseCodings returns the value of Accept-Encoding (RFC 9110, 12.5.3) for a comma list of AllCodings, in its
// order and without weights. It fails on other names, on a name given twice and on an empty list.
func ParseCodings(list string) (header string, err error) {
	all := AllCodings()
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(all, name) {
			return "", fmt.Errorf("content coding %q is not one of %s", name, strings.Join(all, ", "))
		}
		if slices.Contains(names, name) {
			return "", fmt.Errorf("content coding %s is given twice", name)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", "), nil
}

// SetAcceptEncoding replaces Options.AcceptEncoding in all requests that are written from now on. It fails if
// the value holds control characters. It is safe for concurrent use, and a request costs no more than before.
func (c *Client) SetAcceptEncoding(header string) error {
	if !validValue(header) {
		return fmt.Errorf("fetch: Accept-Encoding %q holds control characters", header)
	}
	c.template.Store(c.newTemplate(header))
	return nil
}
