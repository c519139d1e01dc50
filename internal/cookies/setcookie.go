package cookies

import (
	"net/http"
	"strings"
	"time"
)

// The library's parser of Set-Cookie refuses what RFC 6265 (5.2) tells user agents to take: values with blanks or other
// bytes, dates in most forms, numbers too large for Max-Age. So this file has the algorithms of the RFC.

// maxAge bounds Max-Age in seconds, ten years: the library adds it to the time.
const maxAge = 10 * 365 * 24 * 3600

// parseSetCookie parses the value of a Set-Cookie header (RFC 6265, 5.2); ok is false if it is to be ignored.
// Value has the quotes that it came with.
func parseSetCookie(line string) (c http.Cookie, ok bool) {
	pair, rest, _ := strings.Cut(line, ";")
	name, value, has := strings.Cut(pair, "=")
	c.Name, c.Value = trimBlanks(name), trimBlanks(value)
	if !has || c.Name == "" ||
		strings.ContainsFunc(c.Name+c.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return c, false
	}
	for rest != "" {
		var attribute string
		attribute, rest, _ = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(attribute, "=")
		value = trimBlanks(value)
		switch strings.ToLower(trimBlanks(name)) {
		case "expires":
			if t, ok := parseDate(value); ok {
				c.Expires = t
			}
		case "max-age":
			if n, ok := parseMaxAge(value); ok {
				c.MaxAge = n
			}
		case "domain":
			if value != "" {
				c.Domain = value
			}
		case "path":
			if c.Path = ""; strings.HasPrefix(value, "/") {
				c.Path = value
			}
		case "secure":
			c.Secure = true
		case "httponly":
			c.HttpOnly = true
		}
	}
	return c, true
}

func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// mayBeSet reports whether a site may set a cookie from a page that came by HTTPS, or not: a secure one only
// by HTTPS, and names with a prefix only as the prefix promises (RFC 6265bis, 4.1.3).
func mayBeSet(c *http.Cookie, https bool) bool {
	name := strings.ToLower(c.Name)
	switch {
	case c.Secure && !https:
		return false
	case strings.HasPrefix(name, "__secure-"):
		return c.Secure
	case strings.HasPrefix(name, "__host-"):
		return c.Secure && c.Domain == "" && c.Path == "/"
	}
	return true
}

// parseMaxAge parses the value of Max-Age (RFC 6265, 5.2.2): below 0 for a cookie that is to be deleted.
func parseMaxAge(s string) (n int, ok bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if digits == "" {
		return 0, false
	}
	for i := range len(digits) {
		d := digits[i]
		if d < '0' || d > '9' {
			return 0, false
		}
		n = min(10*n+int(d-'0'), maxAge)
	}
	if negative || n == 0 {
		return -1, true
	}
	return n, true
}

// parseDate parses a date as RFC 6265 (5.1.1) says: it takes the first time, day, month and year among the
// tokens, whatever their order and all else around them.
func parseDate(s string) (t time.Time, ok bool) {
	var clock [3]int
	var month time.Month
	hasClock, day, year := false, -1, -1
	for token := range strings.FieldsFuncSeq(s, isDelimiter) {
		if !hasClock {
			if clock, hasClock = parseClock(token); hasClock {
				continue
			}
		}
		if n, digits := leadingDigits(token, 5); day < 0 && (digits == 1 || digits == 2) {
			day = n
			continue
		}
		if month == 0 && len(token) >= 3 {
			if i := strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", strings.ToLower(token[:3])); i >= 0 &&
				i%3 == 0 {
				month = time.Month(1 + i/3)
				continue
			}
		}
		if n, digits := leadingDigits(token, 5); year < 0 && digits >= 2 && digits <= 4 {
			year = n
		}
	}
	switch {
	case year >= 70 && year <= 99:
		year += 1900
	case year >= 0 && year <= 69:
		year += 2000
	}
	if !hasClock || day < 1 || month == 0 || year < 1601 || clock[0] > 23 || clock[1] > 59 || clock[2] > 59 {
		return t, false
	}
	t = time.Date(year, month, day, clock[0], clock[1], clock[2], 0, time.UTC)
	return t, t.Day() == day // no 31 February
}

// isDelimiter reports whether a character of a date stands between tokens. Colons do not.
func isDelimiter(r rune) bool {
	return r == '\t' || r >= ' ' && r <= '/' || r >= ';' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
}

// leadingDigits returns the number at the beginning of a token, and its number of digits, at most most.
func leadingDigits(s string, most int) (n, digits int) {
	for digits < len(s) && digits < most && s[digits] >= '0' && s[digits] <= '9' {
		n, digits = 10*n+int(s[digits]-'0'), digits+1
	}
	return n, digits
}

// parseClock parses hours, minutes and seconds of one or two digits each; what follows them does not matter.
func parseClock(token string) (clock [3]int, ok bool) {
	for i := range clock {
		n, digits := leadingDigits(token, 3)
		if clock[i] = n; digits < 1 || digits > 2 {
			return clock, false
		}
		if token = token[digits:]; i < 2 {
			if token == "" || token[0] != ':' {
				return clock, false
			}
			token = token[1:]
		}
	}
	return clock, true
}
