package crawllog

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxLine is more than the bytes of any line: longer URLs and texts are cut.
const (
	MaxLine   = 17 << 10
	maxURL    = 8 << 10
	maxTarget = 2200 // a URL of the usual limit, and its escapes as a rule
	maxVia    = 600  // what goes with a URL of it, and some escapes
	maxText   = 256
	timeForm  = "2006-01-02T15:04:05.000Z"
)

// Entry is the outcome of one URL. Fields that are zero aren't written, except Time and URL.
type Entry struct {
	// Time of the outcome or of the fetch's start, written in UTC with milliseconds.
	Time time.Time
	// URL is canonical, Key its key.
	URL string
	Key uint64
	// Status of the HTTP answer; 0 if there was none.
	Status int
	// Reason why the URL was refused or given up, in a word or two; "" if it was fetched.
	Reason string
	// Truncated says why the body isn't whole; "" if it is.
	Truncated string
	// Page is set if links were looked for in the body.
	Page bool
	// Bytes received, head and body as on the wire.
	Bytes int64
	// Depth in links from a seed.
	Depth int
	// Via is the URL of the page that the URL was first found on, "" for a seed; Parent is its key, if Via is cut.
	Via    string
	Parent uint64
	// IP is the address fetched from; the zero Addr if none was.
	IP netip.Addr
	// Elapsed from the start of the fetch to its end, written in whole milliseconds.
	Elapsed time.Duration
	// Attempts before this one.
	Attempts int
	// MIME type; parameters are cut off.
	MIME string
	// Robots are the directives that the response gave for robots: "noindex, nofollow", one of them, or "".
	Robots string
	// Canonical, Refresh and Redirect are the URLs that the response names as its canonical one and leads to.
	Canonical, Refresh, Redirect string
	// Dropped says why Redirect isn't followed: "too-many-redirects"; "" if it is, or if the rules for links say why.
	Dropped string
	// File and Offset say where the response record is; "" if nothing was stored.
	File   string
	Offset int64
}

// line is an Entry as encoding/json reads it.
type line struct {
	TS        time.Time  `json:"ts"`
	URL       string     `json:"url"`
	Key       string     `json:"key"`
	Status    int        `json:"status"`
	Reason    string     `json:"reason"`
	Truncated string     `json:"truncated"`
	Page      bool       `json:"page"`
	Bytes     int64      `json:"bytes"`
	Depth     int        `json:"depth"`
	Via       string     `json:"via"`
	Parent    string     `json:"parent"`
	IP        netip.Addr `json:"ip"`
	Millis    int64      `json:"ms"`
	Attempts  int        `json:"attempts"`
	MIME      string     `json:"mime"`
	Robots    string     `json:"robots"`
	Canonical string     `json:"canonical"`
	Refresh   string     `json:"refresh"`
	Redirect  string     `json:"redirect"`
	Dropped   string     `json:"dropped"`
	File      string     `json:"file"`
	Offset    int64      `json:"offset"`
}

// UnmarshalJSON reads what Append writes. Unknown fields are skipped.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var v line
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*e = Entry{
		Time: v.TS, URL: v.URL, Status: v.Status, Reason: v.Reason, Truncated: v.Truncated, Page: v.Page, Bytes: v.Bytes,
		Depth: v.Depth, Via: v.Via, IP: v.IP, Elapsed: time.Duration(v.Millis) * time.Millisecond, Attempts: v.Attempts, MIME: v.MIME,
		Robots: v.Robots, Canonical: v.Canonical, Refresh: v.Refresh, Redirect: v.Redirect, Dropped: v.Dropped,
		File: v.File, Offset: v.Offset,
	}
	for _, k := range [...]struct {
		name, text string
		at         *uint64
	}{{"key", v.Key, &e.Key}, {"parent", v.Parent, &e.Parent}} {
		if k.text == "" {
			continue
		}
		n, err := strconv.ParseUint(k.text, 16, 64)
		if err != nil || len(k.text) != 16 {
			return fmt.Errorf("%s %q, want 16 hexadecimal digits", k.name, k.text)
		}
		*k.at = n
	}
	return nil
}

// Append appends the entry as one line of JSON with its end to dst.
func (e *Entry) Append(dst []byte) []byte {
	dst = append(dst, `{"ts":"`...)
	dst = e.Time.UTC().AppendFormat(dst, timeForm)
	dst = append(dst, `","url":`...)
	dst = appendString(dst, e.URL, maxURL)
	dst = appendKey(dst, `,"key":"`, e.Key)
	dst = appendNumber(dst, `,"status":`, int64(e.Status))
	dst = appendText(dst, `,"reason":`, e.Reason)
	dst = appendText(dst, `,"truncated":`, e.Truncated)
	if e.Page {
		dst = append(dst, `,"page":true`...)
	}
	dst = appendNumber(dst, `,"bytes":`, e.Bytes)
	dst = appendNumber(dst, `,"depth":`, int64(e.Depth))
	if e.Via != "" {
		dst = appendString(append(dst, `,"via":`...), e.Via, maxVia)
	}
	dst = appendKey(dst, `,"parent":"`, e.Parent)
	if e.IP.IsValid() {
		dst = append(dst, `,"ip":"`...)
		dst = append(e.IP.Unmap().WithZone("").AppendTo(dst), '"')
	}
	dst = appendNumber(dst, `,"ms":`, e.Elapsed.Milliseconds())
	dst = appendNumber(dst, `,"attempts":`, int64(e.Attempts))
	mime, _, _ := strings.Cut(e.MIME, ";")
	dst = appendText(dst, `,"mime":`, strings.TrimSpace(mime))
	dst = appendText(dst, `,"robots":`, e.Robots)
	dst = appendTarget(dst, `,"canonical":`, e.Canonical)
	dst = appendTarget(dst, `,"refresh":`, e.Refresh)
	dst = appendTarget(dst, `,"redirect":`, e.Redirect)
	dst = appendText(dst, `,"dropped":`, e.Dropped)
	dst = appendText(dst, `,"file":`, e.File)
	dst = appendNumber(dst, `,"offset":`, e.Offset)
	return append(dst, "}\n"...)
}

func appendKey(dst []byte, name string, v uint64) []byte {
	if v == 0 {
		return dst
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return append(hex.AppendEncode(append(dst, name...), b[:]), '"')
}

func appendNumber(dst []byte, name string, v int64) []byte {
	if v == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, name...), v, 10)
}

func appendText(dst []byte, name, v string) []byte {
	if v == "" {
		return dst
	}
	return appendString(append(dst, name...), v, maxText)
}

// appendTarget appends a URL that the entry's leads to.
func appendTarget(dst []byte, name, v string) []byte {
	if v == "" {
		return dst
	}
	return appendString(append(dst, name...), v, maxTarget)
}

// plain tells whether nothing in s is escaped.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendString appends s as a JSON string of at most limit bytes, cut between characters. Bytes that aren't
// UTF-8 become U+FFFD. What can't be printed is escaped: U+2028 ends a line for some readers, U+009B begins
// an escape sequence for some terminals.
func appendString(dst []byte, s string, limit int) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	if len(s) <= limit-12 && plain(s) {
		return append(append(dst, s...), '"')
	}
	limit += len(dst) - 12 // the longest escape
	for i := 0; i < len(s) && len(dst) <= limit; {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			switch hi, lo := utf16.EncodeRune(r); {
			case unicode.IsPrint(r):
				dst = utf8.AppendRune(dst, r)
			case hi == utf8.RuneError:
				dst = fmt.Appendf(dst, `\u%04x`, r)
			default:
				dst = fmt.Appendf(dst, `\u%04x\u%04x`, hi, lo)
			}
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}
