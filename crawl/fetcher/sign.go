package fetcher

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/botauth"
	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/state"
)

// A site may demand a signature: it answers with status 401, 403, 429 or 503 and a field Accept-Signature (RFC 9421,
// 5). The crawl then requests the URL once more, in the turn of its host, with that signature, and signs its next
// requests to the site in the same way. RAM holds the demands of the last sites. After a restart, sites repeat theirs.
//
// Without a demand, the crawl signs only requests over TLS. On plain HTTP, anybody on the way could repeat a signature
// to the same site until it expires. For the same reason, no server whose certificate is bad gets a signature, asked or
// not: it may be in the place of the site.

// signing signs requests. A nil signing signs none.
type signing struct {
	signer *botauth.Signer
	when   options.SignWhen

	mu          sync.Mutex // guards the fields below; held for no signature
	asks, older map[string]botauth.Ask
}

// askingHosts bounds each of the two generations of sites that asked. With a nonce, each takes up to 1 KiB.
const askingHosts = 4 << 10

// newSigning returns the signing of a crawl, nil without a signer.
func newSigning(signer *botauth.Signer, when options.SignWhen) *signing {
	if signer == nil {
		return nil
	}
	return &signing{signer: signer, when: when, asks: map[string]botauth.Ask{}}
}

// signed says how a request was signed.
type signed struct {
	asked bool // as its site asked
	nonce bool // with the nonce of its site

	anyCertificate bool // the server gets the signature although its certificate is bad
}

// sign adds a signature to a request, if it is to have one. With anyCertificate, servers with bad certificates get it,
// too.
func (s *signing) sign(req *fetch.Request, now time.Time, anyCertificate bool) (how signed, err error) {
	if s == nil || s.when == options.SignNever {
		return how, nil
	}
	how.anyCertificate = anyCertificate
	m := messageOf(req)
	var fields botauth.Fields
	ask, asked := s.take(m.Authority)
	switch {
	case asked:
		how.asked, how.nonce = true, ask.Nonce != ""
		if fields, err = s.signer.Answer(m, ask, now); err != nil {
			return how, err
		}
	case s.when == options.SignAlways && req.Scheme == "https":
		fields = s.signer.Sign(m.Authority, now)
	default:
		return how, nil
	}
	req.Fields = append(slices.Clip(req.Fields),
		fetch.Field{Name: "Signature-Agent", Value: fields.SignatureAgent, Trusted: !anyCertificate},
		fetch.Field{Name: signatureInput, Value: fields.SignatureInput, Trusted: !anyCertificate},
		fetch.Field{Name: "Signature", Value: fields.Signature, Trusted: !anyCertificate})
	return how, nil
}

const signatureInput = "Signature-Input"

var inputLine = []byte("\r\n" + signatureInput + ": ")

// SignedBy returns the id of the key by which the request of a response was signed; "" if it was not.
func SignedBy(resp *fetch.Response) string {
	_, input, _ := bytes.Cut(resp.RequestHead, inputLine)
	input, _, _ = bytes.Cut(input, []byte("\r\n"))
	_, id, _ := bytes.Cut(input, []byte(`;keyid="`))
	id, _, _ = bytes.Cut(id, []byte(`"`))
	return string(id)
}

// messageOf returns the parts of a request that a signature covers.
func messageOf(req *fetch.Request) *botauth.Message {
	path, query, _ := strings.Cut(req.PathQuery, "?")
	return &botauth.Message{Method: http.MethodGet, Scheme: req.Scheme, Authority: req.Authority(), Path: path,
		Query: query}
}

// take returns what a site asked for. A nonce is for one request.
func (s *signing) take(authority string) (ask botauth.Ask, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask, asked = s.asks[authority]; !asked {
		if ask, asked = s.older[authority]; !asked {
			return ask, false
		}
	}
	rest := ask
	rest.Nonce = ""
	s.keep(authority, rest)
	return ask, true
}

// keep keeps what a site asked for. The caller holds the lock.
func (s *signing) keep(authority string, ask botauth.Ask) {
	if _, known := s.asks[authority]; !known && len(s.asks) >= askingHosts {
		s.asks, s.older = map[string]botauth.Ask{}, s.asks
	}
	s.asks[authority] = ask
}

// Signature says how the request of an exchange was signed, and whether its site wants it signed.
type Signature struct {
	// Again says that the site asks for a signature that the request did not have, and that the next one to the site
	// will have.
	Again bool

	sent    bool // the request had a signature
	asked   bool // as its site had asked
	asks    bool // the site refuses the request and asks for a signature
	unable  bool // one that this crawl cannot make
	refused bool // the site refuses the request although it had the signature that the site had asked for
}

// judge returns what an exchange with its error says about a request that was signed in this way, and keeps what its
// site asks for. A site that refuses the signature that it asked for has refused the request.
func (s *signing) judge(req *fetch.Request, how signed, resp *fetch.Response, err error) (is Signature) {
	is.sent = s != nil && resp.BytesWritten > 0 && bytes.Contains(resp.RequestHead, inputLine)
	is.asked = is.sent && how.asked
	kind := health.KindOf(resp.Status)
	if err != nil || kind != health.Refusal && kind != health.TooFast {
		return is
	}
	var values []string
	resp.EachHeader("Accept-Signature", func(value []byte) bool {
		values = append(values, string(value))
		return len(values) < maxAsks
	})
	is.asks = len(values) > 0
	is.refused = is.asked && (is.asks || kind == health.Refusal)
	if !is.asks || s == nil || s.when == options.SignNever {
		return is
	}
	ask, ok := botauth.ParseAccept(values)
	trusted := req.Scheme != "https" || resp.TLSVerdict == fetch.VerdictOK || how.anyCertificate
	if is.unable = !ok || !trusted; is.unable {
		return is
	}
	s.mu.Lock()
	s.keep(req.Authority(), ask)
	s.mu.Unlock()
	is.Again = !how.asked || ask.Nonce != "" && !how.nonce
	is.refused = is.refused && !is.Again
	return is
}

// count counts the signature in a transaction.
func (is Signature) count(tx *account.Tx) {
	for _, c := range [...]struct {
		is bool
		c  state.Counter
	}{{is.sent && !is.asked, state.CountSigned}, {is.asked, state.CountSignedAsked},
		{is.asks, state.CountSignatureAsks}, {is.unable, state.CountSignatureUnable},
		{is.refused, state.CountSignatureRefused}} {
		if c.is {
			tx.Count(c.c, 1)
		}
	}
}

// maxAsks bounds the lines of Accept-Signature that are read.
const maxAsks = 8
