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
	if change || !s.loopback {
		return s.checkToken(r)
	}
	return nil
}

// guardSite refuses requests that another site made the browser send.
func (s *Server) guardSite(r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return problem(http.StatusMisdirectedRequest, "the name in Host is not this server's: use its IP address or localhost")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return problem(http.StatusForbidden, "requests from other sites are not answered")
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return problem(http.StatusForbidden, "requests from other sites are not answered")
	}
	return nil
}

// checkToken requires the token.
func (s *Server) checkToken(r *http.Request) error {
	token := s.token.Load()
	if token == nil {
		return problem(http.StatusServiceUnavailable, "the crawl has not started yet")
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return problem(http.StatusUnauthorized, "this needs the token in the file "+s.tokenName)
	}
	if subtle.ConstantTimeCompare([]byte(given), []byte(*token)) != 1 {
		return problem(http.StatusUnauthorized, "the token is not the one in the file "+s.tokenName)
	}
	return nil
}

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
