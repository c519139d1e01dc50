package main

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"drumbeat/bench/docweb"
	"drumbeat/internal/simweb"
)

// The webs of discover.
const (
	webDiscover = "discover"
	webLarge    = "discover-full"
	webSmall    = "discover-small"
)

// discoverFlags describe the web of discover.
type discoverFlags struct {
	Web      string `enum:"discover,discover-full,discover-small" default:"discover" help:"Web of 48, 400 or 24 hosts."`
	Seeds    int    `enum:"1,2,3" default:"1" help:"Start from the root pages of N hosts: 1, 2 or 3."`
	BadHosts bool   `help:"Add hosts that are slow, silent, or endless with a Crawl-delay of an hour."`
}

// discoverServers are the goroutines that serve the web.
type discoverServers struct {
	web    *docweb.Web
	server *docweb.Server
	dns    *simweb.NameServer
	port   int
}

// start makes and serves the web.
func (f *discoverFlags) start() (*discoverServers, error) {
	o := map[string]func() docweb.Options{webDiscover: docweb.Discover, webLarge: docweb.DiscoverFull,
		webSmall: docweb.DiscoverSmall}[f.Web]()
	o.Bad = f.BadHosts
	server, err := docweb.Serve(o)
	if err != nil {
		return nil, err
	}
	w := server.Web()
	s := &discoverServers{web: w, server: server, port: w.Port()}
	s.dns, err = simweb.StartNameServer(0, func(name string) ([]netip.Addr, time.Duration) {
		if addr, ok := w.Lookup(name); ok {
			return []netip.Addr{addr}, answerTTL
		}
		return nil, answerTTL
	})
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	return s, nil
}

func (s *discoverServers) close() error { return errors.Join(s.dns.Close(), s.server.Close()) }

// crawlFlags returns drumbeat's flags for this web.
func (s *discoverServers) crawlFlags() []string {
	return []string{"--host-delay", "0s", "--server-delay", "0s", "--resolver", s.dns.Addr().String(), "--allow-net",
		"127.0.0.0/8", "--ports", strconv.Itoa(s.port)}
}
