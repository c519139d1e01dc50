package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"drumbeat/dnscache"
)

// resolver looks up addresses of names and names of addresses.
type resolver struct {
	servers []netip.AddrPort
	v4, v6  *dnscache.Resolver
}

func newResolver(servers []netip.AddrPort, panicked func(string, any, []byte)) (*resolver, error) {
	r := &resolver{servers: servers}
	o := dnscache.Options{Servers: servers, Sockets: 1, MixCase: true, FailureTTL: dnscache.NoFailureCache,
		Timeouts: []time.Duration{time.Second, time.Second}, Panicked: panicked, Family: dnscache.Family4}
	var err error
	if r.v4, err = dnscache.New(o); err != nil {
		return nil, fmt.Errorf("--resolver: %w", err)
	}
	o.Family = dnscache.Family6
	if r.v6, err = dnscache.New(o); err != nil {
		r.v4.Close()
		return nil, fmt.Errorf("--resolver: %w", err)
	}
	return r, nil
}

func (r *resolver) close() {
	r.v4.Close()
	r.v6.Close()
}

// lookupError is a failed lookup.
type lookupError struct{ name, cause string }

func (e *lookupError) Error() string { return e.name + ": " + e.cause }

// lookup returns all addresses of a name, IPv4 first.
func (r *resolver) lookup(ctx context.Context, name string) (list []netip.Addr, err error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	name = strings.TrimSuffix(name, ".")
	var failed error
	for _, dns := range []*dnscache.Resolver{r.v4, r.v6} {
		answer, err := dns.LookupFresh(ctx, name, name)
		if !answered(err) {
			failed = err
		}
		list = append(list, answer.Addrs...)
	}
	switch {
	case len(list) > 0:
		return list, nil
	case failed != nil:
		return nil, &lookupError{name, "the name servers do not answer"}
	}
	return nil, &lookupError{name, "the name has no address"}
}

const (
	ptrTime  = 2 * time.Second // for an answer of one server, which is not asked again
	ptrBytes = 4096
	ptrNames = 8 // names of an address that count
)

// names returns the names of an address (PTR records), none if it has none. Two servers are asked at most.
func (r *resolver) names(ctx context.Context, a netip.Addr) (names []string, err error) {
	name, err := dnsmessage.NewName(reverseName(a))
	if err != nil {
		return nil, &lookupError{a.String(), "no name for reverse DNS"}
	}
	q := dnsmessage.Question{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}
	for _, server := range r.servers[:min(len(r.servers), 2)] {
		if names, err = askPTR(ctx, server, q); err == nil {
			return names, nil
		}
	}
	return nil, &lookupError{a.String(), "the name servers do not answer"}
}

// reverseName returns the name below in-addr.arpa or ip6.arpa (RFC 1035, 3.5; RFC 3596, 2.5).
func reverseName(a netip.Addr) string {
	var b strings.Builder
	raw := a.Unmap().AsSlice()
	for i := len(raw) - 1; i >= 0; i-- {
		if len(raw) == 4 {
			fmt.Fprintf(&b, "%d.", raw[i])
		} else {
			fmt.Fprintf(&b, "%x.%x.", raw[i]&15, raw[i]>>4)
		}
	}
	if len(raw) == 4 {
		return b.String() + "in-addr.arpa."
	}
	return b.String() + "ip6.arpa."
}

// askPTR asks one server, by UDP and, if the answer does not fit, by TCP.
func askPTR(ctx context.Context, server netip.AddrPort, q dnsmessage.Question) ([]string, error) {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{q}}
	query, err := m.Pack()
	if err != nil {
		return nil, err
	}
	for _, network := range []string{"udp", "tcp"} {
		answer, err := exchangeDNS(ctx, network, server, query, m.ID)
		if err != nil {
			return nil, err
		}
		if answer.Truncated && network == "udp" {
			continue
		}
		return ptrNamesOf(answer, q)
	}
	return nil, errors.New("the answer was cut off")
}

// exchangeDNS sends a query and reads the message with its id.
func exchangeDNS(ctx context.Context, network string, server netip.AddrPort, query []byte, id uint16) (
	*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, ptrTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if network == "tcp" {
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, ptrBytes)
	for range 8 { // late answers to other questions are possible, but not many
		n := 0
		if network == "tcp" {
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return nil, err
			}
			n, err = io.ReadFull(conn, buf[:min(int(binary.BigEndian.Uint16(size[:])), len(buf))])
		} else {
			n, err = conn.Read(buf)
		}
		if err != nil {
			return nil, err
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err == nil && m.ID == id && m.Response {
			return &m, nil
		}
	}
	return nil, errors.New("no answer to the question")
}

// ptrNamesOf returns the names in an answer.
func ptrNamesOf(m *dnsmessage.Message, q dnsmessage.Question) (names []string, err error) {
	if len(m.Questions) != 1 || !strings.EqualFold(m.Questions[0].Name.String(), q.Name.String()) {
		return nil, errors.New("the answer is for another question")
	}
	if m.RCode != dnsmessage.RCodeSuccess && m.RCode != dnsmessage.RCodeNameError {
		return nil, fmt.Errorf("the answer has code %d", m.RCode)
	}
	for _, record := range m.Answers {
		if ptr, ok := record.Body.(*dnsmessage.PTRResource); ok && len(names) < ptrNames {
			names = append(names, strings.ToLower(strings.TrimSuffix(ptr.PTR.String(), ".")))
		}
	}
	return names, nil
}
