package admit

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// Lists are the scope rules and the blacklist in force. A reload replaces them while others ask.
type Lists struct {
	Rules, Blacklist atomic.Pointer[scope.Set]
	Suffixes         *weburl.Suffixes
}

// ReadRules reads and compiles files of one kind; nil for no files. keepEscapes is Options.KeepEscapes. Faults in them are *scope.Faults.
func ReadRules(fsys disk.FS, list scope.List, suffixes *weburl.Suffixes, names []string, keepEscapes bool) (*scope.Set, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var sources []scope.Source
	var faults []error
	left := int64(scope.MaxBytes)
	for _, name := range names {
		size, err := fsys.Size(name)
		if err == nil && size > left {
			err = fmt.Errorf("%d bytes; all rules together have at most %d", size, int64(scope.MaxBytes))
		}
		var text []byte
		if err == nil {
			left -= size
			text, err = disk.ReadFile(fsys, name)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("crawl: read rules of %s: %w", name, err))
			continue
		}
		sources = append(sources, scope.Source{Name: name, Text: text})
	}
	parse := scope.Parse
	if keepEscapes {
		parse = scope.ParseKept
	}
	set, err := parse(list, suffixes, sources...)
	if err != nil || len(faults) > 0 {
		return nil, errors.Join(append(faults, err)...)
	}
	return set, nil
}

// BlockedHost tells whether the blacklist names a host as it stands in a canonical URL.
func (l *Lists) BlockedHost(host []byte) bool {
	b := l.Blacklist.Load()
	return b != nil && b.Ruling(b.Host(host, l.Suffixes.PLDBytes(host))) == scope.Exclude
}

// BlockedURL tells whether it names the host of a URL.
func (l *Lists) BlockedURL(url []byte) bool {
	return l.Blacklist.Load() != nil && l.BlockedHost(weburl.Split(url).Host)
}

// BlockedAddr tells whether it names a network that holds an address.
func (l *Lists) BlockedAddr(a netip.Addr) bool {
	b := l.Blacklist.Load()
	return b.HasNets() && b.Ruling(b.Addr(a)) == scope.Exclude
}

// Open returns the addresses that aren't blocked: the same slice if none is.
func (l *Lists) Open(addrs []netip.Addr) []netip.Addr {
	for i, a := range addrs {
		if l.BlockedAddr(a) {
			left := append([]netip.Addr(nil), addrs[:i]...)
			for _, a := range addrs[i+1:] {
				if !l.BlockedAddr(a) {
					left = append(left, a)
				}
			}
			return left
		}
	}
	return addrs
}

// Closed tells whether there are addresses, and all are blocked.
func (l *Lists) Closed(addrs []netip.Addr) bool { return len(addrs) > 0 && len(l.Open(addrs)) == 0 }
