package log

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"drumbeat/internal/crawllog"
	"drumbeat/weburl"
)

// statusSpan is a range of HTTP statuses.
type statusSpan struct{ from, to int }

// UnmarshalText reads 404, 4xx or 400-499.
func (s *statusSpan) UnmarshalText(text []byte) error {
	t := string(text)
	low, high := t, t
	if digit, ok := strings.CutSuffix(strings.ToLower(t), "xx"); ok {
		low, high = digit+"00", digit+"99"
	} else if a, b, ok := strings.Cut(t, "-"); ok {
		low, high = a, b
	}
	from, err1 := strconv.ParseUint(low, 10, 16)
	to, err2 := strconv.ParseUint(high, 10, 16)
	if err1 != nil || err2 != nil || from < 100 || to > 999 || from > to {
		return fmt.Errorf("%q is not an HTTP status such as 404, 4xx or 400-499", text)
	}
	*s = statusSpan{int(from), int(to)}
	return nil
}

// String returns text that UnmarshalText reads.
func (s statusSpan) String() string { return fmt.Sprintf("%d-%d", s.from, s.to) }

// hostRule is a host, or all hosts below one.
type hostRule struct {
	host  string // canonical
	port  bool   // host has a port
	below bool
}

// UnmarshalText reads example.org, example.org:8080 or *.example.org.
func (h *hostRule) UnmarshalText(text []byte) error {
	host, below := strings.CutPrefix(string(text), "*.")
	url, err := weburl.Canonical("http://" + host + "/")
	name, _ := strings.CutPrefix(url, "http://")
	if err != nil || strings.ContainsAny(host, "/?#@\\*") || len(name) < 2 {
		return fmt.Errorf("%q is not a host such as example.org, *.example.org or example.org:8080", text)
	}
	name = strings.TrimSuffix(name, "/")
	*h = hostRule{host: name, port: len(hostOf([]byte(url), false)) < len(name), below: below}
	return nil
}

// String returns text that UnmarshalText reads.
func (h hostRule) String() string {
	if h.below {
		return "*." + h.host
	}
	return h.host
}

// hostOf returns the host of a canonical URL, or what stands in its place.
func hostOf(url []byte, port bool) []byte {
	if i := bytes.Index(url, []byte("://")); i >= 0 {
		url = url[i+3:]
	}
	if i := bytes.IndexAny(url, "/?#"); i >= 0 {
		url = url[:i]
	}
	if !port {
		if i := bytes.LastIndexByte(url, ':'); i > bytes.LastIndexByte(url, ']') {
			url = url[:i]
		}
	}
	return url
}

func (h *hostRule) match(url []byte) bool {
	host := hostOf(url, h.port)
	if h.below {
		rest, ok := bytes.CutSuffix(host, []byte(h.host))
		return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
	}
	return string(host) == h.host
}

// urlRule is the beginning of a URL, or a pattern of a whole one.
type urlRule string

// UnmarshalText reads http://example.org/a or *://example.org/*.pdf.
func (u *urlRule) UnmarshalText(text []byte) error {
	t := string(text)
	if !strings.Contains(t, "*") && !strings.HasPrefix(t, "http://") && !strings.HasPrefix(t, "https://") {
		return fmt.Errorf("%q is neither the beginning of a URL, with http:// or https://, nor a pattern with *", text)
	}
	*u = urlRule(t)
	return nil
}

func (u urlRule) match(url []byte) bool {
	if strings.Contains(string(u), "*") {
		return glob(string(u), url)
	}
	return bytes.HasPrefix(url, []byte(u))
}

// glob reports whether pattern matches all of text; * stands for any text.
func glob(pattern string, text []byte) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == string(text)
	}
	if !bytes.HasPrefix(text, []byte(parts[0])) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1:last] {
		i := bytes.Index(text, []byte(part))
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return bytes.HasSuffix(text, []byte(parts[last]))
}

// filter selects lines: all rules must match, and of each kind any one.
type filter struct {
	status       []statusSpan
	reason, mime []string
	host         []hostRule
	url          []urlRule
	since, until time.Time
}

func (c *Command) filter(now time.Time) (*filter, error) {
	w := &filter{status: c.Status, reason: c.Reason, host: c.Host, url: c.URL, since: c.Since.Time(now),
		until: c.Until.Time(now)}
	for _, t := range c.MIME {
		if !strings.Contains(t, "/") && !strings.Contains(t, "*") {
			return nil, fmt.Errorf("--mime %s: want a media type such as text/html or image/*", t)
		}
		w.mime = append(w.mime, strings.ToLower(t))
	}
	if !w.since.IsZero() && !w.until.IsZero() && w.since.After(w.until) {
		return nil, fmt.Errorf("--since %s is after --until %s", c.Since, c.Until)
	}
	return w, nil
}

func (w *filter) match(f *crawllog.Fields) bool {
	if !w.since.IsZero() && f.Time.Before(w.since) || !w.until.IsZero() && f.Time.After(w.until) {
		return false
	}
	return oneOf(w.status, func(s statusSpan) bool { return f.Status >= s.from && f.Status <= s.to }) &&
		oneOf(w.reason, func(r string) bool { return len(f.Reason) > 0 && glob(r, f.Reason) }) &&
		oneOf(w.host, func(h hostRule) bool { return h.match(f.URL) }) &&
		oneOf(w.url, func(u urlRule) bool { return u.match(f.URL) }) &&
		oneOf(w.mime, func(t string) bool { return len(f.MIME) > 0 && glob(t, bytes.ToLower(f.MIME)) })
}

// oneOf reports whether one of the rules matches, or there is none.
func oneOf[R any](rules []R, match func(R) bool) bool {
	for _, r := range rules {
		if match(r) {
			return true
		}
	}
	return len(rules) == 0
}
