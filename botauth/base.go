package botauth

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Message is the part of a request or response that a signature can cover.
type Message struct {
	Method string
	Scheme string // http or https
	// Authority is the host, with its port unless that is the scheme's default. Its case does not matter.
	Authority string
	Path      string // as sent; empty: /
	Query     string // without its question mark; empty: none
	// Header has the fields by their canonical names.
	Header http.Header
	// Request is the request that a response answers. It is nil for a request.
	Request *Message
}

// RequestMessage returns the message of a request that a server received.
func RequestMessage(r *http.Request) *Message {
	m := &Message{Method: r.Method, Scheme: "http", Authority: r.Host, Path: r.URL.EscapedPath(),
		Query: r.URL.RawQuery, Header: r.Header}
	if r.TLS != nil {
		m.Scheme = "https"
	}
	return m
}

// authority returns the normalized authority (RFC 9421, 2.2.3).
func (m *Message) authority() string {
	host := strings.ToLower(m.Authority)
	port := ":80"
	if m.Scheme == "https" {
		port = ":443"
	}
	if name, found := strings.CutSuffix(host, port); found {
		if _, _, err := net.SplitHostPort(host); err == nil {
			return name
		}
	}
	return host
}

func (m *Message) path() string {
	if m.Path == "" {
		return "/"
	}
	return m.Path
}

// derived returns the value of a derived component (RFC 9421, 2.2).
func (m *Message) derived(name string) (string, bool) {
	query := ""
	if m.Query != "" {
		query = "?" + m.Query
	}
	switch name {
	case "@method":
		return m.Method, true
	case "@authority":
		return m.authority(), true
	case "@scheme":
		return m.Scheme, true
	case "@path":
		return m.path(), true
	case "@query":
		return "?" + m.Query, true
	case "@request-target":
		return m.path() + query, true
	case "@target-uri":
		return m.Scheme + "://" + m.authority() + m.path() + query, true
	}
	return "", false
}

// maxComponents bounds the components of a signature.
const maxComponents = 32

// signatureBase returns the bytes to sign (RFC 9421, 2.5).
func signatureBase(m *Message, input httpsfv.InnerList) (string, error) {
	if len(input.Items) > maxComponents {
		return "", fmt.Errorf("%w: %d components, the limit is %d", ErrCoverage, len(input.Items),
			maxComponents)
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, item := range input.Items {
		id, err := httpsfv.Marshal(item)
		if err != nil {
			return "", fmt.Errorf("%w: a covered component: %w", ErrMalformed, err)
		}
		if seen[id] {
			return "", fmt.Errorf("%w: the signature covers %s twice", ErrMalformed, id)
		}
		seen[id] = true
		value, err := m.component(id, item)
		if err != nil {
			return "", err
		}
		b.WriteString(id + ": " + value + "\n")
	}
	params, err := httpsfv.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("%w: Signature-Input: %w", ErrMalformed, err)
	}
	b.WriteString(`"@signature-params": ` + params)
	return b.String(), nil
}

// component returns the value of a component. Parameters other than key and req are not supported.
func (m *Message) component(id string, item httpsfv.Item) (string, error) {
	name, ok := item.Value.(string)
	if !ok || name != strings.ToLower(name) {
		return "", fmt.Errorf("%w: the component %s is not a lower-case string", ErrMalformed, id)
	}
	from, member, byKey := m, "", false
	for _, p := range item.Params.Names() {
		v, _ := item.Params.Get(p)
		switch {
		case p == "req" && v == true && m.Request != nil:
			from = m.Request
		case p == "key" && !strings.HasPrefix(name, "@"):
			if member, byKey = v.(string); !byKey {
				return "", fmt.Errorf("%w: the key of component %s is not a string", ErrMalformed, id)
			}
		default:
			return "", fmt.Errorf("%w: %s has an unsupported parameter", ErrCoverage, id)
		}
	}
	if strings.HasPrefix(name, "@") {
		if v, ok := from.derived(name); ok {
			return v, nil
		}
		return "", fmt.Errorf("%w: %s is not supported", ErrCoverage, id)
	}
	values := from.Header.Values(name)
	if len(values) == 0 {
		return "", fmt.Errorf("%w: it covers %s, which the message lacks", ErrCoverage, id)
	}
	if byKey {
		return memberOf(id, values, member)
	}
	return joined(values), nil
}

// joined returns the value of a field (RFC 9421, 2.1).
func joined(values []string) string {
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.Trim(v, " \t")
	}
	return strings.Join(trimmed, ", ")
}

// memberOf returns a member of a field that is a dictionary (RFC 9421, 2.1.2).
func memberOf(id string, values []string, key string) (string, error) {
	d, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return "", fmt.Errorf("%w: the field of %s is not a dictionary: %w", ErrMalformed, id, err)
	}
	member, found := d.Get(key)
	if !found {
		return "", fmt.Errorf("%w: it covers %s, which the message lacks", ErrCoverage, id)
	}
	text, err := httpsfv.Marshal(member)
	if err != nil {
		return "", fmt.Errorf("%w: the field of %s: %w", ErrMalformed, id, err)
	}
	return text, nil
}

// parameters returns the parameters of a signature. An empty nonce is left out.
func parameters(id string, created, expires time.Time, nonce, tag string) *httpsfv.Params {
	p := httpsfv.NewParams()
	p.Add("created", created.Unix())
	p.Add("expires", expires.Unix())
	p.Add("keyid", id)
	p.Add("alg", algorithm)
	if nonce != "" {
		p.Add("nonce", nonce)
	}
	p.Add("tag", tag)
	return p
}

// algorithm is the name of Ed25519 in RFC 9421, 3.3.6.
const algorithm = "ed25519"

// appendParameters appends the parameters as parameters serializes them, for a signature without nonce.
func appendParameters(b []byte, id string, created, expires time.Time, tag string) []byte {
	b = strconv.AppendInt(append(b, ";created="...), created.Unix(), 10)
	b = strconv.AppendInt(append(b, ";expires="...), expires.Unix(), 10)
	b = append(append(append(b, `;keyid="`...), id...), `";alg="`+algorithm+`";tag="`...)
	return append(append(b, tag...), '"')
}
