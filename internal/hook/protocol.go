package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Version is the version of the protocol.
const Version = 1

// Limits of what a process may answer.
const (
	MaxLine   = 1 << 20  // bytes of a line
	MaxLinks  = 1000     // links of an answer
	MaxFields = 16 << 10 // bytes of the fields of an answer, as compact JSON
)

// Part is a part of a page that a process gets if it wants it.
type Part string

// The parts.
const (
	PartHeaders Part = "headers" // of the response
	PartBody    Part = "body"    // as decoded from its content coding, in Base64
	PartText    Part = "text"    // the visible text of HTML, and text of other text types
	PartLinks   Part = "links"   // that the crawl would follow
)

// Wants are the parts that the processes of a pool want.
type Wants struct{ Headers, Body, Text, Links bool }

// Request describes a page to a process. Zero fields are omitted, except URL and Status.
type Request struct {
	ID     uint64 `json:"id"` // Ask fills it in
	URL    string `json:"url"`
	Status int    `json:"status"`
	MIME   string `json:"mime,omitempty"` // without parameters, in lower case
	// Depth is the number of links from the nearest seed.
	Depth int `json:"depth"`
	// Via is the URL of the page on which this one was found; "" for a seed, or if it is unknown.
	Via string `json:"via,omitempty"`
	// Robots are the robots directives of the page, as the metadata record has them.
	Robots  string      `json:"robots,omitempty"`
	Headers [][2]string `json:"headers,omitempty"`
	// Body has at most Options.BodyBytes, and Text as many.
	Body []byte `json:"body,omitempty"`
	Text string `json:"text,omitempty"`
	// Links are canonical.
	Links []string `json:"links,omitempty"`
	// Truncated says that Body or Text is not the whole of the page's.
	Truncated bool `json:"truncated,omitempty"`
}

// Answer is what a process says of a page. The zero Answer is not that of a process without an opinion: see
// parseAnswer for the defaults.
type Answer struct {
	Keep   bool // store the page
	Follow bool // take the page's own links
	// Links are further links, as in a page: resolved against its URL, and subject to all checks.
	Links []string
	// Score is between 0 and 1; Scored says that there is one.
	Score  float64
	Scored bool
	// Fields is a compact JSON object, nil for none.
	Fields []byte
}

// greeting is the first line in either direction. A process ignores fields that it does not know.
type greeting struct {
	Hook    int    `json:"hook"`
	Program string `json:"program,omitempty"` // ours
	Body    int    `json:"body_bytes,omitempty"`
	Timeout int64  `json:"timeout_ms,omitempty"`
	Want    []Part `json:"want,omitempty"` // the process's
}

// parseGreeting returns what a process wants.
func parseGreeting(line []byte) (w Wants, _ error) {
	var g greeting
	if err := json.Unmarshal(line, &g); err != nil {
		return w, fmt.Errorf("its first line %.100q is not a greeting: %w", line, err)
	}
	if g.Hook != Version {
		return w, fmt.Errorf("its first line %.100q has protocol version %d, want %d", line, g.Hook, Version)
	}
	for _, part := range g.Want {
		switch part {
		case PartHeaders:
			w.Headers = true
		case PartBody:
			w.Body = true
		case PartText:
			w.Text = true
		case PartLinks:
			w.Links = true
		default:
			return w, fmt.Errorf("it wants %.100q, want %q, %q, %q or %q", part, PartHeaders, PartBody,
				PartText, PartLinks)
		}
	}
	return w, nil
}

// appendRequest appends a request as a line with its newline.
func appendRequest(b *bytes.Buffer, r *Request) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// limitError says that an answer exceeds a limit. The process may continue.
type limitError struct{ error }

// parseAnswer decodes an answer to the request with an ID. Fields that are absent or null have these values:
// keep and follow are true, the rest is empty. Errors other than *limitError mean that the process does not keep
// to the protocol.
func parseAnswer(line []byte, id uint64) (*Answer, error) {
	var v struct {
		ID     *uint64
		Keep   *bool
		Follow *bool
		Links  []string
		Score  *float64
		Fields json.RawMessage
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("its answer %.100q: %w", line, err)
	}
	if v.ID == nil || *v.ID != id {
		return nil, fmt.Errorf("its answer %.100q lacks the id of the request, %d", line, id)
	}
	a := &Answer{Keep: v.Keep == nil || *v.Keep, Follow: v.Follow == nil || *v.Follow, Links: v.Links}
	if len(a.Links) > MaxLinks {
		return nil, &limitError{fmt.Errorf("%d links, more than %d", len(a.Links), MaxLinks)}
	}
	if v.Score != nil {
		if a.Score, a.Scored = *v.Score, true; a.Score < 0 || a.Score > 1 {
			return nil, &limitError{fmt.Errorf("score %v, want 0 to 1", a.Score)}
		}
	}
	fields := bytes.TrimSpace(v.Fields)
	if len(fields) == 0 || string(fields) == "null" {
		return a, nil
	}
	if fields[0] != '{' {
		return nil, &limitError{errors.New("fields are not an object")}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, fields); err != nil {
		return nil, fmt.Errorf("its answer %.100q: %w", line, err)
	}
	if a.Fields = slices.Clip(compact.Bytes()); len(a.Fields) > MaxFields {
		return nil, &limitError{fmt.Errorf("%d bytes of fields, more than %d", len(a.Fields), MaxFields)}
	}
	if !utf8.Valid(a.Fields) {
		return nil, &limitError{errors.New("fields are not UTF-8")}
	}
	if string(a.Fields) == "{}" {
		a.Fields = nil
	}
	return a, nil
}
