package simweb

import "strings"

// Use is what a site says about the use of one URL: the values that metadata records and tables must have.
type Use struct {
	ContentSignal, ContentUsage, License, AIDisallowed string // of the robots.txt
	RobotsValues, TDMReservation                       string // of the page
}

// signalForms is the number of forms of Options.Signals; one of them says nothing.
const signalForms = 6

// signalForm returns the form of a host's statements.
func (w *Web) signalForm(h *host) int {
	if !w.opt.Signals || h.kind != liveHost {
		return 0
	}
	switch h.robots {
	case robotsPrefix, robotsWildcard, robotsTie, robotsCrawlDelay, robotsRedirectPath, robotsRedirectHost:
		return int(hash(h.key, 3, saltRobots) >> 8 % signalForms)
	}
	return 0
}

// withSignals adds a host's statements to its rules, which end in the group of "*".
func (w *Web) withSignals(h *host, rules string) string {
	switch w.signalForm(h) {
	case 1:
		return rules + "Content-Signal: search=yes,ai-train=no,use=reference\n"
	case 2:
		return rules + "Content-Usage: train-ai=n\nContent-Usage: /docs/ train-ai=y, search=y\n"
	case 3:
		return "License: " + h.origin + "/license.xml\n\n" + rules
	case 4:
		return rules + "\nUser-agent: GPTBot\nUser-agent: CCBot\nDisallow: /docs/\n\nUser-agent: ClaudeBot\nAllow: /\n"
	}
	return rules
}

// metas returns the elements of a host's pages about their use.
func (w *Web) metas(h *host) string {
	if w.signalForm(h) == 5 {
		return "<meta name=robots content=\"NOAI, noimageai, index\">\n<meta name=tdm-reservation content=1>\n"
	}
	return ""
}

// UseOf returns what the site says about the use of a canonical URL.
func (w *Web) UseOf(url string) (u Use) {
	n, err := w.parseURL(url)
	if err != nil {
		return u
	}
	h := &w.hosts[n.host]
	docs := strings.HasPrefix(url, h.origin+"/docs/")
	switch w.signalForm(h) {
	case 1:
		u.ContentSignal = "ai-train=no, search=yes, use=reference"
	case 2:
		if u.ContentUsage = "train-ai=n"; docs {
			u.ContentUsage = "search=y, train-ai=y"
		}
	case 3:
		u.License = h.origin + "/license.xml"
	case 4:
		if docs {
			u.AIDisallowed = "GPTBot, CCBot"
		}
	case 5:
		if page, ok := w.Page(url); ok && page.Status == 200 && strings.HasPrefix(page.Type, "text/html") {
			u.RobotsValues, u.TDMReservation = "noai, noimageai", "1"
		}
	}
	return u
}
