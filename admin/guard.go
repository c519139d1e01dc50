package admin

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard checks who asks. It returns nil if the request may be answered.
func (s *Server) guard(r *http.Request, change bool) error {
	if err := s.guardSite(r); err != nil {
		return err
	}
	if bySocket(r) {
		return nil
	}
	if change || !s.loopback {
		return s.checkToken(r)
	}
	return nil
}

// guardSite refuses requests by a name that another site may have given to this address (DNS rebinding).
func (s *Server) guardSite(r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return problem(http.StatusMisdirectedRequest,
			"the Host header does not name this server: use its IP address or localhost")
	}
	return nil
}

// sameSite passes no request on that another site made the browser send. Links elsewhere may lead to the pages of the
// dashboard alone, and only in a tab of their own.
func sameSite(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromElsewhere(r) {
			writeProblem(w, problem(http.StatusForbidden, "this server does not answer requests from other sites"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// fromElsewhere reports whether a page of another site made the browser send a request, other than by such a link.
func fromElsewhere(r *http.Request) bool {
	h := r.Header
	if origin := h.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return true
		}
	}
	switch h.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // "": no browser
		return false
	}
	page := r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == "/cluster")
	return !page || h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document"
}

// checkToken requires the token.
func (s *Server) checkToken(r *http.Request) error {
	token := s.token.Load()
	if token == nil {
		return problem(http.StatusServiceUnavailable, "the crawl has not started yet")
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return problem(http.StatusUnauthorized, "this request needs the token; "+tokenWhere)
	}
	if subtle.ConstantTimeCompare([]byte(given), []byte(*token)) != 1 {
		return problem(http.StatusUnauthorized, "the token is not valid for this run; "+tokenWhere)
	}
	if k := requestConn(r); k != nil {
		k.trust()
	}
	return nil
}

// tokenWhere does not name the directory: a stranger may ask. The log does, at the start.
const tokenWhere = "it is in the file " + TokenName + " in the crawl's first directory; each start makes a new one"

// hostAllowed reports whether a Host header names this server in a way that no other site can.
func (s *Server) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") || s.name != "" && strings.EqualFold(name, s.name)
}
