package polite_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"drumbeat/polite"
)

// TestServersDoNotCollide: deferred items of an IPv4 server do not queue behind those of an IPv6 network
// chosen so that a hash once mapped both to one number.
func TestServersDoNotCollide(t *testing.T) {
	victim := v4(1)
	b := victim.As16()
	lo := binary.BigEndian.Uint64(b[8:])
	inverse := uint64(0x9e3779b97f4a7c15) // of the hash's multiplier modulo 2^64, by Newton's iteration
	for range 6 {
		inverse *= 2 - 0x9e3779b97f4a7c15*inverse
	}
	var evil [16]byte
	binary.BigEndian.PutUint64(evil[:], lo*inverse)
	opt := paper()
	opt.MaxPerServer, opt.Ahead = 1, 1
	due := func(crowd int) time.Duration {
		s := polite.New(opt, t0)
		admit(t, s, t0, item(1, 1, netip.AddrFrom16(evil)))
		admit(t, s, t0, item(2, 2, victim))
		for i := range crowd {
			s.Admit(t0, item(100+i, 100+i, netip.AddrFrom16(evil)))
		}
		return s.Admit(t0, item(3, 3, victim)).Due.Sub(t0)
	}
	if got, want := due(1000), due(0); got != want {
		t.Errorf("an item of the victim is put off by %v with a thousand of another server's before it, by %v without",
			got, want)
	}
}

// TestMaxRobotsPerServer: a server has at most this number of robots items, however short its delay. Others
// are deferred, each to its own time.
func TestMaxRobotsPerServer(t *testing.T) {
	opt := paper()
	opt.ServerDelay, opt.ServerDelayMin = ms(1), ms(1)
	opt.MaxRobotsPerServer = 20
	s := polite.New(opt, t0)
	admitted := 0
	last := t0
	for i := range 100 {
		it := item(i, i, v4(1))
		it.Robots = true
		v := s.Admit(t0, it)
		if v.Kind == polite.Admitted {
			admitted++
		} else if v.Why != polite.RobotsShare || !v.Due.After(last) {
			t.Errorf("item %d: got %+v, want one later than %v", i, v, last)
		} else {
			last = v.Due
		}
	}
	if admitted != 20 {
		t.Errorf("%d items admitted, want 20", admitted)
	}
}
