package sites

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/internal/revisit"
)

// setting is a key of a table.
type setting struct {
	has   Setting
	whole bool // only for rules of whole hosts
	// set sets the value and returns it in words, without secrets.
	set func(p *parser, r *rule, value any) (text string, err error)
}

// settings are the keys besides the selectors and headers.
var settings = map[string]setting{
	"accept":          {HasAccept, false, setHeader(func(s *Site) *string { return &s.Accept })},
	"accept-language": {HasAcceptLanguage, false, setHeader(func(s *Site) *string { return &s.AcceptLanguage })},
	"basic-auth":      {HasAuth, false, setBasic},
	"bearer":          {HasAuth, false, setBearer},
	"certificate":     {HasCertificate, false, setCertificate},
	"insecure":        {HasInsecure, false, setInsecure},
	"links":           {HasLinks, false, setLinks},
	"budget":          {HasBudget, true, setBudget},
	"connections":     {HasConnections, true, setConnections},
	"cookies":         {HasCookies, false, setCookies},
	"delay":           {HasDelay, true, setDelay},
	"extract":         {HasExtract, false, setExtract},
	"max-depth":       {HasMaxDepth, false, setMaxDepth},
	"priority":        {HasPriority, false, setPriority},
	"owner":           {HasOwner, true, setOwner},
	"proxy":           {HasProxy, true, setProxy},
	"proxy-auth":      {HasProxy, true, setProxyAuth}, // after proxy
	"rate":            {HasRate, true, setRate},
	"revisit":         {HasRevisit, false, setRevisit},
	"robots":          {HasRobots, true, setRobots},
	"user-agent":      {HasUserAgent, false, setUserAgent},
}

func knownSettings() string {
	return strings.Join(slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
		for key := range settings {
			if !yield(key, true) {
				return
			}
		}
		yield("headers", true)
	}))), ", ")
}

// Least delay and largest rates without owner.
const (
	leastDelay  = time.Second
	mostHost    = 1.0
	mostPLD     = 50.0
	leastRate   = 1e-5
	mostRate    = 1e6
	mostDelay   = 30 * 24 * time.Hour
	mostDepth   = math.MaxUint16 - 1
	noneText    = "none"
	neverText   = "never"
	highText    = "high"
	lowText     = "low"
	authorizing = "Authorization"
)

func setDelay(_ *parser, r *rule, value any) (string, error) {
	text, _ := value.(string)
	d, err := human.ParseDuration(text)
	if err != nil || d > mostDelay || d > 0 && d < time.Millisecond {
		return "", errors.New(`want a duration in quotes, such as "2s" or "500ms", from 1ms to 30d, or "0s"`)
	}
	r.own.Delay = d
	return text, nil
}

func setRate(_ *parser, r *rule, value any) (string, error) {
	rate, ok := value.(float64)
	if n, whole := value.(int64); whole {
		rate, ok = float64(n), true
	}
	switch {
	case !ok || !(rate >= leastRate && rate <= mostRate):
		return "", errors.New("want a number of requests per second, such as 0.5, without quotes")
	case r.target.form == domainForm && !r.target.pld:
		return "", errors.New("applies to a PLD or a host; want it under pld or host")
	}
	if r.target.pld {
		r.own.PLDRate = rate
	} else {
		r.own.HostRate = rate
	}
	return fmt.Sprint(rate), nil
}

func setPriority(_ *parser, r *rule, value any) (string, error) {
	n, ok := value.(int64)
	switch {
	case value == highText:
		r.own.Priority = 0
		return highText, nil
	case value == lowText:
		r.own.Priority = MaxPriority
		return lowText, nil
	case !ok || n < 0 || n > MaxPriority:
		return "", fmt.Errorf("want a lane from 0, the best, to %d, or %q or %q", MaxPriority, highText, lowText)
	}
	r.own.Priority = int(n)
	return fmt.Sprint(n), nil
}

func setExtract(_ *parser, r *rule, value any) (string, error) {
	on, ok := value.(bool)
	if !ok {
		return "", errors.New("want true or false, without quotes")
	}
	r.own.Extract = on
	return fmt.Sprint(on), nil
}

func setMaxDepth(_ *parser, r *rule, value any) (string, error) {
	if value == noneText {
		r.own.MaxDepth = Unlimited
		return noneText, nil
	}
	n, ok := value.(int64)
	if !ok || n < 0 || n > mostDepth {
		return "", fmt.Errorf("want a number from 0 to %d, or %q for no limit", mostDepth, noneText)
	}
	r.own.MaxDepth = int(n)
	return fmt.Sprint(n), nil
}

func setRevisit(_ *parser, r *rule, value any) (string, error) {
	text, _ := value.(string)
	if text == neverText {
		return text, nil
	}
	d, err := human.ParseDuration(text)
	if err != nil || d < time.Second || d > revisit.MaxInterval {
		return "", fmt.Errorf("want a duration in quotes, such as \"12h\" or \"7d\", from 1s to %s, or %q",
			human.Exact(revisit.MaxInterval), neverText)
	}
	r.own.Revisit = d
	return text, nil
}

func setOwner(_ *parser, r *rule, value any) (string, error) {
	is, ok := value.(bool)
	switch {
	case !ok:
		return "", errors.New("want true or false")
	case is && r.target.suffix:
		return "", fmt.Errorf("%s is a public suffix with many owners", r.target.host)
	}
	r.own.Owner = is
	return fmt.Sprint(is), nil
}

func setCookies(p *parser, r *rule, value any) (string, error) {
	is, ok := value.(bool)
	switch {
	case !ok:
		return "", errors.New("want true or false")
	case is && r.target.suffix:
		return "", fmt.Errorf("%s is a public suffix with many owners", r.target.host)
	case is:
		r.own.Cookies, r.secret = r.target.key(), "cookies"
		p.jars[r.own.Cookies] = true
	}
	return fmt.Sprint(is), nil
}

func setBudget(p *parser, r *rule, value any) (string, error) {
	n, ok := value.(int64)
	switch {
	case !ok || n < 1 || n > MaxBudget:
		return "", fmt.Errorf("want a number of pages per queue from 1 to %d", MaxBudget)
	case r.target.form != domainForm || !r.target.pld:
		return "", errors.New("applies to a PLD; want it under pld")
	}
	p.budgets[r.target.host] = uint32(n)
	return fmt.Sprint(n), nil
}

func setConnections(_ *parser, r *rule, value any) (string, error) {
	n, ok := value.(int64)
	if !ok || n < 1 || n > MaxConnections {
		return "", fmt.Errorf("want a number from 1 to %d", MaxConnections)
	}
	r.own.Connections = int(n)
	return fmt.Sprint(n), nil
}

func setRobots(_ *parser, r *rule, value any) (string, error) {
	if value != "ignore" && value != "obey" {
		return "", errors.New(`want "obey" or "ignore"`)
	}
	r.own.IgnoreRobots = value == "ignore"
	return fmt.Sprintf("%q", value), nil
}

func setProxy(_ *parser, r *rule, value any) (string, error) {
	text, _ := value.(string)
	if text == noneText {
		return text, nil
	}
	want := errors.New(`want "http://ADDRESS:PORT" or "socks5://ADDRESS:PORT" with an IP address, or "none"`)
	scheme, rest, _ := strings.Cut(text, "://")
	if strings.Contains(rest, "@") {
		return "", errors.New(`want no credentials; use proxy-auth`)
	}
	kind := fetch.ProxyHTTP
	switch scheme {
	case "http":
	case "socks5":
		kind = fetch.ProxySOCKS5
	default:
		return "", want
	}
	addr, err := netip.ParseAddrPort(strings.TrimSuffix(rest, "/"))
	if err != nil || addr.Port() == 0 || addr.Addr().Zone() != "" {
		return "", want
	}
	r.own.Proxy = &fetch.Proxy{Kind: kind, Addr: addr}
	return text, nil
}

func setProxyAuth(p *parser, r *rule, value any) (string, error) {
	secret, ref, err := p.secret(r, value, "user:password")
	user, password, ok := strings.Cut(secret, ":")
	switch {
	case r.own.Proxy == nil:
		return "", errors.New("want proxy in the same table")
	case err != nil || secret == "":
		return ref, err
	case !ok || user == "" || len(user) > 255 || len(password) > 255:
		return "", fmt.Errorf("the secret in %s: want user:password, each of at most 255 bytes", ref)
	}
	r.own.Proxy.User, r.own.Proxy.Password = user, password
	return ref, nil
}

// setHeader returns the set of a setting that is a header.
func setHeader(field func(*Site) *string) func(*parser, *rule, any) (string, error) {
	return func(_ *parser, r *rule, value any) (string, error) {
		text, ok := value.(string)
		if !ok || text == "" {
			return "", errors.New("want a string in quotes")
		}
		*field(&r.own) = text
		return fmt.Sprintf("%q", text), checkValue(text)
	}
}

func setUserAgent(p *parser, r *rule, value any) (string, error) {
	return setHeader(func(s *Site) *string { return &s.UserAgent })(p, r, value)
}

// checkValue checks the value of a header, and does not repeat it.
func checkValue(text string) error {
	switch {
	case len(text) > MaxValueBytes:
		return fmt.Errorf("has %d bytes; the limit is %d", len(text), MaxValueBytes)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("want printable ASCII")
	case text != strings.Trim(text, " "):
		return errors.New("want no spaces at the ends")
	}
	return nil
}

func setBasic(p *parser, r *rule, value any) (string, error) {
	secret, ref, err := p.secret(r, value, "user:password")
	if ref != noneText {
		r.secret = "basic-auth"
	}
	switch {
	case err != nil || secret == "":
		return ref, err
	case !strings.Contains(secret, ":"):
		return "", fmt.Errorf("the secret in %s has no colon; want user:password", ref)
	}
	return ref, p.authorize(r, "Basic "+base64.StdEncoding.EncodeToString([]byte(secret)))
}

func setBearer(p *parser, r *rule, value any) (string, error) {
	secret, ref, err := p.secret(r, value, "the token")
	if ref != noneText {
		r.secret = "bearer"
	}
	switch {
	case err != nil || secret == "":
		return ref, err
	case strings.Contains(secret, " "):
		return "", fmt.Errorf("the secret in %s contains spaces; want only the token", ref)
	}
	return ref, p.authorize(r, "Bearer "+secret)
}

// authorize sets the credentials of a rule.
func (p *parser) authorize(r *rule, value string) error {
	if r.own.Has&HasAuth != 0 {
		return errors.New("want one of basic-auth and bearer")
	}
	r.own.Fields = append(r.own.Fields, fetch.Field{Name: authorizing, Value: value, Secret: true})
	return nil
}

// secret returns what a reference stands for: "" for none, and if secrets are not read. what is what it should
// stand for.
func (p *parser) secret(r *rule, value any, what string) (secret, ref string, err error) {
	ref, _ = value.(string)
	if ref == noneText {
		return "", ref, nil
	}
	name, env := strings.CutPrefix(ref, "env:")
	file := false
	if !env {
		name, file = strings.CutPrefix(ref, "file:")
	}
	switch {
	case !env && !file || name == "":
		return "", "", fmt.Errorf(`want "env:NAME" or "file:PATH", a reference to %s, never the secret itself`, what)
	case r.target.suffix:
		return "", "", fmt.Errorf("%s is a public suffix with many owners, so no secret is sent there", r.target.host)
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' || env && c == '=' }) ||
		len(name) > 1024:
		return "", "", errors.New("want env: or file: and a name of printable ASCII")
	case p.Env == nil && p.File == nil:
		return "", ref, nil
	case env:
		text, ok := p.Env(name)
		if !ok || text == "" {
			return "", "", fmt.Errorf("the environment has no %s, or it is empty", name)
		}
		secret = text
	default:
		text, err := p.File(name)
		if err != nil {
			return "", "", fmt.Errorf("read %s: %w", ref, err)
		}
		secret = strings.TrimRight(string(text), "\r\n")
	}
	if secret == "" {
		return "", "", fmt.Errorf("%s is empty", ref)
	}
	if err := checkValue(secret); err != nil {
		return "", "", fmt.Errorf("the secret in %s: %w", ref, err)
	}
	return secret, ref, nil
}

// isReference reports whether a text has the form of a reference to a secret.
func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// forbidden are headers that a rule cannot set, with the reason.
var forbidden = map[string]string{
	"authorization": "use basic-auth or bearer", "proxy-authorization": "it is for proxies",
	"user-agent": "use user-agent", "accept": "use accept", "accept-language": "use accept-language",
	"accept-encoding": "use --accept-encoding", "from": "use --from",
	"host": "it follows from the URL", "connection": "the crawler needs it", "keep-alive": "the crawler needs it",
	"proxy-connection": "the crawler needs it", "transfer-encoding": "requests have no body",
	"content-length": "requests have no body", "content-type": "requests have no body",
	"expect": "requests have no body", "te": "the crawler needs it", "trailer": "requests have no body",
	"upgrade": "the crawler needs it", "http2-settings": "the crawler needs it",
	"signature": "use --sign", "signature-input": "use --sign", "signature-agent": "use --sign",
	"range": "the crawler stores whole responses", "if-range": "the crawler stores whole responses",
	"if-none-match": "the crawler needs it", "if-modified-since": "the crawler needs it",
	"if-match": "the crawler needs it", "if-unmodified-since": "the crawler needs it",
}

// headers sets the headers of a rule.
func (p *parser) headers(r *rule, at *place, value any) {
	line := at.of("headers")
	table, ok := value.(map[string]any)
	if !ok || len(table) == 0 || len(table) > MaxHeaders {
		p.fault(line, "headers: want a table of 1 to %d headers, such as { X-Name = \"value\" }", MaxHeaders)
		return
	}
	var texts, names []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(table)) {
		field, text, err := p.header(r, name, table[name])
		lower := strings.ToLower(name)
		if err == nil && slices.Contains(names, lower) {
			err = errors.New("is given twice")
		}
		if err != nil {
			p.fault(line, "headers: %.60q: %s", name, err)
			continue
		}
		names = append(names, lower)
		texts = append(texts, text)
		total += len(field.Name) + len(field.Value) + len(": \r\n")
		r.own.Fields = append(r.own.Fields, field)
	}
	if total > MaxHeaderBytes {
		p.fault(line, "headers: have %d bytes; the limit is %d", total, MaxHeaderBytes)
	}
	r.own.Has |= HasHeaders
	r.settings = append(r.settings, described{HasHeaders, "headers " + strings.Join(texts, " ")})
}

// header checks a header. text is its name, with the reference if its value is secret.
func (p *parser) header(r *rule, name string, value any) (f fetch.Field, text string, err error) {
	v, ok := value.(string)
	switch why := forbidden[strings.ToLower(name)]; {
	case !fetch.IsToken(name):
		return f, "", errors.New("is not the name of a header")
	case why != "":
		return f, "", errors.New("cannot be set: " + why)
	case !ok:
		return f, "", errors.New("want a string in quotes")
	case strings.EqualFold(name, "cookie") && v != "" && !isReference(v):
		return f, "", errors.New(`want "env:NAME" or "file:PATH": cookies are secret`)
	}
	if v != "" && (isReference(v) || !isOpen(name)) {
		r.secret = "the header " + name
	}
	if !isReference(v) {
		return fetch.Field{Name: name, Value: v, Secret: v != "" && !isOpen(name)}, name, checkValue(v)
	}
	secret, ref, err := p.secret(r, v, "the value")
	return fetch.Field{Name: name, Value: secret, Secret: true}, name + "=" + ref, err
}
