package simweb

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// welcomeScenarios are hosts that fail for a time or forever, ask for a delay, or refuse. Each has
// welcomeURLs seeds, "/0" and so on, and answers 404 for robots.txt. crawl/politeness_welcome_test.go lists
// the requests of a correct crawler with their times.
func welcomeScenarios() []scenario {
	return []scenario{
		{"welcome-refusing", steady(403, "", "<title>Forbidden</title>")},
		{"welcome-challenges", challenges},
		{"welcome-hang-ups", func(w *Web, add func(hostileHost)) {
			addSite(w, add, "welcome-hang-ups", 0,
				func(s *session, _ *wish, _ int) bool { abort(s.conn); return false })
		}},
		{"welcome-directory", forbiddenDirectory},
		{"welcome-retry-after", retryAfter},
		{"welcome-payment", payment},
		{"welcome-failing", steady(503, "", "")},
		{"welcome-broken", steady(500, "", "oops")},
		{"welcome-half-broken", halfBroken},
		{"welcome-recovering", recovering},
		{"welcome-gateway", gateway},
		{"welcome-few", few},
		{"welcome-silent", func(w *Web, add func(hostileHost)) {
			addSite(w, add, "welcome-silent", 0, func(s *session, _ *wish, _ int) bool { return s.hold("") })
		}},
	}
}

// welcomeURLs is the number of seeds of each of these hosts.
const welcomeURLs = 60

// RecoversAfter is the time after its first request in which the host of "welcome-recovering" answers 503.
const RecoversAfter = 20 * time.Minute

// PatienceAsked is the Retry-After of the hosts of "welcome-retry-after", in seconds and as a date.
const PatienceAsked = 30 * time.Minute

// addSite adds a host whose answer may depend on the number of previous requests, except those for robots
// rules.
func addSite(w *Web, add func(hostileHost), scenario string, i int, serve func(s *session, q *wish, n int) bool,
	seeds ...string) {
	name := w.hostileName(scenario, i)
	if seeds == nil {
		for k := range welcomeURLs {
			seeds = append(seeds, "http://"+name+"/"+strconv.Itoa(k))
		}
	}
	var mu sync.Mutex // guards n
	n := 0
	add(hostileHost{name: name, seeds: seeds, serve: func(s *session, q *wish) bool {
		mu.Lock()
		k := n
		n++
		mu.Unlock()
		return serve(s, q, k)
	}})
}

// status sends a whole response; header has complete lines.
func (s *session) status(code int, header, body string) bool {
	s.code = code
	return s.reply("HTTP/1.1 "+strconv.Itoa(code)+" "+http.StatusText(code)+
		"\r\nContent-Type: text/html\r\n"+header, body)
}

// steady is a scenario of one host with always the same answer.
func steady(code int, header, body string) func(w *Web, add func(hostileHost)) {
	return func(w *Web, add func(hostileHost)) {
		name := map[int]string{403: "welcome-refusing", 503: "welcome-failing", 500: "welcome-broken"}[code]
		addSite(w, add, name, 0, func(s *session, _ *wish, _ int) bool { return s.status(code, header, body) })
	}
}

// challenges: challenge pages of three vendors.
func challenges(w *Web, add func(hostileHost)) {
	for i, c := range []struct {
		code         int
		header, body string
	}{
		{403, "Cf-Mitigated: challenge\r\n", "<title>Just a moment...</title>"},
		{202, "X-Amzn-Waf-Action: challenge\r\n", ""},
		{200, "", `<html><iframe src="/_Incapsula_Resource?CWUDNSAI=9">Request unsuccessful.</iframe></html>`},
	} {
		addSite(w, add, "welcome-challenges", i,
			func(s *session, _ *wish, _ int) bool { return s.status(c.code, c.header, c.body) })
	}
}

// few: a host that refuses and one that fails, with FewURLs seeds each, for the small worlds of the crash
// simulation.
func few(w *Web, add func(hostileHost)) {
	for i, code := range [...]int{403, 503} {
		name := w.hostileName("welcome-few", i)
		seeds := make([]string, FewURLs)
		for k := range seeds {
			seeds[k] = "http://" + name + "/" + strconv.Itoa(k)
		}
		addSite(w, add, "welcome-few", i,
			func(s *session, _ *wish, _ int) bool { return s.status(code, "", "") }, seeds...)
	}
}

// FewURLs is the number of seeds of each host of "welcome-few".
const FewURLs = 12

// forbiddenDirectory: 403 below /private/, pages elsewhere. The seeds of each kind are consecutive.
func forbiddenDirectory(w *Web, add func(hostileHost)) {
	name := w.hostileName("welcome-directory", 0)
	var seeds []string
	for i := range welcomeURLs {
		dir := "private"
		if i >= welcomeURLs/2 {
			dir = "open"
		}
		seeds = append(seeds, "http://"+name+"/"+dir+"/"+strconv.Itoa(i))
	}
	addSite(w, add, "welcome-directory", 0, func(s *session, q *wish, _ int) bool {
		if strings.HasPrefix(string(q.path), "/private/") {
			return s.status(403, "", "")
		}
		return s.status(200, "", "<p>hello")
	}, seeds...)
}

// retryAfter: the first request gets 429 with Retry-After, in seconds and as a date; likewise with 503.
func retryAfter(w *Web, add func(hostileHost)) {
	seconds := func() string { return strconv.Itoa(int(PatienceAsked / time.Second)) }
	date := func() string { return time.Now().Add(PatienceAsked).UTC().Format(http.TimeFormat) }
	for i, c := range []struct {
		code int
		form func() string
	}{{429, seconds}, {429, date}, {503, seconds}, {503, date}} {
		addSite(w, add, "welcome-retry-after", i, func(s *session, _ *wish, n int) bool {
			if n == 0 {
				return s.status(c.code, "Retry-After: "+c.form()+"\r\n", "")
			}
			return s.status(200, "", "<p>hello")
		})
	}
}

// payment: hosts that ask for payment with each answer, with 402 and a price, 401 and a licence, 403 and a price; the
// last one only with every other answer, without a price.
func payment(w *Web, add func(hostileHost)) {
	for i, c := range []struct {
		code   int
		header string
	}{{402, "Crawler-Price: USD 0.01\r\n"}, {401, "WWW-Authenticate: License error=\"invalid_request\"\r\n"},
		{403, "crawler-price: EUR 2\r\n"}} {
		addSite(w, add, "welcome-payment", i,
			func(s *session, _ *wish, _ int) bool { return s.status(c.code, c.header, "") })
	}
	addSite(w, add, "welcome-payment", 3, func(s *session, _ *wish, n int) bool {
		if n%2 == 0 {
			return s.status(402, "", "")
		}
		return s.status(200, "", "<p>hello")
	})
}

// halfBroken: every second request gets 500.
func halfBroken(w *Web, add func(hostileHost)) {
	addSite(w, add, "welcome-half-broken", 0, func(s *session, _ *wish, n int) bool {
		if n%2 == 0 {
			return s.status(500, "", "oops")
		}
		return s.status(200, "", "<p>hello")
	})
}

// recovering: 503 until RecoversAfter after the first request.
func recovering(w *Web, add func(hostileHost)) {
	var mu sync.Mutex // guards first
	var first time.Time
	addSite(w, add, "welcome-recovering", 0, func(s *session, _ *wish, _ int) bool {
		mu.Lock()
		if first.IsZero() {
			first = time.Now()
		}
		down := time.Since(first) < RecoversAfter
		mu.Unlock()
		if down {
			return s.status(503, "", "")
		}
		return s.status(200, "", "<p>hello")
	})
}

// gateway: 502 and 504 for the first two requests.
func gateway(w *Web, add func(hostileHost)) {
	addSite(w, add, "welcome-gateway", 0, func(s *session, _ *wish, n int) bool {
		if n < 2 {
			return s.status(502+2*n, "", "")
		}
		return s.status(200, "", "<p>hello")
	})
}
