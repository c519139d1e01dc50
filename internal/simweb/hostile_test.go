package simweb

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
)

// hostileWeb returns a small web with the given scenarios.
func hostileWeb(t *testing.T, names ...string) *Web {
	t.Helper()
	w, err := New(Options{Seed: 1, PLDs: 1, Hosts: 2, Pages: 4, LinksPerPage: 2, Hostile: names})
	must(t, err)
	return w
}

// TestHostileHostsAreApart: with all scenarios active, the ordinary web and its expected sets are
// unchanged, each host has a name, an address and a seed, and an unknown scenario is an error.
func TestHostileHostsAreApart(t *testing.T) {
	plain, w := hostileWeb(t), hostileWeb(t, HostileScenarios()...)
	if a, b := plain.Expected("drumbeat").Fetched, w.Expected("drumbeat").Fetched; a != b {
		t.Errorf("%d URLs expected with hostile hosts, %d without", b, a)
	}
	for _, name := range HostileScenarios() {
		one := hostileWeb(t, name)
		if len(one.HostileSeeds()) == 0 {
			t.Errorf("%s has no seeds", name)
		}
		for _, h := range one.hostile.hosts {
			if one.HostileScenario(h.name) != name {
				t.Errorf("%s is of scenario %q, want %q", h.name, one.HostileScenario(h.name), name)
			}
		}
	}
	if _, err := New(Options{Hostile: []string{"nice"}}); err == nil {
		t.Error("an unknown scenario was taken")
	}
}

// TestHostileBytesAreCounted: an endless body ends when the client closes, and the log counts the bytes sent.
func TestHostileBytesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hostileWeb(t, "endless-body")
		name := w.hostileName("endless-body", 0)
		addrs, err := w.LookupHost(name)
		must(t, err)
		var conn net.Conn
		if conn, err = w.Dial(t.Context(), netip.AddrPortFrom(addrs[0], 80)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+name+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		synctest.Wait()
		s := w.Log().Snapshot()
		if c := s.Hostile[name]; c.Requests != 1 || c.Bytes < 1<<20 || c.Bytes > 1<<20+32<<10 {
			t.Errorf("got %+v, want one request and a little over 1 MiB", c)
		}
		if err := s.CheckOnce(); err != nil {
			t.Error(err)
		}
	})
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
