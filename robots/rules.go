package robots

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits. MaxInput is RFC 9309's (2.5). The others bound the cost of one site.
const (
	MaxInput      = 500 << 10      // bytes read of a file
	MaxPattern    = 17 << 10       // bytes of a compiled pattern: any line of maxLine without escapes
	MaxRules      = 2048           // rules of our group
	MaxEncoded    = 64 << 10       // bytes of a coded Rules
	MaxCrawlDelay = 24 * time.Hour // upper bound of a Crawl-delay

	maxSitemaps     = 256 // Sitemap lines of a file
	maxSitemapBytes = 2083
	maxLine         = 8*2083 - 1 // bytes read of a line, as in Google's parser
	maxWeight       = 3 * maxLine
)

// Rules are the rules of a robots.txt that apply to us. The zero value allows everything. Parse and
// DecodeRules make them. They are immutable and may be shared.
type Rules struct {
	// Own says that a group names our product token. Otherwise the rules are those for "*", or none.
	Own bool
	// CrawlDelay is the Crawl-delay of the group in whole milliseconds; 0: none.
	CrawlDelay time.Duration
	// Group is the group in force. It is not part of the coding.
	Group Group
	// Signals are the statements about the use of pages. They have a coding of their own.
	Signals Signals
	// Sitemaps are the raw values of the file's Sitemap lines. They are not part of the coding.
	Sitemaps []string
	// Cut counts what the limits removed. The coding contains only the sum of Cut.Rules and Cut.Long, which
	// is decoded into Cut.Rules.
	Cut Cut

	list []Rule // in order of precedence: by decreasing weight, Allow before Disallow
}

// Group is the group of a robots.txt that is in force for us.
type Group uint8

const (
	GroupUnknown Group = iota // the file was read by a version that did not keep it
	GroupNone                 // no group applies to us
	GroupAll                  // that of "*"
	GroupOwn                  // it names our product token
)

// String returns the group as metadata records and tables have it.
func (g Group) String() string { return [...]string{"", "none", "*", "own"}[min(g, GroupOwn)] }

// Cut counts what was left out of a Rules.
type Cut struct {
	Input int // bytes beyond MaxInput
	Long  int // patterns beyond MaxPattern: Allow dropped, Disallow shortened
	Rules int // beyond MaxRules or MaxEncoded: Allow dropped, Disallow merged into a broader one
	Odd   int // rules that can match no path
}

// Rule is one Allow or Disallow line.
type Rule struct {
	Allow bool
	// Weight is the number of octets of the pattern as written. The matching rule with the largest weight
	// decides.
	Weight int

	pattern []byte // compiled, see pattern.go
}

// String returns the rule as a line of robots.txt.
func (r Rule) String() string {
	name := "Disallow: "
	if r.Allow {
		name = "Allow: "
	}
	if len(r.pattern) == 0 { // compiled from stars; without a pattern the line would be no rule
		return name + "*"
	}
	return string(appendText([]byte(name), r.pattern))
}

// List returns the rules in order of precedence.
func (r *Rules) List() []Rule { return r.list }

// Text returns the rules as a robots.txt with one group. The explain command prints it.
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

// Match reports whether the rules allow a path with its query ("/a?b" in any spelling, without fragment),
// and which rule decides, "" if none does. /robots.txt is always allowed. It tries the rules one by one; for
// many URLs use the function Match.
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

// order sorts rules by precedence and removes duplicates.
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
		if plain := a.isPlain(); plain != b.isPlain() { // the index tries plain rules first
			if plain {
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

// size returns an upper bound of the rule's size in the coding.
func (r Rule) size() int { return maxRuleHead + len(r.pattern) }

// limit shortens an ordered list to MaxRules and MaxEncoded. It keeps Disallow rules first, broad ones
// before narrow ones. It replaces the rest of them by one rule whose pattern is their common prefix and
// whose weight is their largest, so everything that they forbade stays forbidden. It then keeps Allow rules
// while there is room.
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

// widen returns a rule that matches everything that cover, nil at first, and rule match, with at least their
// weights.
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
