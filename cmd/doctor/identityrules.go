package doctor

import (
	"fmt"
	"io"
	"strings"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// leastToken is the least number of characters of a User-Agent that Cloudflare accepts. A product token has no special
// characters.
const leastToken = 5

// rule is what a network asks of crawlers that it lets in, by its public documentation.
// docs/howto/polite/check-identity.md has the sources. Fix is empty if the rule is met.
type rule struct {
	Network string  `json:"network"`
	Asks    string  `json:"asks"`
	Verdict verdict `json:"verdict"`
	Fix     string  `json:"fix,omitempty"`
}

type verdict fact

// verdicts are the verdicts in the table and in JSON, with their colours.
var verdicts = [...]struct {
	text   string
	colour term.Colour
}{unjudged: {"cannot be judged from here", term.NoColour}, holds: {"met", term.Green}, fails: {"not met", term.Yellow}}

// MarshalText implements encoding.TextMarshaler.
func (v verdict) MarshalText() ([]byte, error) { return []byte(verdicts[v].text), nil }

// anyOf returns whether one of several facts holds.
func anyOf(list ...fact) fact {
	result := fails
	for _, f := range list {
		switch {
		case f == holds:
			return holds
		case f == unjudged:
			result = unjudged
		}
	}
	return result
}

// rules judges the rules of networks by the facts.
func (i *identity) rules() []rule {
	f := i.facts
	own := factOf(i.who.Agent != flags.DefaultAgent)
	busy := unjudged // Cloudflare asks no traffic of those who sign
	if f.signed == holds {
		busy = holds
	}
	const (
		sign  = "let the crawl sign (--sign), and fix the key directory above"
		name  = "choose an --agent of your own, of 5 characters or more"
		oneOf = "fix one of the key directory, the addresses for programs and the reverse DNS above"
		apply = "apply when all else is met"
	)
	identified := anyOf(f.signed, f.inRanges, f.reverse)
	var list []rule
	add := func(network, asks string, is fact, fix string) {
		if is == holds {
			fix = ""
		}
		list = append(list, rule{network, asks, verdict(is), fix})
	}
	add("Cloudflare", "signed requests, published addresses or reverse DNS", identified, oneOf)
	add("Cloudflare", "a name of its own, of 5 characters or more",
		factOf(len(i.who.Agent) >= leastToken && own == holds), name)
	add("Cloudflare", "public documentation", f.documented, "fix the bot page above")
	add("Cloudflare", "obedience to robots.txt and Crawl-delay", holds, "")
	add("Cloudflare", "1,000 requests a day to several domains, unless they are signed", busy,
		"crawl for a day, or let the crawl sign (--sign)")
	add("Cloudflare", "an application in its dashboard (Bot Submission Form)", unjudged, apply)
	add("AWS WAF", "signed requests", f.signed, sign)
	add("AWS WAF", "a record in AWS Agent Registry, with the agent card", unjudged, apply)
	add("Akamai", "signed requests", f.signed, sign)
	add("DataDome", "signed requests, published addresses or reverse DNS", identified, oneOf)
	add("DataDome", "a User-Agent of its own", own, name)
	add("DataDome", "a request to its support", unjudged, apply)
	add("Vercel", "signed requests, published addresses or reverse DNS", identified, oneOf)
	add("Vercel", "an entry in its directory (bots.fyi)", unjudged, apply)
	add("other sites", "reverse DNS or published addresses, as for Googlebot", anyOf(f.reverse, f.inRanges),
		"fix the reverse DNS or the addresses for programs above")
	return list
}

// writeRules prints the rules as a table, with how to meet those that are not met.
func writeRules(w io.Writer, rules []rule) error {
	if _, err := io.WriteString(w, "\nRequirements of networks for the crawlers that they let in:\n\n"); err != nil {
		return err
	}
	var mark, network int
	for _, r := range rules {
		mark, network = max(mark, width(verdicts[r.Verdict].text)), max(network, width(r.Network))
	}
	for _, r := range rules {
		v := verdicts[r.Verdict]
		if err := term.Paint(w, v.colour, v.text); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "%s  %s  %s\n", strings.Repeat(" ", mark-width(v.text)), pad(r.Network, network),
			r.Asks)
		if err == nil && r.Verdict == verdict(fails) {
			_, err = fmt.Fprintf(w, "%s  -> %s\n", strings.Repeat(" ", mark), r.Fix)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
