package storedweb

import (
	"bufio"
	"bytes"
	"hash/fnv"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"drumbeat/warc"
)

// lifetime is the TTL of a host without a stored answer.
const lifetime = 5 * time.Minute

// maxLifetime bounds the TTLs of stored answers.
const maxLifetime = 24 * time.Hour

// maxAddrs bounds the addresses of an answer.
const maxAddrs = 32

// resolve answers the name servers' questions.
func (w *Web) resolve(name string) ([]netip.Addr, time.Duration) {
	w.counts.lookups.Add(1)
	s := w.nameSlots.take()
	defer w.nameSlots.give(s)
	var addrs []netip.Addr
	ttl := lifetime
	if e, rec, err := s.capture(dnsPrefix+name, ""); err == nil {
		if s.load(&e, rec) == nil {
			addrs, ttl = parseAnswer(s.block)
		}
	}
	if len(addrs) == 0 {
		addrs, ttl = s.captured(name), lifetime
	}
	if len(addrs) == 0 {
		w.counts.noName.add(name, "")
	}
	for i := range addrs {
		addrs[i] = local(addrs[i])
	}
	return addrs, ttl
}

// parseAnswer reads the block of a DNS record: a time, then lines of a master file.
func parseAnswer(block []byte) (addrs []netip.Addr, ttl time.Duration) {
	ttl = maxLifetime
	lines := bufio.NewScanner(bytes.NewReader(block))
	for lines.Scan() && len(addrs) < maxAddrs {
		f := strings.Fields(lines.Text())
		if len(f) != 5 || f[3] != "A" && f[3] != "AAAA" {
			continue
		}
		a, err := netip.ParseAddr(f[4])
		if err != nil {
			continue
		}
		addrs = append(addrs, a.Unmap())
		if n, err := strconv.ParseUint(f[1], 10, 32); err == nil {
			ttl = min(ttl, time.Duration(n)*time.Second)
		}
	}
	return addrs, ttl
}

// captured returns the address that a capture of a host was fetched from, or one drawn from its name if the
// capture has none; none if no capture is of this host.
func (s *slot) captured(name string) (addrs []netip.Addr) {
	err := s.w.table.find(hostPrefix+name, func(e *entry) (bool, error) {
		rec, err := s.open(e)
		if err != nil {
			return false, nil // the next one may be readable
		}
		if key, ok := urlKey(rec.Get("WARC-Target-URI")); !ok || hostOf(key) != name {
			return false, nil
		}
		addrs = []netip.Addr{addrOf(rec, name)}
		return true, nil
	})
	if err != nil {
		return nil
	}
	return addrs
}

func addrOf(rec *warc.Record, name string) netip.Addr {
	if a, err := netip.ParseAddr(rec.Get("WARC-IP-Address")); err == nil {
		return a.Unmap()
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, name) // never fails
	sum := h.Sum64()
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// local returns the address of 127/8 that stands for an address: one of 253 · 256 · 254, never in 127.0.0/24,
// where name servers are.
func local(a netip.Addr) netip.Addr {
	h := fnv.New64a()
	_, _ = h.Write(a.AsSlice()) // never fails
	sum := h.Sum64()
	sum ^= sum >> 29 // the low bits of FNV are weak for short keys
	return netip.AddrFrom4([4]byte{127, byte(1 + sum%253), byte(sum >> 32), byte(1 + (sum>>16)%254)})
}
