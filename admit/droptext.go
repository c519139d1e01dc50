package admit

import "drumbeat/state"

// dropTexts say why a link is dropped, by the counter that counts it.
var dropTexts = map[state.Counter]string{
	state.CountLinksDepth:     "beyond --max-depth",
	state.CountLinksPort:      "connections to its port are not allowed (--ports)",
	state.CountLinksScope:     "outside --scope",
	state.CountLinksExtension: "its extension is skipped (--skip-extensions)",
	state.CountLinksPathDepth: "too many path segments (--guards depth)",
	state.CountLinksRepeated:  "its path repeats a segment too often (--guards repeats)",
	state.CountLinksParams:    "too many parameters (--guards params)",
	state.CountLinksRules:     "the scope rules exclude it",
	state.CountLinksBlocked:   "it is blacklisted",
	state.CountLinksFiltered:  "filtered",
	state.CountLinksDropped:   "too long",
	state.CountLinksForeign:   "requests for it carry secrets, and it was found on another site (links, --sites)",
	state.CountLinksRedirects: "too many redirects (--max-redirects)",
}

// DropText says why a link is dropped, given the counter that counts it.
func DropText(c state.Counter) string { return dropTexts[c] }
