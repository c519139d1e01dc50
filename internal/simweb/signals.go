package simweb

import "strings"

// Use is what a site says about the use of one URL: the values that metadata records and tables must have.
type Use struct {
	ContentSignal, ContentUsage, License, AIDisallowed string // of the robots.txt
	RobotsValues                                       string // of the page
	TDMFile                                            string // of the tdmrep.json
	TDMReservation, TDMPolicy                          string // of the page, or else of the tdmrep.json
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

// These are the paths of the reservations, and the target of a redirect.
const reservationsPath, reservationsMoved = "/.well-known/tdmrep.json", "/rules/tdmrep.json"

// reservationForm returns the form of a host's tdmrep.json: 0 none, 1 with two rules, 2 with one, after a redirect.
func (w *Web) reservationForm(h *host) int {
	if !w.opt.Signals || h.kind != liveHost {
		return 0
	}
	return int(hash(h.key, 4, saltRobots) >> 8 % 3)
}

// answerReservations answers a path of the reservations.
func (w *Web) answerReservations(a *answer, h *host, moved bool) {
	a.ctype = "application/json"
	switch form := w.reservationForm(h); {
	case form == 1 && !moved:
		a.body = append(a.body, "[\n{\"location\": \"/docs/\", \"tdm-reservation\": 1, \"tdm-policy\": \""+h.origin+
			"/terms.json\"},\n{\"location\": \"/\", \"tdm-reservation\": 0}\n]\n"...)
	case form == 2 && !moved:
		a.status, a.location = 302, append(a.location, reservationsMoved...)
	case form == 2:
		a.body = append(a.body, "[{\"location\": \"/\", \"tdm-reservation\": 1}]"...)
	default:
		a.status, a.body = 404, append(a.body, "no reservations here\n"...)
	}
}

// UseOf returns what the site says about the use of a canonical URL.
func (w *Web) UseOf(url string) (u Use) {
	n, err := w.parseURL(url)
	if err != nil {
		return u
	}
	h := &w.hosts[n.host]
	docs := strings.HasPrefix(url, h.origin+"/docs/")
	switch form := w.reservationForm(h); {
	case form == 1 && docs:
		u.TDMFile, u.TDMPolicy = "1", h.origin+"/terms.json"
	case form > 0:
		u.TDMFile = [...]string{1: "0", 2: "1"}[form]
	}
	u.TDMReservation = u.TDMFile
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
			u.RobotsValues, u.TDMReservation, u.TDMPolicy = "noai, noimageai", "1", ""
		}
	}
	return u
}
