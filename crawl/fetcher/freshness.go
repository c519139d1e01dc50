package fetcher

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/health"
)

// Freshness returns how long a response stays fresh in a private cache (RFC
// 9111): max-age, or Expires minus Date, each minus Age. It returns 0 for no-store, no-cache and expired
// responses. It ignores s-maxage, which is for shared caches, and must-revalidate, since RFC 9309 2.4
// allows an old copy while the site is unreachable. said is false if the headers give no lifetime.
//
// robots.Outcome limits the lifetime to MinLifetime … Lifetime: RFC 9309 allows no copy older than a day,
// and a request for each URL would burden the site more than rules that are an hour old.
func Freshness(resp *fetch.Response, now time.Time) (lifetime time.Duration, known bool) {
	control := false
	resp.EachHeader("Cache-Control", func(value []byte) bool {
		for part := range bytes.SplitSeq(value, []byte(",")) {
			control = true
			name, arg, _ := bytes.Cut(part, []byte("="))
			switch string(bytes.ToLower(bytes.TrimSpace(name))) {
			case "no-store", "no-cache":
				lifetime, known = 0, true
				return false
			case "max-age":
				d, ok := deltaSeconds(bytes.Trim(bytes.TrimSpace(arg), `"`))
				if ok && (!known || d < lifetime) { // the smaller of two
					lifetime, known = d, true
				} else if !ok {
					lifetime, known = 0, true // RFC 9111 4.2.1: an unreadable value means stale
				}
			}
		}
		return true
	})
	if !known && !control && bytes.EqualFold(bytes.TrimSpace(resp.Header("Pragma")), []byte("no-cache")) {
		return 0, true
	}
	if v := bytes.TrimSpace(resp.Header("Expires")); !known && len(v) > 0 {
		date, err := http.ParseTime(string(bytes.TrimSpace(resp.Header("Date"))))
		if err != nil {
			date = now
		}
		expires, err := http.ParseTime(string(v))
		if err != nil {
			return 0, true // RFC 9111 5.3: an invalid date such as "0" means the past
		}
		lifetime, known = expires.Sub(date), true
	}
	if age, ok := deltaSeconds(bytes.TrimSpace(resp.Header("Age"))); known && ok {
		lifetime -= age
	}
	return max(lifetime, 0), known
}

// deltaSeconds parses a number of seconds. It limits larger values to 2³¹ (RFC 9111, 1.2.2).
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

// RetryAfter parses the Retry-After header (RFC 9110 10.2.3): seconds or a date. It returns 0 if there is
// none.
func RetryAfter(resp *fetch.Response, now time.Time) time.Duration {
	v := string(bytes.TrimSpace(resp.Header("Retry-After")))
	if v == "" {
		return 0
	}
	if d, ok := deltaSeconds([]byte(v)); ok {
		return min(d, health.MaxRetryAfter)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, min(t.Sub(now), health.MaxRetryAfter))
	}
	return 0
}
