package sites

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"drumbeat/fetch"
	"drumbeat/weburl"
)

// over returns the settings of a rule over those of the next shorter one.
func (r *rule) over(above *Site) *Site {
	s := r.own
	s.rule, s.above = r, above
	if above == nil {
		s.Fields = withoutEmpty(s.Fields)
		s.separate()
		return &s
	}
	missing := above.Has &^ s.Has
	take := func(is Setting, set func()) {
		if missing&is != 0 {
			set()
		}
	}
	take(HasOwner, func() { s.Owner = above.Owner })
	take(HasDelay, func() { s.Delay = above.Delay })
	s.PLDRate = cmp.Or(s.PLDRate, above.PLDRate) // a host's rate and that of its PLD both hold
	take(HasRate, func() { s.HostRate = above.HostRate })
	take(HasMaxDepth, func() { s.MaxDepth = above.MaxDepth })
	take(HasRevisit, func() { s.Revisit = above.Revisit })
	take(HasPriority, func() { s.Priority = above.Priority })
	take(HasExtract, func() { s.Extract = above.Extract })
	take(HasUserAgent, func() { s.UserAgent = above.UserAgent })
	take(HasAccept, func() { s.Accept = above.Accept })
	take(HasAcceptLanguage, func() { s.AcceptLanguage = above.AcceptLanguage })
	take(HasProxy, func() { s.Proxy = above.Proxy })
	take(HasConnections, func() { s.Connections = above.Connections })
	take(HasRobots, func() { s.IgnoreRobots = above.IgnoreRobots })
	take(HasCookies, func() { s.Cookies = above.Cookies })
	take(HasInsecure, func() { s.Insecure = above.Insecure })
	take(HasCertificate, func() { s.AnyCertificate = above.AnyCertificate })
	take(HasLinks, func() { s.AnyLinks = above.AnyLinks })
	s.Fields = mergeFields(above.Fields, s.Fields, s.Has&HasAuth != 0)
	s.Has |= above.Has
	s.separate()
	return &s
}

// mergeFields returns the header lines of a rule over those of a shorter one. auth says that the rule decides
// about credentials.
func mergeFields(above, own []fetch.Field, auth bool) []fetch.Field {
	if len(own) == 0 && !auth {
		return above
	}
	var all []fetch.Field
	for _, f := range above {
		replaced := auth && f.Name == authorizing || slices.ContainsFunc(own, func(o fetch.Field) bool {
			return strings.EqualFold(o.Name, f.Name)
		})
		if !replaced {
			all = append(all, f)
		}
	}
	return append(all, withoutEmpty(own)...)
}

// withoutEmpty returns the fields that have a value. An empty value removes a header.
func withoutEmpty(fields []fetch.Field) []fetch.Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f fetch.Field) bool { return f.Value == "" })
}

// checkOwner checks the settings that need an owner.
func (p *parser) checkOwner(r *rule, s *Site) {
	if s.Owner {
		return
	}
	needs := func(what string) {
		p.fault(r.line, "%s: %s needs owner = true: it is for your own sites", r.text, what)
	}
	if whole := r.target.whole(); whole && s.Has&HasDelay != 0 && s.Delay < leastDelay {
		needs("a delay of less than 1s")
	}
	if r.target.whole() && s.IgnoreRobots {
		needs("robots = \"ignore\"")
	}
	if r.target.whole() && s.Connections > 1 {
		needs("connections > 1")
	}
	if r.own.HostRate > mostHost || r.own.PLDRate > mostPLD {
		needs("a rate above 1 for a host or 50 for a PLD")
	}
	if agent := s.UserAgent; agent != "" && r.own.Has&(HasUserAgent|HasOwner) != 0 &&
		!(strings.Contains(agent, p.Agent) && strings.Contains(agent, p.Contact)) {
		p.fault(r.line, "%s: user-agent lacks the token %s or the contact %s, which other people's sites need",
			r.text, p.Agent, p.Contact)
	}
}

// Rules returns the rules that decide about a Site, the longest first, each with the settings that it decides.
// It contains no secrets.
func (s *Site) Rules() (list []Rule) {
	var decided Setting
	for ; s != nil; s = s.above {
		r := s.rule
		one := Rule{File: r.file, Line: r.line, Text: r.text}
		for _, d := range r.settings {
			if d.has&decided == 0 || d.has == HasHeaders { // headers are merged by name
				one.Settings = append(one.Settings, d.text)
			}
		}
		if decided |= r.own.Has &^ HasRate; len(one.Settings) > 0 {
			list = append(list, one)
		}
	}
	return list
}

// Decides returns the rule that decides about a setting, in words; "" if none has it.
func (s *Site) Decides(is Setting) string {
	for ; s != nil; s = s.above {
		for _, d := range s.rule.settings {
			if d.has&is != 0 {
				return Rule{s.rule.file, s.rule.line, s.rule.text, []string{d.text}}.String()
			}
		}
	}
	return ""
}

// HostRules returns all rules that can apply to URLs of a host, the most specific first. It contains no secrets.
func (s *Set) HostRules(host []byte) (list []Rule) {
	if s == nil {
		return nil
	}
	known := map[*rule]bool{}
	add := func(site *Site) {
		for ; site != nil && !known[site.rule]; site = site.above {
			known[site.rule] = true
			list = append(list, site.rule.describe())
		}
	}
	var last []*Site // less specific than rules of paths
	for _, t := range []*table{s.secure, s.plain} {
		o, ok := t.hosts[string(weburl.TrimDot(host))]
		if !ok {
			last = append(last, t.domain(weburl.TrimDot(host)))
			continue
		}
		for _, p := range slices.Backward(o.paths) {
			if r := p.site.rule; !known[r] && len(list) < mostHostRules {
				known[r] = true
				list = append(list, r.describe())
			}
		}
		last = append(last, o.any)
	}
	for _, site := range last {
		add(site)
	}
	return list
}

// mostHostRules limits the rules of paths that HostRules returns.
const mostHostRules = 100

// describe returns a rule with all its settings.
func (r *rule) describe() Rule {
	one := Rule{File: r.file, Line: r.line, Text: r.text}
	for _, d := range r.settings {
		one.Settings = append(one.Settings, d.text)
	}
	return one
}

// Gap returns the time between two requests at a rate per second.
func Gap(rate float64) time.Duration { return time.Duration(math.Ceil(float64(time.Second) / rate)) }

// String returns the rules of a Site, the longest first, without secrets.
func (s *Site) String() string {
	var parts []string
	for _, r := range s.Rules() {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}

// bytes returns the RAM of a rule.
func (r *rule) bytes() int64 {
	b := int64(unsafe.Sizeof(*r)) + int64(len(r.text)+len(r.target.host)+len(r.target.path)) +
		int64(cap(r.settings))*int64(unsafe.Sizeof(described{}))
	for _, d := range r.settings {
		b += int64(len(d.text))
	}
	for _, f := range r.own.Fields {
		b += 3 * (int64(unsafe.Sizeof(f)) + int64(len(f.Name)+len(f.Value)))
	}
	if p := r.own.Proxy; p != nil {
		b += int64(unsafe.Sizeof(*p)) + int64(len(p.User)+len(p.Password))
	}
	return b + int64(len(r.own.UserAgent)+len(r.own.Accept)+len(r.own.AcceptLanguage))
}
