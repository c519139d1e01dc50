package robots

import (
	"math/bits"
	"slices"
)

// Bots is a set of the AI bots that a robots.txt can name: bit i is bot i of the list.
type Bots uint64

// botNames are the crawlers and tokens of companies that train models on pages or answer from them, as their operators
// name them for robots.txt. Sources: the operators' pages for OpenAI, Anthropic, Google, Apple, Amazon, Meta,
// Perplexity, ByteDance, Common Crawl, Cohere and Diffbot; github.com/ai-robots-txt/ai.robots.txt for the others. The
// stored bits depend on the order: append only, up to 64.
var botNames = [...]string{
	"GPTBot", "OAI-SearchBot", "ChatGPT-User", "ClaudeBot", "Claude-SearchBot", "Claude-User", "anthropic-ai",
	"Claude-Web", "CCBot", "Google-Extended", "GoogleOther", "Applebot-Extended", "Bytespider", "PerplexityBot",
	"Perplexity-User", "Amazonbot", "meta-externalagent", "meta-externalfetcher", "FacebookBot", "cohere-ai",
	"cohere-training-data-crawler", "Diffbot", "MistralAI-User", "DuckAssistBot", "YouBot", "Omgilibot",
	"omgili", "ImagesiftBot", "Timpibot", "PanguBot", "Google-CloudVertexBot", "img2dataset",
}

// allBots has the bits that a set may have.
const allBots = Bots(1)<<len(botNames) - 1

// botOf returns the bot that a User-agent value names; 0: none. The name ends at a blank or "/", as a product token.
func botOf(value []byte) Bots {
	n := 0
	for n < len(value) && value[n] != '/' && value[n] > ' ' {
		n++
	}
	for i, name := range botNames {
		if len(name) == n && lower(name[0]) == lower(value[0]) && equalFold(value[:n], []byte(name)) {
			return 1 << i
		}
	}
	return 0
}

// Names returns the names of the bots in the order of the list.
func (b Bots) Names() []string {
	var names []string
	for b &= allBots; b != 0; b &= b - 1 {
		names = append(names, botNames[bits.TrailingZeros64(uint64(b))])
	}
	return names
}

// botRule is a rule in a group that names AI bots.
type botRule struct {
	bots Bots
	raw  rawRule
}

// botRule keeps a rule of the bots of the current group.
func (p *parser) botRule(value []byte, allow bool) {
	if len(p.botRules) >= maxBotRules {
		p.botsCut |= p.bots
		return
	}
	p.botRules = append(p.botRules, botRule{p.bots, rawRule{value: value, allow: allow}})
}

// botGroups returns the bots whose groups disallow something, those with equal rules together. cut says that limits
// have replaced rules by more restrictive ones.
func (p *parser) botGroups() (groups []BotGroup, cut bool) {
	if len(p.botRules) == 0 {
		return nil, false
	}
	var classes []Bots // bots that occur in the same rules
	last := Bots(0)
	for _, r := range p.botRules {
		if r.bots == last {
			continue
		}
		last = r.bots
		rest := r.bots
		for i, n := 0, len(classes); i < n; i++ {
			if in := classes[i] & r.bots; in != 0 && in != classes[i] {
				classes = append(classes, classes[i]&^r.bots)
				classes[i] = in
			}
			rest &^= classes[i]
		}
		if rest != 0 {
			classes = append(classes, rest)
		}
	}
	for _, class := range classes {
		coded, short := p.botClass(class)
		cut = cut || short
		if coded == nil {
			continue
		}
		same := func(g BotGroup) bool { return string(g.Rules) == string(coded) }
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i].Bots |= class
		} else {
			groups = append(groups, BotGroup{class, coded})
		}
	}
	slices.SortFunc(groups, func(a, b BotGroup) int { // by the first bot
		return bits.TrailingZeros64(uint64(a.Bots)) - bits.TrailingZeros64(uint64(b.Bots))
	})
	return groups, cut
}

// botClass returns the coded rules of bots that occur in the same rules; nil if they disallow nothing.
func (p *parser) botClass(class Bots) (coded []byte, cut bool) {
	var r Rules
	forbids := false
	for _, rule := range p.botRules {
		if rule.bots&class != 0 {
			r.add(rule.raw)
			forbids = forbids || !rule.raw.allow
		}
	}
	if cut = class&p.botsCut != 0; cut {
		r.list = append(r.list, Rule{Weight: maxWeight}) // all paths
	} else if !forbids {
		return nil, false
	}
	r.list = order(r.list)
	if cut = cut || len(r.list) > MaxRules; !cut {
		if coded = r.Append(nil); len(coded) <= maxBotBytes {
			return coded, r.Cut.Long > 0
		}
	}
	cover := coverOf(r.list)
	if cover == nil {
		return nil, true
	}
	r.list, r.Cut = []Rule{*cover}, Cut{}
	return r.Append(nil), true
}

// coverOf returns a rule that matches everything that the Disallow rules of a list match; nil: there are none. Its
// pattern is short enough for a group of bots.
func coverOf(list []Rule) (cover *Rule) {
	for _, rule := range list {
		if !rule.Allow {
			cover = widen(cover, rule)
		}
	}
	if cover != nil {
		cover.pattern = cover.pattern[:min(len(cover.pattern), maxUsagePattern)]
	}
	return cover
}
