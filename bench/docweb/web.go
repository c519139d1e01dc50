package docweb

import (
	"net/netip"
	"strings"
	"sync/atomic"
)

// Web is a web with all of its pages. It does not change, except for SetBad.
type Web struct {
	opt      Options
	hosts    []*Host
	ordinary []*Host
	byName   map[string]*Host
	seeds    []*Host

	pages, gone, moved int // of all ordinary hosts

	big, small []block
	foot       block
	bad        atomic.Int32
}

// New makes a web, in some 55 µs of CPU a page.
func New(o Options) (*Web, error) {
	w := outline(o)
	w.makeBlocks()
	return w, w.render()
}

// outline makes a web without its pages.
func outline(o Options) *Web {
	w := &Web{opt: o, byName: map[string]*Host{}}
	w.makeHosts()
	w.findable()
	w.choosePlain()
	return w
}

// Port returns the port of all URLs.
func (w *Web) Port() int { return w.opt.Port }

// Figures describe a web.
type Figures struct {
	Hosts, Addrs, Pages int     // of ordinary hosts
	MeanBytes           float64 // of a page, decoded
	SentBytes           float64 // of a page, as it is sent
	Plain               float64 // share of the bytes that are sent uncompressed, of all decoded bytes
}

// Figures counts hosts, pages and bytes.
func (w *Web) Figures() Figures {
	f := Figures{Hosts: len(w.ordinary), Addrs: min(w.opt.Addrs, w.opt.Hosts), Pages: w.pages}
	for _, h := range w.ordinary {
		for i := range h.store {
			f.MeanBytes += float64(h.store[i].raw)
			f.SentBytes += float64(h.store[i].sent)
			if h.Plain {
				f.Plain += float64(h.store[i].raw)
			}
		}
	}
	f.Plain /= f.MeanBytes
	f.MeanBytes /= float64(w.pages)
	f.SentBytes /= float64(w.pages)
	return f
}

// Seeds returns the URLs of the roots of up to three hosts of middle size.
func (w *Web) Seeds(n int) (list []string) {
	for _, h := range w.seeds[:n] {
		list = append(list, w.url(node{host: h}))
	}
	return list
}

// Hosts returns all hosts, the largest first and bad ones last.
func (w *Web) Hosts() []*Host { return w.hosts }

// DeadNames returns the names that links lead to and that do not exist.
func (w *Web) DeadNames() (list []string) {
	for n := range w.deadNames() {
		list = append(list, deadName(n))
	}
	return list
}

// Bad says which bad hosts exist.
type Bad int32

// Bad hosts: none, the links to them, all of them.
const (
	BadNone Bad = iota
	BadLists
	BadAll
)

// SetBad chooses the bad hosts that Lookup knows. At first there are none.
func (w *Web) SetBad(b Bad) { w.bad.Store(int32(b)) }

// Lookup returns the address of a host; ok is false if there is no such name.
func (w *Web) Lookup(name string) (addr netip.Addr, ok bool) {
	h := w.byName[strings.ToLower(name)]
	if h == nil || h.role == lists && Bad(w.bad.Load()) < BadLists || h.role > lists && Bad(w.bad.Load()) < BadAll {
		return addr, false
	}
	return h.Addr, true
}
