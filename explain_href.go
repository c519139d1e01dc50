package main

import "drumbeat/weburl"

// standardHref is the href that the URL standard gives, of any scheme, with user and fragment.
func standardHref(_ *weburl.Resolver, base, ref string) (string, error) {
	return weburl.WHATWG(base, ref)
}
