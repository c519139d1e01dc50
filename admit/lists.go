package admit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/internal/nat64"
	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// Lists are the scope rules and the blacklist in force. They are safe for concurrent use during a reload.
type Lists struct {
	Rules, Blacklist atomic.Pointer[scope.Set]
	Suffixes         *weburl.Suffixes
	NAT64            []netip.Prefix // of translators (package internal/nat64); does not change
}

// ReadRules reads and compiles rule files of one kind, after the rules of first. It returns nil without
// files and rules. keepEscapes is Options.KeepEscapes. Errors in the rules are *scope.Faults.
func ReadRules(
	fsys disk.FS, list scope.List, suffixes *weburl.Suffixes, names []string, keepEscapes bool, first ...scope.Source,
) (*scope.Set, error) {
	if len(names)+len(first) == 0 {
		return nil, nil
	}
	sources := first
	var faults []error
	left := int64(scope.MaxBytes)
	for _, name := range names {
		size, err := fsys.Size(name)
		if err == nil && size > left {
			err = fmt.Errorf("%s has %d bytes; the limit for all rules together is %d bytes", name, size,
				int64(scope.MaxBytes))
		}
		var text []byte
		if err == nil {
			left -= size
			text, err = disk.ReadFile(fsys, name)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("crawl: read rules: %w", err))
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

// Blocked returns rules of a blacklist as a source, none without rules. name is where they come from.
func Blocked(name string, rules []string) []scope.Source {
	if len(rules) == 0 {
		return nil
	}
	return []scope.Source{{Name: name, Text: []byte(strings.Join(rules, "\n") + "\n")}}
}

// BlockedHost reports whether the blacklist names a host, spelled as in a canonical URL.
func (l *Lists) BlockedHost(host []byte) bool {
	b := l.Blacklist.Load()
	return b != nil && b.Ruling(b.Host(host, l.Suffixes.PLDBytes(host))) == scope.Exclude
}

// BlockedURL reports whether the blacklist names the host of a URL.
func (l *Lists) BlockedURL(url []byte) bool {
	return l.Blacklist.Load() != nil && l.BlockedHost(weburl.Split(url).Host)
}

// BlockedAddr reports whether the blacklist names a network that contains an address, or the IPv4 address in it
// of a server behind NAT64.
func (l *Lists) BlockedAddr(a netip.Addr) bool {
	b := l.Blacklist.Load()
	if !b.HasNets() {
		return false
	}
	for _, p := range l.NAT64 {
		if p.Contains(a) {
			if v4 := nat64.IPv4(p, a); v4.IsValid() && b.Ruling(b.Addr(v4)) == scope.Exclude {
				return true
			}
		}
	}
	return b.Ruling(b.Addr(a)) == scope.Exclude
}

// Open returns the addresses that are not blocked; addrs itself if none is.
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

// Closed reports whether there are addresses and all are blocked.
func (l *Lists) Closed(addrs []netip.Addr) bool { return len(addrs) > 0 && len(l.Open(addrs)) == 0 }
