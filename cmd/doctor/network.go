package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"drumbeat/internal/human"
)

// checkPorts: the kernel gives one local port to connections to different servers. So the crawl itself needs
// few; a translator of addresses (NAT) in between may need one for each connection.
func checkPorts(_ context.Context, e *env) []finding {
	span, err := e.numbers("proc/sys/net/ipv4/ip_local_port_range", 2)
	if err != nil {
		return cannot("ports", err)
	}
	most := e.need.Connections + e.need.Idle
	r := finding{Check: "ports", Now: fmt.Sprintf("%s: %d to %d", comma(span[1]-span[0]+1), span[0], span[1]),
		Need: comma(most) + ", one for each connection"}
	r.at(warn, span[1]-span[0]+1 < most, `sysctl -w net.ipv4.ip_local_port_range="1024 65535"`)
	return []finding{r}
}

// tcpTimeWait is the time in seconds for which Linux keeps a closed connection.
const tcpTimeWait = 60

// checkTimeWait: beyond the limit the kernel forgets closed connections early, and says so in its log.
func checkTimeWait(_ context.Context, e *env) []finding {
	most, err := e.number("proc/sys/net/ipv4/tcp_max_tw_buckets")
	if err != nil {
		return cannot("TIME_WAIT", err)
	}
	reuse, err := e.number("proc/sys/net/ipv4/tcp_tw_reuse")
	if err != nil {
		return cannot("TIME_WAIT", err)
	}
	need := int64(e.need.Requests * tcpTimeWait)
	r := finding{Check: "TIME_WAIT", Now: fmt.Sprintf("%s sockets, tcp_tw_reuse=%d", comma(most), reuse),
		Need: fmt.Sprintf("%s: %s/s for %d s", comma(need), number(e.need.Requests), tcpTimeWait)}
	r.at(warn, most < need, fmt.Sprintf("sysctl -w net.ipv4.tcp_max_tw_buckets=%d", power(need)))
	return []finding{r}
}

// checkConntrack: a full table drops packets, so that sites seem to be dead. It does not count those who
// share the host of a container or a firewall in between.
func checkConntrack(_ context.Context, e *env) []finding {
	const dir = "proc/sys/net/netfilter/nf_conntrack_"
	most, err := e.number(dir + "max")
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{Check: "conntrack", Now: "not loaded", Need: "nothing"}}
	}
	if err != nil {
		return cannot("conntrack", err)
	}
	used, err := e.number(dir + "count")
	if err != nil {
		return cannot("conntrack", err)
	}
	wait, err := e.number(dir + "tcp_timeout_time_wait")
	if err != nil {
		wait = 120 // the kernel's default
	}
	open := e.need.Connections + e.need.Idle
	need := used + open + int64(e.need.Requests*float64(wait))
	r := finding{Check: "conntrack", Now: fmt.Sprintf("%s, %s used", human.Counted(most, "entry", "entries"),
		comma(used)),
		Need: fmt.Sprintf("%s: %s open, %s/s for %d s", comma(need), comma(used+open), number(e.need.Requests), wait)}
	fix := []string{fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d", power(need))}
	if wait > 30 {
		fix = append(fix, "sysctl -w net.netfilter.nf_conntrack_tcp_timeout_time_wait=30")
	}
	r.at(fail, most < used+open, fix[0])
	r.at(warn, most < need, fix...)
	return []finding{r}
}

// Flags of a route in /proc/net: it is in use, and it refuses.
const (
	routeUp     = 0x1
	routeReject = 0x200
)

// usable reports whether the flags of a route, in hexadecimal, are those of one that leads somewhere.
func usable(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 64)
	return err == nil && n&routeUp != 0 && n&routeReject == 0
}

// checkIPv4 looks for a default route.
func checkIPv4(_ context.Context, e *env) []finding {
	r := finding{Check: "IPv4", Now: "not used: --ip 6"}
	if e.family == "6" {
		return []finding{r}
	}
	text, err := e.text("proc/net/route")
	if err != nil {
		return cannot("IPv4", err)
	}
	r.Now, r.Need = "no default route", "a default route"
	for line := range strings.Lines(text) { // interface, destination, gateway, flags, …, mask
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" && usable(f[3]) {
			r.Now = "default route by " + f[0]
			return []finding{r}
		}
	}
	r.at(warn, true, "ip route add default via GATEWAY")
	return []finding{r}
}

// checkIPv6 looks for a default route and a public address. Without IPv6 in the kernel the files are missing.
func checkIPv6(_ context.Context, e *env) []finding {
	r := finding{Check: "IPv6", Now: "not used: --ip 4"}
	if e.family == "4" {
		return []finding{r}
	}
	route, err := e.ipv6Route()
	if err != nil {
		return cannot("IPv6", err)
	}
	address, err := e.ipv6Address()
	if err != nil {
		return cannot("IPv6", err)
	}
	r.Need = "a default route and a public address"
	switch {
	case route == "" && e.family == "auto":
		r.Now, r.Need = "no default route: the crawl uses IPv4 only", "nothing: --ip auto"
	case route == "":
		r.Now = "no default route"
		r.at(fail, true, "ip -6 route add default via GATEWAY, or --ip auto")
	case address == "":
		r.Now = "default route by " + route + ", no public address"
		r.at(warn, true, "--ip 4, or give "+route+" a public address")
	default:
		r.Now = address + ", default route by " + route
	}
	return []finding{r}
}

// ipv6Route returns the interface of a default route; "" if there is none.
func (e *env) ipv6Route() (string, error) {
	text, err := e.text("proc/net/ipv6_route")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) { // destination, its length, …, flags, interface
		f := strings.Fields(line)
		if len(f) == 10 && f[1] == "00" && strings.Trim(f[0], "0") == "" && usable(f[8]) && f[9] != "lo" {
			return f[9], nil
		}
	}
	return "", nil
}

// Flags of an address in /proc/net/if_inet6: another machine has it, or that is being checked.
const unusableAddress = 0x08 | 0x40

// ipv6Address returns a public address of this machine; "" if there is none.
func (e *env) ipv6Address() (string, error) {
	text, err := e.text("proc/net/if_inet6")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) { // address, index, length, scope, flags, interface
		f := strings.Fields(line)
		if len(f) != 6 {
			continue
		}
		raw, err1 := hex.DecodeString(f[0])
		flags, err2 := strconv.ParseUint(f[4], 16, 64)
		a, is := netip.AddrFromSlice(raw)
		if err1 == nil && err2 == nil && is && a.IsGlobalUnicast() && !a.IsPrivate() && flags&unusableAddress == 0 {
			return a.String(), nil
		}
	}
	return "", nil
}
