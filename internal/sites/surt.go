package sites

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"drumbeat/weburl"
)

// form is what a rule names.
type form uint8

const (
	domainForm form = iota // a domain and all hosts below it
	hostForm               // a host on every port
	originForm             // a host on one port
	pathForm               // the beginning of a path at a host and a port
)

// target is the site that a rule names.
type target struct {
	form   form
	secure bool   // https alone
	host   string // as in a canonical URL, without a final dot
	port   uint16 // 0: the scheme's default
	path   string // in lower case
	pld    bool   // the host is a PLD
	suffix bool   // the host is a public suffix
}

// whole reports whether the rule has no scheme, port and path, so that it names whole hosts.
func (t *target) whole() bool { return !t.secure && t.form <= hostForm }

// key identifies the site, however the rule spells it.
func (t *target) key() string {
	return fmt.Sprintf("%d %t %s:%d%s", t.form, t.secure, t.host, t.port, t.path)
}

// hostTarget parses the value of host.
func (p *parser) hostTarget(text string) (target, error) {
	host, err := p.host(text)
	return target{form: hostForm, host: host}, err
}

// pldTarget parses the value of pld.
func (p *parser) pldTarget(text string) (target, error) {
	host, err := p.host(text)
	if err != nil {
		return target{}, err
	}
	if p.suffixes.IsSuffix(host) {
		return target{}, errors.New("is a public suffix with many owners; want a name below it")
	}
	if pld := p.suffixes.PLD(host); pld != host {
		return target{}, fmt.Errorf("belongs to the PLD %s; want pld = %q, or host = %q", pld, pld, host)
	}
	return target{form: domainForm, host: host, pld: true}, nil
}

// surtTarget parses the value of surt.
func (p *parser) surtTarget(text string) (target, error) {
	var t target
	rest := text
	if scheme, tail, ok := strings.Cut(text, "://"); ok {
		switch strings.ToLower(scheme) {
		case "http":
		case "https":
			t.secure = true
		default:
			return t, errors.New("want http://(, https://( or ( at the start; other schemes are not crawled")
		}
		rest = tail
	}
	if rest == "" || rest[0] != '(' {
		return t, errors.New("want ( at the start or after the scheme, such as http://(org,example,")
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return t, errors.New("want names in punycode and paths in percent-encoding, as in canonical URLs")
	}
	authority, path, closed := strings.Cut(rest[1:], ")")
	if closed && path != "" && path[0] != '/' {
		return t, errors.New("want a path that starts with / after )")
	}
	name, port, err := reversed(authority, closed)
	if err != nil {
		return t, err
	}
	if t.host, err = p.host(name); err != nil {
		return t, err
	}
	t.form, t.port = originForm, port
	switch {
	case !closed:
		t.form = domainForm
		t.suffix = p.suffixes.IsSuffix(t.host)
		t.pld = !t.suffix && p.suffixes.PLD(t.host) == t.host
	case path != "":
		t.form = pathForm
		if !p.keepEscapes {
			path = string(weburl.FoldEscapes([]byte(path)))
		}
		t.path = strings.ToLower(path)
	}
	if t.secure && port == 443 || !t.secure && port == 80 {
		return t, fmt.Errorf("want no port %d: canonical URLs do not have it", port)
	}
	return t, nil
}

// reversed returns the host and the port of an authority in SURT form.
func reversed(authority string, closed bool) (host string, port uint16, err error) {
	labels := errors.New("want labels from the right, each with a comma, " +
		"such as (org,example, or (org,example,www,:8080)/path")
	host = authority
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && !strings.HasSuffix(authority, "]") {
		n, err := strconv.ParseUint(authority[i+1:], 10, 16)
		if err != nil || n == 0 || !closed {
			return "", 0, errors.New("want a port from 1 to 65535 and ), such as (org,example,:8080)")
		}
		host, port = authority[:i], uint16(n)
	}
	if name := strings.TrimSuffix(host, ","); closed && isAddress(name) { // an address is not reversed
		return name, port, nil
	}
	list := strings.Split(host, ",")
	if last := len(list) - 1; last < 1 || list[last] != "" || slices.Contains(list[:last], "") ||
		strings.ContainsAny(host, "./?#[](@") {
		return "", 0, labels
	}
	list = list[:len(list)-1]
	slices.Reverse(list)
	return strings.Join(list, "."), port, nil
}

// isAddress reports whether a name is an IP address, IPv6 in brackets.
func isAddress(name string) bool {
	if strings.HasPrefix(name, "[") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Is4()
}

// host returns a host as canonical URLs spell it, without a final dot.
func (p *parser) host(text string) (string, error) {
	name := text
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		name = "[" + text + "]"
	}
	switch {
	case strings.ContainsAny(name, "/\\?#@*% "):
		return "", errors.New("want only a name or an address; " +
			"use surt for a port or a path, and pld or surt for the hosts below a name")
	case strings.Contains(name, ":") && !strings.HasPrefix(name, "["):
		return "", errors.New("want a name or an address without a port; use surt, such as (org,example,:8080)")
	}
	url, err := p.resolver.AppendResolve(nil, nil, []byte("http://"+name+"/"))
	if err != nil {
		return "", errors.New("is not a name or an address of a host")
	}
	host := string(weburl.TrimDot(weburl.Split(url).Host))
	if host == "" || host[0] == '.' || strings.Contains(host, "..") || strings.HasSuffix(host, ".") {
		return "", errors.New("has an empty label")
	}
	return host, nil
}
