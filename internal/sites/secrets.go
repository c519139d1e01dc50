package sites

import (
	"bytes"
	"errors"
	"strings"

	"drumbeat/fetch"
	"drumbeat/weburl"
)

// Requests with secrets differ from others in three ways. They go by https to the default port, unless the table
// names a port or says insecure = true. They need a good certificate, unless the table says certificate = "any".
// And only the site itself or the operator may name their URLs, unless the table says links = "any": otherwise any
// page of the web could make the crawl call whatever the credentials may call.

func setInsecure(_ *parser, r *rule, value any) (string, error) {
	is, ok := value.(bool)
	switch {
	case !ok:
		return "", errors.New("want true or false, without quotes")
	case is && r.target.secure:
		return "", errors.New("the table is for https only")
	}
	r.own.Insecure = is
	if is {
		return "true", nil
	}
	return "false", nil
}

func setCertificate(_ *parser, r *rule, value any) (string, error) {
	if value != "good" && value != "any" {
		return "", errors.New(`want "good" or "any"`)
	}
	r.own.AnyCertificate = value == "any"
	return value.(string), nil
}

func setLinks(_ *parser, r *rule, value any) (string, error) {
	if value != "same-site" && value != "any" {
		return "", errors.New(`want "same-site" or "any"`)
	}
	r.own.AnyLinks = value == "any"
	return value.(string), nil
}

// open are headers whose values are no secrets; those that begin with "sec-" are none either. All other headers of a
// table count as secret: their names do not tell.
var open = map[string]bool{
	"accept-charset": true, "accept-datetime": true, "cache-control": true, "dnt": true, "max-forwards": true,
	"pragma": true, "prefer": true, "priority": true, "referer": true, "save-data": true,
	"upgrade-insecure-requests": true, "x-requested-with": true,
}

func isOpen(name string) bool {
	name = strings.ToLower(name)
	return open[name] || strings.HasPrefix(name, "sec-")
}

// checkSecrets asks for a decision about HTTP from each table whose secrets could go by it.
func (p *parser) checkSecrets(r *rule, s *Site) {
	if r.secret == "" || r.target.secure || s.Has&HasInsecure != 0 {
		return
	}
	p.fault(r.line,
		"%s: %s is secret, and anyone can read it on its way over HTTP: set insecure = true to send it over HTTP too, "+
			"insecure = false to send it over HTTPS only, or use surt = \"https://(…\"", r.text, r.secret)
}

// separate drops the secrets of tables that do not name the port of s, and splits off the fields that are not secret.
func (s *Site) separate() {
	if s.rule.target.port != 0 && s.above != nil && s.above.rule.target.port == 0 {
		var kept []fetch.Field
		for _, f := range s.Fields {
			if !f.Secret || isOwn(s.rule.own.Fields, f) {
				kept = append(kept, f)
			}
		}
		s.Fields = kept
		if s.rule.own.Has&HasCookies == 0 {
			s.Cookies = ""
		}
	}
	s.OpenFields = s.Fields
	for i, f := range s.Fields {
		if f.Secret {
			s.OpenFields = append([]fetch.Field(nil), s.Fields[:i]...)
			for _, f := range s.Fields[i:] {
				if !f.Secret {
					s.OpenFields = append(s.OpenFields, f)
				}
			}
			break
		}
	}
}

func isOwn(own []fetch.Field, f fetch.Field) bool {
	for _, o := range own {
		if o == f {
			return true
		}
	}
	return false
}

// HasSecrets reports whether requests of the site can have secrets: credentials, headers, cookies.
func (s *Site) HasSecrets() bool { return s.Cookies != "" || len(s.OpenFields) < len(s.Fields) }

// SendsTo reports whether requests for a URL that the site's table matches may have its secrets.
func (s *Site) SendsTo(url *weburl.Parts) bool {
	secure := isHTTPS(url)
	return s.HasSecrets() && (secure || s.Insecure) && (s.rule.target.port != 0 || isDefaultPort(url))
}

// Guards reports whether requests for a URL have secrets only if the site itself or the operator named the URL.
func (s *Site) Guards(url *weburl.Parts) bool { return !s.AnyLinks && s.SendsTo(url) }

// Found reports whether a URL of the site that was found at via counts as found on the site: via has the same
// host, or, if the table is for a domain, a host of that domain; the default port or that of the URL; and
// HTTPS unless Insecure is set, since anybody on the way can change a page that comes by HTTP. A redirect
// from HTTP to the same URL by HTTPS counts.
func (s *Site) Found(url, via *weburl.Parts) bool {
	host, from := weburl.TrimDot(url.Host), weburl.TrimDot(via.Host)
	same := bytes.Equal(host, from)
	switch {
	case !same && !s.hasHost(from), !isDefaultPort(via) && via.Port != url.Port:
		return false
	case isHTTPS(via) || s.Insecure || !isHTTPS(url):
		return true
	}
	return same && isDefaultPort(via) && isDefaultPort(url) && bytes.Equal(url.Path, via.Path)
}

// hasHost reports whether the most specific table that has secrets is for a domain with this host.
func (s *Site) hasHost(host []byte) bool {
	for ; s != nil; s = s.above {
		if s.rule.secret == "" {
			continue
		}
		t := &s.rule.target
		domain := t.host
		return t.form == domainForm && !t.suffix && len(host) >= len(domain) &&
			string(host[len(host)-len(domain):]) == domain &&
			(len(host) == len(domain) || host[len(host)-len(domain)-1] == '.')
	}
	return false
}

func isHTTPS(p *weburl.Parts) bool { return len(p.Scheme) == len("https") }

func isDefaultPort(p *weburl.Parts) bool {
	if isHTTPS(p) {
		return p.Port == 443
	}
	return p.Port == 80
}

// HasSecrets reports whether any table has secrets.
func (s *Set) HasSecrets() bool { return s != nil && s.secrets }
