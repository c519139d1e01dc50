//go:build !whatwg

package simweb

import (
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// resolve gives the canonical form of a reference by net/url, after turning the spellings that browsers
// accept and RFC 3986 does not into plain ones; "" for what is no http or https URL. With the build tag
// whatwg, a library of the URL standard does it instead.
func resolve(base, ref string) string {
	ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.Trim(ref, " \t\n\r\f"))
	ref, _, _ = strings.Cut(ref, "#")
	path, query, hasQuery := strings.Cut(ref, "?")
	path = strings.NewReplacer(`\`, "/", "%2e", ".", "%2E", ".").Replace(path)
	scheme, rest, ok := strings.Cut(path, ":")
	if s := strings.ToLower(scheme); ok && (s == "http" || s == "https") {
		path = scheme + "://" + strings.TrimLeft(rest, "/")
	}
	if hasQuery {
		path += "?" + query
	}
	b, err := url.Parse(base)
	if err != nil {
		return ""
	}
	u, err := b.Parse(path)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil || host == "" || strings.Contains(host, " ") {
		return ""
	}
	usual := map[string]string{"http": "80", "https": "443"}
	if port := strings.TrimLeft(u.Port(), "0"); port != "" && port != usual[u.Scheme] {
		host += ":" + port
	}
	u.Host, u.User = host, nil
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
