package budgets_test

import (
	"fmt"
	"testing"

	"drumbeat/crawl/account"
	"drumbeat/crawl/roomtest"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestLevels: the check of a URL has the level of its host or directory, by the PLDs that link there, also after a
// restart. Links to the main host are links to the PLD.
func TestLevels(t *testing.T) {
	for _, parts := range []state.BudgetParts{state.ByHosts, state.ByDirectories} {
		r := open(roomtest.New(t, 100), 10, &room{parts: parts, pinned: map[uint64]uint32{}})
		key := func(url string) uint64 {
			u := weburl.Split([]byte(url))
			key, _ := parts.KeyOf(r.Saved.Hasher, u.Host, r.Saved.Suffixes.PLDBytes(u.Host), u.Path)
			return key
		}
		var links []star.HostLink // 20 hosts with a link, and 3 with two, the first of them twice
		from := func(n int) uint64 { return uint64(n)<<5 | uint64(n) }
		host := func(n int) string { return fmt.Sprintf("http://w%d.a.test/~d/", n) }
		for n := range 20 {
			links = append(links, star.HostLink{From: from(1), Host: key(host(n))})
		}
		for n := range 3 {
			links = append(links, star.HostLink{From: from(2), Host: key(host(n))})
		}
		links = append(links, links[0]) // the last link is a recent one
		r.Do(func(*account.Tx) error { return r.stage.AddHostLinks(links) })
		if _, err := r.stage.HostLinks.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for _, again := range []bool{false, true} {
			for n := range 21 {
				want := map[bool]uint8{true: 13, false: 8}[n < 3] // 8·log2(1+links)
				if n == 20 {
					want = 0
				}
				if c := r.stage.CheckOf(&weburl.Record{URL: []byte(host(n) + "x")}, nil); c.Level != want ||
					c.Host != key(host(n)) {
					t.Errorf("by %q, again %v: host %d has level %d, key %x; want %d", parts, again, n, c.Level, c.Host,
						want)
				}
			}
			for url, want := range map[string]uint8{"http://www.a.test/x": star.AllLinks, "http://x.a.test/": 0} {
				if c := r.stage.CheckOf(&weburl.Record{URL: []byte(url)}, nil); c.Level != want {
					t.Errorf("by %q, again %v: %s has level %d, want %d", parts, again, url, c.Level, want)
				}
			}
			r.Save()
			r = open(r.Cut(), 10, r)
		}
	}
}
