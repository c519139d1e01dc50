package simweb

import (
	"fmt"
	"net/netip"
	"time"
)

// politeScenarios are servers of many hosts that a crawler with limits only per host would overload. They
// answer each request in full, some of them late.
func politeScenarios() []scenario {
	return []scenario{
		{"one-address", oneAddress}, {"one-pld", onePLD}, {"one-network", oneNetwork}, {"slow-server", slowServer},
		{"crawl-delay", crawlDelay}, {"adaptive", adaptive},
	}
}

// The sizes of the scenarios.
const (
	oneAddressHosts   = 1000
	onePLDHosts       = 300
	onePLDServers     = 60
	oneNetworkServers = 200
	oneNetworkAnswer  = 3 * time.Second // delay of pages of one-network
	slowAnswer        = 2 * time.Second // delay of pages of slow-server
)

// crowd adds hosts named name(i), each at addr(i), with equal answers.
func crowd(w *Web, add func(hostileHost), root string, hosts int, name func(i int) string, addr func(i int) netip.Addr,
	serve func(s *session, q *wish) bool) {
	h := hostileHost{name: root, wild: true, addr: addr(0), serve: serve}
	where := map[string]netip.Addr{}
	for i := range hosts {
		where[name(i)] = addr(i)
		h.seeds = append(h.seeds, "http://"+name(i)+"/")
	}
	h.resolve = func(name string) names {
		if a, ok := where[name]; ok {
			return names{v4: []netip.Addr{a}}
		}
		return names{fail: NXDomain}
	}
	add(h)
	for i := range hosts {
		w.hostile.own(addr(i))
	}
}

// oneAddress: a thousand hosts, each of a PLD of its own, at one address.
func oneAddress(w *Web, add func(hostileHost)) {
	crowd(w, add, "oneaddress", oneAddressHosts, func(i int) string { return fmt.Sprintf("www.p%d.oneaddress", i) },
		func(int) netip.Addr { return deadAddr(hostileNet, 10_000) },
		func(s *session, q *wish) bool { return s.page(q, links("/2")) })
}

// onePLD: a PLD of three hundred hosts at sixty addresses, each address in a network of its own.
func onePLD(w *Web, add func(hostileHost)) {
	root := w.hostileName("one-pld", 0)[len("www."):]
	crowd(w, add, root, onePLDHosts, func(i int) string { return fmt.Sprintf("h%d.%s", i, root) },
		func(i int) netip.Addr { return deadAddr(hostileNet, 11_000+i%onePLDServers*250) },
		func(s *session, q *wish) bool { return s.page(q, links("/2")) })
}

// oneNetwork: four hundred hosts, each of a PLD of its own, at two hundred addresses of one /24, with slow
// pages.
func oneNetwork(w *Web, add func(hostileHost)) {
	crowd(w, add, "onenetwork", 2*oneNetworkServers, func(i int) string { return fmt.Sprintf("www.p%d.onenetwork", i) },
		func(i int) netip.Addr { return deadAddr(hostileNet, 40_000+i%oneNetworkServers) },
		func(s *session, q *wish) bool { return s.wait(oneNetworkAnswer) && s.page(q, "<html>") })
}

// slowServer: a host with five slow pages.
func slowServer(w *Web, add func(hostileHost)) {
	add(hostileHost{name: w.hostileName("slow-server", 0), serve: func(s *session, q *wish) bool {
		return s.wait(slowAnswer) && s.page(q, links("/1", "/2", "/3", "/4"))
	}})
}

// crawlDelay: a host that asks for a Crawl-delay of seven seconds, and one that asks for a day.
func crawlDelay(w *Web, add func(hostileHost)) {
	for i, seconds := range []string{"7", "86400"} {
		add(hostileHost{name: w.hostileName("crawl-delay", i),
			serve: func(s *session, q *wish) bool { return s.page(q, links("/1", "/2", "/3")) },
			robots: func(s *session, q *wish) bool {
				return s.reply(textHead, "User-agent: *\nCrawl-delay: "+seconds+"\nDisallow:\n")
			}})
	}
}

// AdaptiveURLs is the number of seeds of each host of the scenario "adaptive", and AdaptiveStrain the page
// request at which some of them show strain, counted from 0.
const (
	AdaptiveURLs   = 110
	AdaptiveStrain = 60
)

// adaptive: hosts for a crawler that visits quick hosts sooner. Host 0 answers each request in 20 ms. At request
// AdaptiveStrain host 1 answers once after 3 s, host 2 with 503, host 3 with Retry-After, host 4 with half a
// body, and host 5 breaks off. Each answer of host 6 takes 1 s, except that every tenth comes at once. Host 7
// asks for a Crawl-delay of 5 s.
func adaptive(w *Web, add func(hostileHost)) {
	const usual, page = 20 * time.Millisecond, "<title>page</title>"
	for i, strain := range []func(s *session, q *wish) bool{
		nil,
		func(s *session, q *wish) bool { return s.wait(3*time.Second) && s.page(q, page) },
		func(s *session, _ *wish) bool { return s.status(503, "", "") },
		func(s *session, _ *wish) bool { return s.status(200, "Retry-After: 1\r\n", page) },
		func(s *session, _ *wish) bool {
			s.code = 200
			_ = s.writeString(htmlHead + "Content-Length: 1000\r\n\r\n" + page)
			return false
		},
		func(s *session, _ *wish) bool {
			_ = s.writeString("HTTP/1.1 200 OK\r\n")
			abort(s.conn)
			return false
		},
	} {
		addSeeds(w, add, i, func(s *session, q *wish, n int) bool {
			if n == AdaptiveStrain && strain != nil {
				return strain(s, q)
			}
			return s.wait(usual) && s.page(q, page)
		}, nil)
	}
	addSeeds(w, add, 6, func(s *session, q *wish, n int) bool {
		return (n%10 == 9 || s.wait(time.Second)) && s.page(q, page)
	}, nil)
	addSeeds(w, add, 7, func(s *session, q *wish, _ int) bool { return s.wait(usual) && s.page(q, page) },
		func(s *session, q *wish) bool {
			return s.reply(textHead, "User-agent: *\nCrawl-delay: 5\nDisallow:\n")
		})
}

// addSeeds adds the i-th host of "adaptive".
func addSeeds(w *Web, add func(hostileHost), i int, serve func(s *session, q *wish, n int) bool,
	robots func(s *session, q *wish) bool) {
	var seeds []string
	for k := range AdaptiveURLs {
		seeds = append(seeds, fmt.Sprintf("http://%s/%d", w.hostileName("adaptive", i), k))
	}
	addSite(w, func(h hostileHost) { h.robots = robots; add(h) }, "adaptive", i, serve, seeds...)
}
