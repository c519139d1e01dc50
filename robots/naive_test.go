package robots

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// naiveAllowed interprets a whole file for one verdict, in the order of RFC 9309 with the leniencies of
// doc.go. It is slow, has only the limits of file and line, and shares no code with the package.
func naiveAllowed(file []byte, agent, path string) bool {
	if path == "/robots.txt" || strings.HasPrefix(path, "/robots.txt?") {
		return true
	}
	var groups []*naiveGroup
	var g *naiveGroup
	rulesSeen := true
	for _, line := range naiveLines(file) {
		name, value := naiveSplit(line)
		switch naiveName(name) {
		case "user-agent":
			if rulesSeen {
				g, rulesSeen = &naiveGroup{}, false
				groups = append(groups, g)
			}
			g.agents = append(g.agents, value)
		case "allow", "disallow":
			rulesSeen = true
			if naiveName(name) == "allow" && len(line) == 16663+1 && strings.Contains(value, "*") {
				continue
			}
			if g != nil && value != "" {
				g.rules = append(g.rules, naiveRule{allow: naiveName(name) == "allow", value: value})
			}
		}
	}
	var own, all []naiveRule
	named := false
	for _, g := range groups {
		forUs, forAll := g.names(agent)
		named = named || forUs
		if forUs {
			own = append(own, g.rules...)
		} else if forAll {
			all = append(all, g.rules...)
		}
	}
	if !named {
		own = all
	}
	return naiveVerdict(own, path)
}

type naiveGroup struct {
	agents []string
	rules  []naiveRule
}

type naiveRule struct {
	allow bool
	value string
}

var naiveToken = regexp.MustCompile(`^[-_A-Za-z]*`)

// names reports whether the group is for the agent, and whether it is for all.
func (g *naiveGroup) names(agent string) (forUs, forAll bool) {
	us, _, _ := strings.Cut(agent, "/")
	if strings.ContainsAny(us, " \t\v\f") {
		us = ""
	}
	for _, a := range g.agents {
		if a == "*" || strings.HasPrefix(a, "*") && strings.ContainsAny(a[1:2], " \t\v\f") {
			forAll = true
			continue
		}
		name := naiveToken.FindString(a)
		if us != naiveToken.FindString(us) { // not a product token: compare the first word
			name = regexp.MustCompile(`^[^ \t\v\f/]*`).FindString(a)
		}
		forUs = forUs || us != "" && naiveLower(name) == naiveLower(us)
	}
	return forUs, forAll
}

// naiveLower folds ASCII letters.
func naiveLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 32
		}
	}
	return string(b)
}

func naiveLines(file []byte) []string {
	for _, bom := range []string{"\xef\xbb\xbf", "\xef\xbb", "\xef"} {
		if rest, ok := bytes.CutPrefix(file, []byte(bom)); ok {
			file = rest
			break
		}
	}
	text := string(file)
	if len(text) > 500*1024 {
		text = text[:500*1024]
		text = text[:strings.LastIndexAny(text, "\r\n")+1]
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' })
	for i, line := range lines {
		if len(line) > 16663 {
			lines[i] = line[:16663] + "\x00" // marks the cut
		}
	}
	return lines
}

var naiveWords = regexp.MustCompile(`^([^ \t]+)[ \t]+([^ \t]+)$`)

func naiveSplit(line string) (name, value string) {
	line, _, _ = strings.Cut(line, "\x00")
	line, _, _ = strings.Cut(line, "#")
	line = strings.Trim(line, " \t\v\f")
	if name, value, ok := strings.Cut(line, ":"); ok {
		return strings.Trim(name, " \t\v\f"), strings.Trim(value, " \t\v\f")
	}
	if m := naiveWords.FindStringSubmatch(line); m != nil {
		return strings.Trim(m[1], "\v\f"), strings.Trim(m[2], "\v\f")
	}
	return "", ""
}

var naiveNames = regexp.MustCompile(
	`^(?:(user-agent|useragent|user agent)|(disallow|dissallow|dissalow|disalow|diasllow|disallaw)|(allow))`)

func naiveName(name string) string {
	switch m := naiveNames.FindStringSubmatch(naiveLower(name)); {
	case m == nil:
		return ""
	case m[1] != "":
		return "user-agent"
	case m[2] != "":
		return "disallow"
	}
	return "allow"
}

// naiveVerdict: the most octets decide, and Allow in a tie.
func naiveVerdict(rules []naiveRule, path string) bool {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	allow, most := true, -1
	try := func(r naiveRule) bool {
		fold := func(s string) string { return s }
		if naiveQuery.MatchString(naiveNormal(r.value)) {
			fold = naiveFold
		}
		pattern, octets := naivePattern(r.value, fold)
		if pattern == nil || !pattern.MatchString(fold(naiveNormal(path))) {
			return false
		}
		if octets > most || octets == most && r.allow {
			allow, most = r.allow, octets
		}
		return true
	}
	for _, r := range rules {
		if slash := strings.LastIndexByte(r.value, '/'); !try(r) && r.allow && slash >= 0 &&
			strings.HasPrefix(r.value[slash:], "/index.htm") {
			try(naiveRule{allow: true, value: r.value[:slash+1] + "$"})
		}
	}
	return allow
}

// naivePattern converts a rule to a regular expression and counts its octets as compared; nil if it can
// match nothing.
func naivePattern(value string, fold func(string) string) (*regexp.Regexp, int) {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "*") {
		return nil, 0
	}
	end, octets := "", 0
	if rest, ok := strings.CutSuffix(value, "$"); ok {
		value, end, octets = rest, `\z`, 1
	}
	parts := strings.Split(value, "*")
	octets += len(parts) - 1
	for i, part := range parts {
		parts[i] = naiveNormal(part)
		octets += len(parts[i])
	}
	parts = strings.Split(fold(strings.Join(parts, "\x00")), "\x00")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + end), octets
}

// naiveNormal normalizes by 2.2.2: everything that may be raw is raw, the rest is escaped in upper case.
// Reserved characters stay as spelled, except the two that 2.2.3 wants escaped, and the apostrophe.
func naiveNormal(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		var c byte
		if n, err := fmt.Sscanf(s[i:min(len(s), i+3)], "%%%02x", &c); err == nil && n == 1 &&
			regexp.MustCompile(`^%[0-9A-Fa-f]{2}`).MatchString(s[i:]) {
			if regexp.MustCompile(`^[-A-Za-z0-9._~*$']$`).MatchString(string(rune(c))) {
				out.WriteByte(c)
			} else {
				fmt.Fprintf(&out, "%%%02X", c)
			}
			i += 2
			continue
		}
		if c = s[i]; c <= 0x20 || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// naiveQuery matches a rule with a URL delimiter in its query, raw or escaped.
var naiveQuery = regexp.MustCompile(`\?.*(?:[:/?@\[\]]|%3A|%2F|%3F|%40|%5B|%5D)`)

// naiveFold decodes the delimiters of a query.
func naiveFold(path string) string {
	before, query, ok := strings.Cut(path, "?")
	if !ok {
		return path
	}
	return before + "?" + strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%5B", "[", "%5D", "]", "%40",
		"@").Replace(query)
}

// FuzzNaive: any file, agent and path have the naive verdict or, where a limit has cut something, a stricter
// one.
func FuzzNaive(f *testing.F) {
	for i, c := range append(append([]verdictCase{}, rfcCases...), verdictCases...) {
		path, _, _ := strings.Cut(strings.TrimSpace(c.allow+" "+c.deny), " ")
		if i%3 == 0 {
			f.Add([]byte(c.robots), c.agent, path)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, agent, path string) {
		if bytes.HasPrefix(file, []byte("\xff\xfe")) || bytes.HasPrefix(file, []byte("\xfe\xff")) ||
			len(file) > 1<<14 || len(path) > 2048 {
			return
		}
		r := Parse(file, agent)
		got, want := Match(r.Append(nil), []byte(path)), naiveAllowed(file, agent, path)
		if got && !want || got != want && r.Cut.Long+r.Cut.Rules == 0 {
			t.Fatalf("agent %q, path %q: got allowed %v, want %v\n%q\n%s", agent, path, got, want, file, r.Text())
		}
	})
}
