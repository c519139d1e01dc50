package admit

import (
	"slices"
	"testing"
	"time"

	"drumbeat/internal/ports"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestPartLinks: a page's links to other PLDs are links to their hosts, or to the directories at the root of the hosts,
// but not to the main host of a PLD, and not to a part twice in a row.
func TestPartLinks(t *testing.T) {
	h := weburl.NewHasher(weburl.Secret{1})
	suffixes := weburl.NewSuffixes(false)
	sites := NewSites(state.ScopeAll, h.HostKey, nil)
	links := []string{"http://a.test/own/", "http://www.b.test/", "http://www.b.test/~u/1",
		"http://www.b.test/~u/2", "http://www.b.test/~v/", "http://x.b.test/~v/", "http://x.b.test/1",
		"http://x.b.test/2", "https://x.b.test/~v/1"}
	host := func(name string) uint64 { return h.HostKey([]byte(name)) }
	dir := func(name, dir string) uint64 { return h.DirectoryKey(host(name), []byte(dir)) }
	for _, c := range []struct {
		parts state.BudgetParts
		want  []uint64
	}{
		{state.ByPLDs, nil},
		{state.ByHosts, []uint64{host("x.b.test")}},
		{state.ByDirectories, []uint64{dir("www.b.test", "~u"), dir("www.b.test", "~v"), dir("x.b.test", "~v"),
			host("x.b.test"), dir("x.b.test", "~v")}},
	} {
		b := NewBatch(&Policy{Hasher: h, Suffixes: suffixes, Lists: &Lists{Suffixes: suffixes}, Sites: sites,
			MaxDepth: -1, Ports: ports.New(ports.Of(80, 443)...), Parts: c.parts})
		page := []byte("http://a.test/")
		b.Start(page, page, 1, 0, time.Unix(1, 0))
		for _, url := range links {
			b.Add([]byte(url))
		}
		var want []star.HostLink
		for _, key := range c.want {
			want = append(want, star.HostLink{From: h.PLDKey([]byte("a.test")), Host: key})
		}
		if !slices.Equal(b.HostLinks, want) {
			t.Errorf("budgets of %s: links %x, want %x", c.parts.Name(), b.HostLinks, want)
		}
		if len(b.Edges) != 1 {
			t.Errorf("budgets of %s: %d edges between PLDs, want 1", c.parts.Name(), len(b.Edges))
		}
	}
}
