package admit

import "drumbeat/state"

// dropTexts say why a link is dropped, by the counter that counts it: the name that programs read, and the words for
// people.
var dropTexts = map[state.Counter]struct{ name, words string }{
	state.CountLinksDepth: {state.ReasonDepth.String(), "beyond --max-depth"},
	state.CountLinksPort: {state.ReasonForbiddenPort.String(),
		"connections to its port are not allowed (--ports)"},
	state.CountLinksScope:     {"out-of-scope", "outside --scope"},
	state.CountLinksExtension: {"extension", "its extension is skipped (--skip-extensions)"},
	state.CountLinksPathDepth: {"path-depth", "too many path segments (--guards depth)"},
	state.CountLinksRepeated:  {"repeated-segments", "its path repeats a segment too often (--guards repeats)"},
	state.CountLinksParams:    {"parameters", "too many parameters (--guards params)"},
	state.CountLinksRules:     {"excluded", "the scope rules exclude it"},
	state.CountLinksBlocked:   {state.ReasonBlocked.String(), "it is blacklisted"},
	state.CountLinksFiltered:  {Filtered, Filtered},
	state.CountLinksDropped:   {TooLong, "too long"},
	state.CountLinksForeign: {"foreign",
		"requests for it carry secrets, and it was found on another site (links, --sites)"},
	state.CountLinksRedirects: {TooManyRedirects, "too many redirects (--max-redirects)"},
}

// Reasons of dropped links without a counter of their own.
const (
	Filtered = "filtered"
	TooLong  = "too-long"
	BadURL   = "bad-url"
)

// DropText says why a link is dropped, given the counter that counts it.
func DropText(c state.Counter) string { return dropTexts[c].words }

// DropName is DropText for programs.
func DropName(c state.Counter) string { return dropTexts[c].name }
