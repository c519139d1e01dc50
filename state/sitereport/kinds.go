package sitereport

import "fmt"

// Severity says how urgent a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // visitors or search engines run into it
	Warning Severity = "warning" // it costs visitors, or may break
	Note    Severity = "note"    // it may be meant
)

// Limits of texts, in characters, and of pages.
const (
	// TitleLeast and TitleMost: result pages show a title in about 600 pixels, which 60 to 65 letters fill. Fewer than
	// 10 rarely tell a page from another.
	TitleLeast, TitleMost = 10, 65
	// DescriptionLeast and DescriptionMost: result pages show about two lines. They replace a text that fills less than
	// half a line.
	DescriptionLeast, DescriptionMost = 50, 160
	// HeadingMost: a longer heading is a paragraph, often by a tag that is not closed.
	HeadingMost = 120
	// SlowMillis is from where on visitors notice that they wait (Nielsen, Usability Engineering, 1993, chapter 5).
	SlowMillis = 1000
	// LargeBytes, as transferred: several seconds on a slow mobile connection.
	LargeBytes = 1 << 20
)

// kind has the words for a kind of finding.
type kind struct {
	severity          Severity
	title, means, fix string
	group             bool // a row is a group of pages: its count includes the row's own URL
}

// Kinds are the kinds of findings, in the order of a report: the worst first.
var Kinds = []string{"broken-link", "broken-image", "broken-outside", "redirect-loop", "canonical-broken",
	"hreflang-broken", "sitemap-broken", "mixed-content", "jsonld-broken", "title-missing",

	"redirect-chain", "canonical-redirect", "canonical-chain", "canonical-several", "canonical-host",
	"hreflang-no-return", "hreflang-code", "robots-blocked", "duplicate", "title-repeated", "title-several",
	"description-missing", "description-repeated", "h1-missing", "alt-missing", "orphan", "slow", "large",
	"security-headers",

	"redirected-link", "canonical-elsewhere", "noindex", "near-duplicate", "sitemap-missing", "title-long",
	"title-short", "description-long", "description-short", "h1-several", "h1-repeated", "h1-long"}

var kinds = map[string]kind{
	"broken-link": {Error, "Broken links", "Visitors who follow these links see an error, or nothing at all.",
		"Correct the address of the link, remove the link, or bring the missing page back.", false},
	"broken-image": {Error, "Broken images", "These images do not load, so visitors see an empty frame.",
		"Upload the image again, or correct its address on the pages below.", false},
	"broken-outside": {Error, "Broken links to other sites",
		"These pages of other sites are gone or do not answer, so your visitors reach a dead end.",
		"Link to the new address or to another source, or remove the link.", false},
	"redirect-loop": {Error, "Redirects in a circle",
		"These addresses send the browser around in a circle until it gives up with an error.",
		"Let one address of the circle answer with a page, or redirect all of them to one that does.", false},
	"canonical-broken": {Error, "Canonical addresses without a page",
		"These pages tell search engines that the real page is elsewhere, but nothing is there.",
		"Name the address of the page itself, or of the page that should appear in results.", false},
	"hreflang-broken": {Error, "Translations without a page",
		"These pages announce a version for another language or country at an address that has no page.",
		"Correct the address of the translation, or remove it from the list.", false},
	"sitemap-broken": {Error, "Addresses in the sitemap without a page",
		"The sitemap lists addresses that answer with an error or a redirect.",
		"Remove them from the sitemap, or list the address that the page has now.", false},
	"mixed-content": {Error, "Unprotected parts on protected pages",
		"These pages load parts over plain http. Browsers block such parts or warn about them.",
		"Load them by https, or from your own site.", false},
	"jsonld-broken": {Error, "Structured data that cannot be read",
		"Search engines ignore these descriptions (JSON-LD), since their syntax is wrong.",
		"Correct the syntax at the place that is given, or let the system that makes your pages write it.", false},
	"title-missing": {Error, "Pages without a title",
		"Search engines and browser tabs have no name for these pages and make one up.",
		"Give each page a title that says what it is about.", false},

	"redirect-chain": {Warning, "Redirects that lead to redirects",
		"Each detour costs visitors time, and search engines give up after a few of them.",
		"Redirect the first address to the last one directly.", false},
	"canonical-redirect": {Warning, "Canonical addresses that redirect",
		"These pages name an address that redirects to another, so search engines have to guess.",
		"Name the address at the end of the redirect.", false},
	"canonical-chain": {Warning, "Canonical addresses that name a third one",
		"These pages name another page as the real one, and that one names yet another.",
		"Let all of them name the same page, and that page itself.", false},
	"canonical-several": {Warning, "Pages with several canonical addresses",
		"If a page names more than one, search engines ignore all of them.",
		"Keep one canonical address on each page.", false},
	"canonical-host": {Warning, "Canonical addresses on another site",
		"These pages ask search engines to show a page of another host instead of themselves.",
		"Keep this only if the other host should get your visitors.", false},
	"hreflang-no-return": {Warning, "Translations that do not link back",
		"Search engines believe that two pages are translations of each other only if both say so.",
		"List the page below among the translations on the page of the first column.", false},
	"hreflang-code": {Warning, "Language codes that do not exist",
		"Search engines ignore a translation whose language code they do not know.",
		"Use a language such as en, or a language and a country such as en-GB.", false},
	"robots-blocked": {Warning, "Links to addresses that robots.txt forbids",
		"Search engines may not read these pages, though your pages link to them.",
		"Allow them in robots.txt if they should be found; otherwise leave them.", false},
	"duplicate": {Warning, "Pages with the same content",
		"Search engines show only one of these pages, and not always the one that you want.",
		"Redirect the others to one page, or name that page as canonical on all of them.", true},
	"title-repeated": {Warning, "Titles shared by several pages",
		"In a list of results nobody can tell these pages apart.",
		"Give each page a title of its own.", true},
	"title-several": {Warning, "Pages with more than one title", "Browsers use the first title only.",
		"Remove the others; often a plug-in adds one.", false},
	"description-missing": {Warning, "Pages without a description",
		"Search engines pick some sentence of the page to show in their results.",
		"Describe each page in one or two sentences in its meta description.", false},
	"description-repeated": {Warning, "Descriptions shared by several pages",
		"The same text appears under several results, so it does not help people to choose.",
		"Describe each page in its own words.", true},
	"h1-missing": {Warning, "Pages without a main heading",
		"Readers, screen readers and search engines find no heading (h1) that says what the page is about.",
		"Mark the heading of the page as h1.", false},
	"alt-missing": {Warning, "Images without a text",
		"Visitors who cannot see these images, and search engines, do not learn what they show.",
		"Describe each image in its alt text; leave the text empty for a decorative image.", false},
	"orphan": {Warning, "Pages that no page links to",
		"Visitors who browse the site never find these pages.",
		"Link to them from a page that people read, or remove them.", false},
	"slow": {Warning, "Slow responses",
		"The server took a second or more to deliver these pages; visitors notice the wait.",
		"Ask your host or developer why they take so long; a cache often helps.", false},
	"large": {Warning, "Large responses",
		"These files have 1 MiB or more, which takes seconds on a mobile connection.",
		"Reduce images, and leave out what the page does not need.", false},
	"security-headers": {Warning, "Browser protections that are not switched on",
		"A header of the server switches on each of these protections, and some pages come without it.",
		"Add the header in the settings of the server, once for the whole site.", false},

	"redirected-link": {Note, "Links to addresses that redirect",
		"The link works, with a detour that takes a little time.",
		"Link to the final address when you edit the page next.", false},
	"canonical-elsewhere": {Note, "Pages that name another page as the real one",
		"Search engines show the other page instead of these.",
		"Nothing, if that is what you want.", false},
	"noindex": {Note, "Pages that ask search engines not to list them", "These pages do not appear in search results.",
		"Remove the noindex setting from those that should be found.", false},
	"near-duplicate": {Note, "Pages with nearly the same text",
		"Search engines may take them for copies of each other.",
		"Join them, or make clear what is different.", true},
	"sitemap-missing": {Note, "Pages that the sitemap leaves out",
		"Search engines find these pages later than those in the sitemap.",
		"Add them to the sitemap, or generate it automatically.", false},
	"title-long": {Note, "Long titles",
		fmt.Sprintf("Search results cut titles of more than about %d letters.", TitleMost),
		"Put the important words first, or shorten the title.", false},
	"title-short": {Note, "Short titles",
		fmt.Sprintf("A title of fewer than %d letters says little about the page.", TitleLeast),
		"Add what distinguishes the page.", false},
	"description-long": {Note, "Long descriptions",
		fmt.Sprintf("Search results cut descriptions of more than about %d letters.", DescriptionMost),
		"Say the important part first, or shorten it.", false},
	"description-short": {Note, "Short descriptions",
		fmt.Sprintf("Search engines often replace descriptions of fewer than %d letters.", DescriptionLeast),
		"Describe the page in one or two sentences.", false},
	"h1-several": {Note, "Pages with several main headings",
		"More than one heading of the highest rank (h1) hides what the page is about.",
		"Keep one, and mark the others as h2.", false},
	"h1-repeated": {Note, "Main headings shared by several pages",
		"The pages look alike to readers and to search engines.", "Give each page its own heading.", true},
	"h1-long": {Note, "Long main headings",
		fmt.Sprintf("A main heading of more than %d letters is a paragraph.", HeadingMost),
		"Shorten it; check that the heading's tag is closed.", false},
}
