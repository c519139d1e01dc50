package simweb

import (
	"strconv"
	"strings"
	"time"
)

// robotsKind is the kind of response of a host's /robots.txt.
type robotsKind uint8

const (
	robotsNotFound robotsKind = iota
	robotsAllowAll
	robotsPrefix
	robotsWildcard
	robotsOwnGroup
	robotsTie
	robotsForbidden
	robotsServerError
	robotsDisallowAll
	robotsRedirectPath
	robotsRedirectHost
	robotsCrawlDelay
	robotsBOM
	numRobots
)

var robotsNames = [numRobots]string{
	"404", "allow-all", "prefix", "wildcard", "own-group", "tie", "403", "503", "disallow-all",
	"redirect-path", "redirect-host", "crawl-delay", "bom",
}

// drawRobots draws the variant of ordinary host i. Hosts beyond the trunk get the two barren variants, by
// their shares.
func (w *Web) drawRobots(i int, u float64) robotsKind {
	m := &w.opt.Robots
	barren := m.ServerError + m.DisallowAll
	if i >= w.trunk {
		if u*barren < m.ServerError {
			return robotsServerError
		}
		return robotsDisallowAll
	}
	u *= 1 - barren
	for _, s := range [...]struct {
		share float64
		kind  robotsKind
	}{
		{m.AllowAll, robotsAllowAll}, {m.Prefix, robotsPrefix}, {m.Wildcard, robotsWildcard},
		{m.OwnGroup, robotsOwnGroup}, {m.Tie, robotsTie}, {m.Forbidden, robotsForbidden},
		{m.RedirectPath, robotsRedirectPath}, {m.RedirectHost, robotsRedirectHost},
		{m.CrawlDelay, robotsCrawlDelay}, {m.BOM, robotsBOM},
	} {
		if u < s.share {
			return s.kind
		}
		u -= s.share
	}
	return robotsNotFound
}

// RobotsVariant returns the name of a host's /robots.txt variant; "" for a foreign name.
func (w *Web) RobotsVariant(name string) string {
	i, _, ok := w.find(name)
	if !ok {
		return ""
	}
	return robotsNames[w.hosts[i].robots]
}

// CrawlDelay returns the Crawl-delay of a host's robots.txt; 0 for none.
func (w *Web) CrawlDelay(name string) time.Duration {
	if i, _, ok := w.find(name); ok && w.hosts[i].robots == robotsCrawlDelay {
		return w.opt.CrawlDelay
	}
	return 0
}

// variant draws a number below n for robots kinds with several forms.
func (h *host) variant(n uint64) uint64 { return (hash(h.key, 0, saltRobots) >> 8) % n }

// refuses reports whether the host's robots.txt disallows a node to the crawler of Options.Agent (own) or
// to another one. It computes the meaning of the texts below from directory and form numbers, without
// parsing them.
func (w *Web) refuses(n node, k Kind, own bool) bool {
	h := &w.hosts[n.host]
	switch h.robots {
	case robotsServerError, robotsDisallowAll:
		return true
	}
	if h.kind != liveHost {
		return false
	}
	if h.robots == robotsOwnGroup && !own && h.variant(2) == 0 {
		return true
	}
	if n.page == 0 || n.hop > 0 {
		return false
	}
	dir, form := shape(h, n.page, k)
	switch h.robots {
	case robotsPrefix, robotsRedirectPath, robotsRedirectHost, robotsCrawlDelay, robotsBOM:
		return dir == dirPrivate || dir == dirTmp
	case robotsWildcard:
		docs := dir == dirDocs || dir == dirDocsV2
		return form == formPDF && dir != dirDocsV2 || form == formID && !docs || dir == dirCafe
	case robotsOwnGroup:
		if h.variant(2) == 0 {
			return dir == dirPrivate || dir == dirTmp
		}
		if own {
			return dir == dirDocs || dir == dirDocsV2
		}
		return dir == dirTmp
	case robotsTie:
		return dir == dirPrivate || dir == dirPrivateOpen
	}
	return false
}

const prefixRules = "User-agent: *\nDisallow: /private/\nAllow: /private/open/\nDisallow: /tmp/\n"

// robotsText returns the body of a host's rules, at /robots.txt or at the target of its redirect.
func (w *Web) robotsText(h *host) string {
	agent := w.opt.Agent
	switch h.robots {
	case robotsAllowAll:
		switch h.variant(3) {
		case 0:
			return ""
		case 1:
			return "User-agent: *\nDisallow:\n"
		}
		return "<!DOCTYPE html>\n<html><body><h1>Welcome</h1><p>There is no such file here.</p></body></html>\n"
	case robotsWildcard:
		cafe := "/caf%c3%a9/"
		if h.variant(2) == 0 {
			cafe = "/café/"
		}
		return "User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?id=\nAllow: /docs/*?id=\nAllow: /*/v2/*.pdf$\n" +
			"Disallow: " + cafe + "\n"
	case robotsOwnGroup:
		if h.variant(2) == 0 {
			return "User-agent: *\nDisallow: /\n\nUser-agent: otherbot\nUser-agent: " + strings.ToUpper(agent) +
				"\nDisallow: /private/\nAllow: /private/open/\n\nUser-agent: " + agent + "\nDisallow: /tmp/\n"
		}
		return "User-agent: " + agent + "-news\nDisallow: /\n\nUser-agent: " + agent +
			"\nDisallow: /docs/\n\nUser-agent: *\nDisallow: /tmp/\n"
	case robotsTie:
		return "User-agent: *\nDisallow: /docs/\nAllow: /docs/\nDisallow: /tmp\nAllow: /tmp/\nDisallow: /private\n"
	case robotsDisallowAll:
		return "User-agent: *\nDisallow: /\n"
	case robotsCrawlDelay:
		s := strconv.FormatFloat(w.opt.CrawlDelay.Seconds(), 'f', -1, 64)
		return "User-agent: *\nCrawl-delay: " + s + "\n" + strings.TrimPrefix(prefixRules, "User-agent: *\n")
	case robotsBOM:
		return "\ufeffUSER-AGENT : *   # everybody\r\nDISALLOW: /private/ # closed\r\n\r\n# a comment\r\n" +
			"Sitemap: http://" + h.name + "/sitemap.xml\r\nallow:/private/open/\r\n\tDisallow:\t/tmp/\t\r\n"
	}
	return prefixRules
}

// Paths to which a /robots.txt redirects. The last is on another host, followed by the number of the first
// host.
const (
	robotsPath       = "/robots.txt"
	robotsMoved      = "/robots-moved.txt"
	robotsMovedAgain = "/robots-moved/again.txt"
	robotsForHost    = "/robots-for/"
)

// isRobotsPath reports whether a request is for robots rules, not for a URL of the graph.
func isRobotsPath(path []byte) bool {
	s := string(path)
	return s == robotsPath || s == robotsMoved || s == robotsMovedAgain || s == reservationsPath ||
		s == reservationsMoved || strings.HasPrefix(s, robotsForHost)
}

// answerRobots answers a path of robots rules. n.host is the requested host.
func (w *Web) answerRobots(a *answer, n node, path []byte) {
	h := &w.hosts[n.host]
	a.ctype = "text/plain; charset=utf-8"
	a.status = 200
	move := func(status int, to ...string) {
		a.status = status
		for _, s := range to {
			a.location = append(a.location, s...)
		}
	}
	missing := func() { a.status, a.body = 404, append(a.body, "no robots rules here\n"...) }
	switch p := string(path); {
	case p == reservationsPath || p == reservationsMoved:
		w.answerReservations(a, h, p == reservationsMoved)
	case strings.HasPrefix(p, robotsForHost):
		i, err := strconv.Atoi(strings.TrimSuffix(p[len(robotsForHost):], ".txt"))
		if err != nil || i < 0 || i >= w.ordinary || w.hosts[i].robots != robotsRedirectHost {
			missing()
			return
		}
		a.body = append(a.body, w.withSignals(&w.hosts[i], w.robotsText(&w.hosts[i]))...)
	case h.robots == robotsRedirectPath:
		switch {
		case p == robotsPath:
			move(301, robotsMoved)
		case p == robotsMoved && h.variant(2) == 0:
			move(302, h.origin, robotsMovedAgain)
		default:
			a.body = append(a.body, w.withSignals(h, w.robotsText(h))...)
		}
	case p != robotsPath || h.robots == robotsNotFound:
		missing()
	case h.robots == robotsForbidden:
		a.status, a.body = 403, append(a.body, "forbidden\n"...)
	case h.robots == robotsServerError:
		a.status, a.body = 503, append(a.body, "User-agent: *\nAllow: /\n"...)
	case h.robots == robotsRedirectHost:
		other := w.robotsHelper(n.host)
		move(302, w.hosts[other].origin, robotsForHost, strconv.Itoa(int(n.host)), ".txt")
	default:
		if h.robots == robotsAllowAll && h.variant(3) == 2 {
			a.ctype = "text/html"
		}
		a.body = append(a.body, w.withSignals(h, w.robotsText(h))...)
	}
}

// robotsHelper returns the trunk host that serves the rules of host i.
func (w *Web) robotsHelper(i int32) int32 {
	n := uint64(w.trunk)
	if n < 2 {
		return i
	}
	return int32((uint64(i) + 1 + below(hash(w.hosts[i].key, 1, saltRobots), n-1)) % n)
}
