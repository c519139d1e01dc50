package fetcher

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/botauth"
	"drumbeat/fetch"
	"drumbeat/internal/health"
)

// A site may demand a signature: it answers with status 401, 403, 429 or 503 and a field Accept-Signature (RFC 9421,
// 5). The crawl then requests the URL once more, in the turn of its host, with that signature, and signs its next
// requests to the site in the same way. RAM holds the demands of the last sites. After a restart, sites repeat theirs.
//
// Without a demand, the crawl signs only requests over TLS. On plain HTTP, anybody on the way could repeat a signature
// to the same site until it expires.

// signing signs requests. A nil signing signs none.
type signing struct {
	signer *botauth.Signer
	always bool

	mu          sync.Mutex // guards the fields below; held for no signature
	asks, older map[string]botauth.Ask
}

// askingHosts bounds each of the two generations of sites that asked. With a nonce, each takes up to 1 KiB.
const askingHosts = 4 << 10

// newSigning returns the signing of a crawl, nil without a signer.
func newSigning(signer *botauth.Signer, always bool) *signing {
	if signer == nil {
		return nil
	}
	return &signing{signer: signer, always: always, asks: map[string]botauth.Ask{}}
}

// signed says how a request was signed.
type signed struct {
	asked bool // as its site asked
	nonce bool // with the nonce of its site
}

// sign adds a signature to a request, if it is to have one.
func (s *signing) sign(req *fetch.Request, now time.Time) (how signed, err error) {
	if s == nil {
		return how, nil
	}
	m := messageOf(req)
	var fields botauth.Fields
	ask, asked := s.take(m.Authority)
	switch {
	case asked:
		how = signed{asked: true, nonce: ask.Nonce != ""}
		if fields, err = s.signer.Answer(m, ask, now); err != nil {
			return how, err
		}
	case s.always && req.Scheme == "https":
		fields = s.signer.Sign(m.Authority, now)
	default:
		return how, nil
	}
	req.Fields = append(slices.Clip(req.Fields),
		fetch.Field{Name: "Signature-Agent", Value: fields.SignatureAgent},
		fetch.Field{Name: "Signature-Input", Value: fields.SignatureInput},
		fetch.Field{Name: "Signature", Value: fields.Signature})
	return how, nil
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

// wanted reports whether a response to a request that was signed in this way asks for a signature that the request did
// not have, and that the next request to the site will have. A site that refuses the signature that it asked for has
// refused the request.
func (s *signing) wanted(req *fetch.Request, how signed, resp *fetch.Response) bool {
	if kind := health.KindOf(resp.Status); s == nil || kind != health.Refusal && kind != health.TooFast {
		return false
	}
	var values []string
	resp.EachHeader("Accept-Signature", func(value []byte) bool {
		values = append(values, string(value))
		return len(values) < maxAsks
	})
	ask, ok := botauth.ParseAccept(values)
	if !ok {
		return false
	}
	s.mu.Lock()
	s.keep(req.Authority(), ask)
	s.mu.Unlock()
	return !how.asked || ask.Nonce != "" && !how.nonce
}

// maxAsks bounds the lines of Accept-Signature that are read.
const maxAsks = 8
