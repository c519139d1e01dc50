package warc

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Kinds of captures. Captures that are not pages are in the same files and index and are labelled, because a
// page may have the URL of a robots.txt.
const (
	KindPage   = ""
	KindRobots = "robots" // fetched as a robots.txt, or the target of its redirect
	KindDNS    = "dns"    // a DNS answer
	// KindRendered is a page as a browser rendered it.
	KindRendered = "rendered"
	// KindScript is what the scripts of a rendered page requested, or such a script itself.
	KindScript = "script"
)

// dnsScheme begins the URLs of DNS answers.
const dnsScheme = "dns:"

// Lookup is a DNS answer. It is stored as Heritrix does: a response record of dns:<host> whose block is the
// 14-digit time followed by the addresses as lines of a master file.
type Lookup struct {
	// Host is the name looked up.
	Host string
	// Date is when the answer arrived.
	Date time.Time
	// Server is the name server that answered; the zero Addr if unknown.
	Server netip.Addr
	// TTL is the least TTL of the addresses and the aliases on the way.
	TTL time.Duration
	// Addrs are the addresses of Host.
	Addrs []netip.Addr
}

// PrepareLookup encodes an answer into p and drops p's earlier content.
func (e *Encoder) PrepareLookup(p *Prepared, x *Lookup) error {
	if x.Host == "" || len(x.Addrs) == 0 {
		return fmt.Errorf("warc: prepare lookup of %q: no name or no address", x.Host)
	}
	p.buf, p.index = p.buf[:0], p.index[:0]
	e.url = appendURL(append(e.url[:0], dnsScheme...), x.Host)
	e.setDate(x.Date)
	e.nextID(&e.response)
	e.block = append(append(e.block[:0], e.stamp...), '\n')
	for _, a := range x.Addrs {
		kind := "AAAA"
		if a = a.Unmap().WithZone(""); a.Is4() {
			kind = "A"
		}
		e.block = append(append(e.block, e.url[len(dnsScheme):]...), ".\t"...)
		e.block = strconv.AppendInt(e.block, int64(x.TTL/time.Second), 10)
		e.block = append(append(append(e.block, "\tIN\t"...), kind...), '\t')
		e.block = append(a.AppendTo(e.block), '\n')
	}
	e.sha.Reset()
	e.sha.Write(e.block)
	e.appendDigest(e.payload[:0])
	p.response.offset = 0
	e.begin(beginWhole)
	e.text = append(append(e.text, e.response[:]...), '>')
	if x.Server.IsValid() {
		e.field(fieldIP)
		e.text = x.Server.Unmap().WithZone("").AppendTo(e.text)
	}
	e.field(fieldPayload)
	e.text = append(e.text, e.payload[:]...)
	e.member(p, typeDNS, e.block, nil, false)
	p.response.length = int64(len(p.buf))
	p.index = e.appendIndexHead(p.index, &Exchange{MIME: dnsType, Status: dnsStatus})
	p.indexHead = len(p.index)
	return nil
}

// The MIME type of a DNS answer, and the status that index tools use for it.
const (
	dnsType   = "text/dns"
	dnsStatus = 200
)
