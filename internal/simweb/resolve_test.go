package simweb

import whatwg "github.com/nlnwa/whatwg-url/url"

// resolve returns the canonical form of a reference by the URL standard; "" if it isn't an http or https URL.
func resolve(base, ref string) string {
	v, err := whatwg.ParseRef(base, ref)
	if err != nil || v.Protocol() != "http:" && v.Protocol() != "https:" {
		return ""
	}
	return v.Href(true)
}
