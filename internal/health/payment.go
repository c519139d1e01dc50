package health

import (
	"bytes"
	"strings"
)

// These are the results of Payments without a price.
const (
	Unpriced = "unpriced"
	License  = "license" // of RSL, free or paid
)

// maxPrice bounds a price, in bytes. Cloudflare's have some ten: a currency and an amount.
const maxPrice = 64

// Payments returns the price that a response asks for; License or Unpriced if it names none; "" if it does not ask for
// payment. These do: every 402 (RFC 9110, 15.5.3), a 401 with the authentication scheme License (RSL 1.0, Crawler
// Authorization Protocol), and every other 4xx with a crawler-price (Cloudflare, pay per crawl), except 429, which asks
// for fewer requests first of all. each calls its function with each value of a field until that returns false.
func Payments(status int, each func(name string, f func(value []byte) bool)) string {
	if status < 400 || status > 499 || status == 429 {
		return ""
	}
	price, licence := "", false
	each("Crawler-Price", func(value []byte) bool {
		price = printable(bytes.TrimSpace(value))
		return price == ""
	})
	if price != "" || status != 401 && status != 402 {
		return price
	}
	each("WWW-Authenticate", func(value []byte) bool {
		licence = hasLicense(value)
		return !licence
	})
	switch {
	case licence:
		return License
	case status == 402:
		return Unpriced
	}
	return ""
}

// hasLicense reports whether a WWW-Authenticate has a challenge of the scheme License (RFC 9110, 11.6.1: a list of
// challenges, whose parameters are separated by commas, too).
func hasLicense(value []byte) bool {
	quoted, start := false, 0
	for i := 0; i <= len(value); i++ {
		switch {
		case i < len(value) && quoted && value[i] == '\\':
			i++
		case i < len(value) && value[i] == '"':
			quoted = !quoted
		case i >= len(value) || value[i] == ',' && !quoted:
			part := bytes.TrimSpace(value[start:min(i, len(value))])
			scheme, _, _ := bytes.Cut(part, []byte(" "))
			if strings.EqualFold(string(scheme), License) {
				return true
			}
			start = i + 1
		}
	}
	return false
}

// printable returns a text of at most maxPrice bytes without controls and bytes outside ASCII.
func printable(value []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(value[:min(len(value), maxPrice)]))
}
