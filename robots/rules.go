package robots

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits. The first is RFC 9309's (2.5); the others bound what one site can cost us.
const (
	MaxInput      = 500 << 10      // bytes of a file that are read
	MaxPattern    = 17 << 10       // bytes of one compiled pattern: any line of maxLine that needs no escapes
	MaxRules      = 2048           // rules of our group
	MaxEncoded    = 64 << 10       // bytes of an encoded Rules
	MaxCrawlDelay = 24 * time.Hour // a longer Crawl-delay is read as this

	maxSitemaps     = 256 // Sitemap lines of a file
	maxSitemapBytes = 2083
	maxLine         = 8*2083 - 1 // bytes of a line that are read, as in Google's parser
	maxWeight       = 3 * maxLine
)

// Rules are the rules of a robots.txt that apply to us. The zero value allows everything. Parse and
// DecodeRules make them; they aren't changed afterwards and may be shared.
type Rules struct {
	// Own is set if a group names our product token; otherwise the rules are those for "*", or none.
	Own bool
	// CrawlDelay is what the group asks for, in whole milliseconds; 0 if it asks for nothing.
	CrawlDelay time.Duration
	// Sitemaps are the values of the file's Sitemap lines, as they stand there. They aren't part of the
	// coding.
	Sitemaps []string
	// Cut counts what the limits removed. Only Cut.Rules and Cut.Long are part of the coding, as their sum
	// in Rules.
	Cut Cut

	list []Rule // ordered by weight, the largest first, Allow before Disallow: the first match decides
}

// Cut counts what was left out of a Rules.
type Cut struct {
	Input int // bytes beyond MaxInput
	Long  int // patterns beyond MaxPattern: Allow dropped, Disallow shortened
	Rules int // rules beyond MaxRules or MaxEncoded: Allow dropped, Disallow covered by one broader rule
	Odd   int // rules that can match no path
}

// Rule is one Allow or Disallow line.
type Rule struct {
	Allow bool
	// Weight is the number of octets of the pattern as written: the rule with the largest decides.
	Weight int

	pattern []byte // compiled, see pattern.go
}

// String returns the rule as a line of robots.txt.
func (r Rule) String() string {
	name := "Disallow: "
	if r.Allow {
		name = "Allow: "
	}
	return string(appendText([]byte(name), r.pattern))
}

// List returns the rules in the order in which they decide.
func (r *Rules) List() []Rule { return r.list }

// Text returns the rules as a robots.txt of one group: what explain prints.
func (r *Rules) Text() string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, rule := range r.list {
		b.WriteString(rule.String())
		b.WriteByte('\n')
	}
	if r.CrawlDelay > 0 {
		fmt.Fprintf(&b, "Crawl-delay: %g\n", r.CrawlDelay.Seconds())
	}
	return b.String()
}

// Match reports whether the rules allow a path with its query ("/a?b"; spelling doesn't matter, no
// fragment), and which rule says so; "" if none does. /robots.txt is always allowed. It looks at the rules one
// by one; for many URLs use the function Match.
func (r *Rules) Match(pathQuery []byte) (allowed bool, rule string) {
	if isRobots(pathQuery) {
		return true, ""
	}
	path := normal(nil, pathQuery)
	folded := foldedForm(path)
	for _, rule := range r.list {
		against := path
		if namesDelimiters(rule.pattern) {
			against = folded
		}
		if matches(rule.pattern, against, isSpecial(rule.pattern)) {
			return rule.Allow, rule.String()
		}
	}
	return true, ""
}

func isRobots(pathQuery []byte) bool {
	const name = "/robots.txt"
	return len(pathQuery) >= len(name) && string(pathQuery[:len(name)]) == name &&
		(len(pathQuery) == len(name) || pathQuery[len(name)] == '?')
}

// order sorts rules as they decide and removes repeated ones.
func order(list []Rule) []Rule {
	slices.SortFunc(list, func(a, b Rule) int {
		if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
			return c
		}
		if a.Allow != b.Allow {
			if a.Allow {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.pattern, b.pattern)
	})
	return slices.CompactFunc(list, func(a, b Rule) bool {
		return a.Weight == b.Weight && a.Allow == b.Allow && bytes.Equal(a.pattern, b.pattern)
	})
}

// size returns an upper bound of the rule's bytes in the coding.
func (r Rule) size() int { return maxRuleHead + len(r.pattern) }

// limit shortens an ordered list to MaxRules and MaxEncoded. Disallow rules are kept first, the broad
// before the narrow; those left over are replaced by one whose pattern is their common beginning and whose
// weight is the largest of theirs, so that whatever they forbade stays forbidden. Then Allow rules, while
// there is room.
func (r *Rules) limit(list []Rule) []Rule {
	total := maxHead
	for _, rule := range list {
		total += rule.size()
	}
	if len(list) <= MaxRules && total <= MaxEncoded {
		return list
	}
	count, room := MaxRules-1, MaxEncoded-maxHead-maxRuleHead-MaxPattern
	var kept []Rule
	var cover *Rule
	for _, allow := range []bool{false, true} {
		full := false
		for _, rule := range slices.Backward(list) {
			if rule.Allow != allow {
				continue
			}
			if full = full || count == 0 || rule.size() > room; full {
				r.Cut.Rules++
				if !allow {
					cover = widen(cover, rule)
				}
				continue
			}
			kept = append(kept, rule)
			count--
			room -= rule.size()
		}
	}
	if cover != nil {
		kept = append(kept, *cover)
	}
	return order(kept)
}

// widen makes cover, nil at first, match all that rule matches, with at least its weight.
func widen(cover *Rule, rule Rule) *Rule {
	pat := rule.pattern
	if n := bytes.IndexAny(pat, "\x00\x01"); n >= 0 {
		pat = pat[:n]
	}
	if cover == nil {
		return &Rule{Weight: rule.Weight, pattern: pat}
	}
	n := 0
	for n < len(pat) && n < len(cover.pattern) && pat[n] == cover.pattern[n] {
		n++
	}
	return &Rule{Weight: max(cover.Weight, rule.Weight), pattern: pat[:n]}
}
