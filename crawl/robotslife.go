package crawl

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"drumbeat/fetch"
)

// robotsLife is how long an answer to a robots request stays fresh, as RFC 9111 says of a private cache: max-age, or Expires
// less Date, less Age. no-store, no-cache and what has expired already give 0. s-maxage is for shared caches. must-revalidate is
// overruled by RFC 9309, 2.4: while the site is unreachable, an old copy serves. False if the answer doesn't say.
//
// robots.Outcome keeps the life between MinLifetime and Lifetime: RFC 9309 has no copy older than a day, and a request for each
// URL would be worse for the site than an hour's delay.
func robotsLife(resp *fetch.Response, now time.Time) (life time.Duration, said bool) {
	control := false
	resp.EachHeader("Cache-Control", func(value []byte) bool {
		for part := range bytes.SplitSeq(value, []byte(",")) {
			control = true
			name, arg, _ := bytes.Cut(part, []byte("="))
			switch string(bytes.ToLower(bytes.TrimSpace(name))) {
			case "no-store", "no-cache":
				life, said = 0, true
				return false
			case "max-age":
				if d, ok := deltaSeconds(bytes.Trim(bytes.TrimSpace(arg), `"`)); ok && (!said || d < life) { // the least, if there are two
					life, said = d, true
				} else if !ok {
					life, said = 0, true // 4.2.1: what can't be read is stale
				}
			}
		}
		return true
	})
	if !said && !control && bytes.EqualFold(bytes.TrimSpace(resp.Header("Pragma")), []byte("no-cache")) {
		return 0, true
	}
	if v := bytes.TrimSpace(resp.Header("Expires")); !said && len(v) > 0 {
		date, err := http.ParseTime(string(bytes.TrimSpace(resp.Header("Date"))))
		if err != nil {
			date = now
		}
		expires, err := http.ParseTime(string(v))
		if err != nil {
			return 0, true // 5.3: "0" and the like mean the past
		}
		life, said = expires.Sub(date), true
	}
	if age, ok := deltaSeconds(bytes.TrimSpace(resp.Header("Age"))); said && ok {
		life -= age
	}
	return max(life, 0), said
}

// deltaSeconds reads a number of seconds; what is too large is 2³¹ (RFC 9111, 1.2.2).
func deltaSeconds(v []byte) (time.Duration, bool) {
	if len(v) == 0 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > 1<<31 {
		n = 1 << 31
	}
	return time.Duration(n) * time.Second, true
}
