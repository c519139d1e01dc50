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

// MaxLine bounds a line, in bytes: longer URLs and texts are truncated.
const (
	MaxLine   = 32 << 10
	maxURL    = 8 << 10
	maxTarget = 2200 // a URL of the default limit, with the usual number of escapes
	maxVia    = 600  // a URL with some escapes
	maxText   = 256
	maxFields = 1 << 10 // without escapes, which at most double it
	timeForm  = "2006-01-02T15:04:05.000Z"
)

// Entry is the outcome of one URL. Zero fields are not written, except Time and URL.
type Entry struct {
	// Time of the outcome, or of the start of the fetch; written in UTC with milliseconds.
	Time time.Time
	// URL is canonical; Key is its key.
	URL string
	Key uint64
	// Status of the HTTP response; 0 without one.
	Status int
	// Reason why the URL was refused or given up, in one or two words; "" if it was fetched.
	Reason string
	// Order says that Reason is that of an order (package orders): the URL was not taken, or its order was refused.
	// That did not end the URL, which may have another line.
	Order bool
	// Truncated is the reason why the body is incomplete; "" if it is complete.
	Truncated string
	// Page is set if the body was parsed for links.
	Page bool
	// Bytes received: header and body, as transferred.
	Bytes int64
	// Depth is the number of links from a seed.
	Depth int
	// Via is the URL of the page on which the URL was first found, "" for a seed. Parent is its key if Via
	// is truncated.
	Via    string
	Parent uint64
	// IP is the address that the URL was fetched from; the zero Addr if it was not fetched.
	IP netip.Addr
	// Elapsed time of the fetch, written in whole milliseconds.
	Elapsed time.Duration
	// Attempts is the number of earlier attempts.
	Attempts int
	// MIME type without parameters.
	MIME string
	// Charset is the name of the encoding in which the body was parsed; "" if it was not.
	Charset string
	// Robots are the robots directives of the response: "noindex", "nofollow", "noindex, nofollow" or "".
	Robots string
	// Canonical, Refresh and Redirect are URLs of the response: its canonical URL, and the targets of its
	// refresh and redirect.
	Canonical, Refresh, Redirect string
	// Dropped is "too-many-redirects" if that is the reason not to follow Redirect. It is "" if Redirect is
	// followed, or if the rules for links decide.
	Dropped string
	// File and Offset are the position of the response record; File is "" if nothing was stored.
	File   string
	Offset int64
	// DuplicateOf is the URL that had the same body first; "" if the body is new or was not compared.
	DuplicateOf string
	// NearDuplicateOf is the URL of the page of the host whose text is nearly the same; "" if there is none, or texts
	// were not compared.
	NearDuplicateOf string
	// Score is the score of a hook, if Scored. Fields are its fields, a compact JSON object; "" for none. Fields of
	// more than a KiB are not written: they are not for a log.
	Score  float64
	Scored bool
	Fields string
	// TLS says what is wrong with TLS: the verdict on a certificate that is not good, or why the handshake
	// failed; "" for a good certificate and without TLS.
	TLS string
	// Payment is the price that the response asks for, "license" or "unpriced"; "" if it does not ask for payment.
	Payment string
	// SignedBy is the id of the key by which the request was signed; "" if it was not.
	SignedBy string
	// Rights are the statements about the use of the response.
	Rights Rights
}

// line is the JSON form of an Entry, for decoding.
type line struct {
	TS        time.Time  `json:"ts"`
	URL       string     `json:"url"`
	Key       string     `json:"key"`
	Status    int        `json:"status"`
	Reason    string     `json:"reason"`
	Order     bool       `json:"order"`
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
	Charset   string     `json:"charset"`
	Robots    string     `json:"robots"`
	Canonical string     `json:"canonical"`
	Refresh   string     `json:"refresh"`
	Redirect  string     `json:"redirect"`
	Dropped   string     `json:"dropped"`
	File      string     `json:"file"`
	Offset    int64      `json:"offset"`

	DuplicateOf     string   `json:"duplicate_of"`
	NearDuplicateOf string   `json:"near_duplicate_of"`
	Score           *float64 `json:"score"`
	Fields          string   `json:"fields"`
	TLS             string   `json:"tls"`
	Payment         string   `json:"payment"`
	SignedBy        string   `json:"signed_by"`

	Digest   string `json:"robots_digest"`
	Fetched  string `json:"robots_fetched"`
	Group    string `json:"robots_group"`
	Rule     string `json:"robots_rule"`
	Delay    string `json:"robots_crawl_delay"`
	Signal   string `json:"content_signal"`
	Usage    string `json:"content_usage"`
	License  string `json:"license"`
	AI       string `json:"ai_disallowed"`
	Cut      string `json:"rights_cut"`
	Values   string `json:"robots_values"`
	Reserved string `json:"tdm_reservation"`
	Policy   string `json:"tdm_policy"`
	Refused  string `json:"usage"`
	TDMFile  string `json:"tdm_file"`
}

// UnmarshalJSON decodes a line of Append. It ignores unknown fields.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var v line
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*e = Entry{
		Time: v.TS, URL: v.URL, Status: v.Status, Reason: v.Reason, Order: v.Order, Truncated: v.Truncated,
		Page:  v.Page,
		Bytes: v.Bytes, Depth: v.Depth, Via: v.Via, IP: v.IP,
		Elapsed: time.Duration(v.Millis) * time.Millisecond, Attempts: v.Attempts, MIME: v.MIME, Charset: v.Charset,
		Robots: v.Robots, Canonical: v.Canonical, Refresh: v.Refresh, Redirect: v.Redirect, Dropped: v.Dropped,
		File: v.File, Offset: v.Offset, DuplicateOf: v.DuplicateOf, NearDuplicateOf: v.NearDuplicateOf,
		Scored: v.Score != nil, Fields: v.Fields, TLS: v.TLS, Payment: v.Payment, SignedBy: v.SignedBy,
		Rights: Rights{v.Digest, v.Fetched, v.Group, v.Rule, v.Delay, v.Signal, v.Usage, v.License, v.AI, v.Cut,
			v.Values, v.Reserved, v.Policy, v.Refused, v.TDMFile},
	}
	if e.Scored {
		e.Score = *v.Score
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

// Append appends the entry to dst as one line of JSON with its newline.
func (e *Entry) Append(dst []byte) []byte {
	dst = append(dst, `{"ts":"`...)
	dst = e.Time.UTC().AppendFormat(dst, timeForm)
	dst = append(dst, `","url":`...)
	dst = appendString(dst, e.URL, maxURL)
	dst = appendKey(dst, `,"key":"`, e.Key)
	dst = appendNumber(dst, `,"status":`, int64(e.Status))
	dst = appendText(dst, `,"reason":`, e.Reason)
	if e.Order {
		dst = append(dst, `,"order":true`...)
	}
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
	dst = appendText(dst, `,"charset":`, e.Charset)
	dst = appendText(dst, `,"robots":`, e.Robots)
	dst = appendTarget(dst, `,"canonical":`, e.Canonical)
	dst = appendTarget(dst, `,"refresh":`, e.Refresh)
	dst = appendTarget(dst, `,"redirect":`, e.Redirect)
	dst = appendText(dst, `,"dropped":`, e.Dropped)
	dst = appendText(dst, `,"tls":`, e.TLS)
	dst = appendText(dst, `,"payment":`, e.Payment)
	dst = appendText(dst, `,"signed_by":`, e.SignedBy)
	dst = appendText(dst, `,"file":`, e.File)
	dst = appendNumber(dst, `,"offset":`, e.Offset)
	dst = appendTarget(dst, `,"duplicate_of":`, e.DuplicateOf)
	dst = appendTarget(dst, `,"near_duplicate_of":`, e.NearDuplicateOf)
	if e.Scored {
		dst = strconv.AppendFloat(append(dst, `,"score":`...), e.Score, 'g', -1, 64)
	}
	if e.Fields != "" && len(e.Fields) <= maxFields { // a part would not be JSON
		dst = appendString(append(dst, `,"fields":`...), e.Fields, 2*maxFields+16)
	}
	return append(e.Rights.append(dst), "}\n"...)
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

// appendTarget appends a URL of the response.
func appendTarget(dst []byte, name, v string) []byte {
	if v == "" {
		return dst
	}
	return appendString(append(dst, name...), v, maxTarget)
}

// plain reports whether s needs no escapes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendString appends s as a JSON string of at most limit bytes; it truncates between characters. Bytes
// that aren't UTF-8 become U+FFFD. Unprintable characters are escaped: U+2028 ends a line for some readers,
// U+009B starts an escape sequence for some terminals.
func appendString(dst []byte, s string, limit int) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	if len(s) <= limit-12 && plain(s) {
		return append(append(dst, s...), '"')
	}
	limit += len(dst) - 12 // leave room for the longest escape
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
