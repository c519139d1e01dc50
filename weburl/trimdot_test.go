package weburl

import (
	"bytes"
	"testing"
)

// TestTrimDot: a host without its dot ends with its PLD, also if it has nothing but dots, which are canonical hosts.
func TestTrimDot(t *testing.T) {
	s := NewSuffixes(false)
	for _, host := range []string{".", "..", "...", "a", "a.", "a.test", "a.test.", "b.a.co.uk.", "co.uk.", "127.0.0.1",
		"127.0.0.1."} {
		if _, err := Canonical("http://" + host + "/"); err != nil {
			continue
		}
		name, pld := TrimDot([]byte(host)), s.PLDBytes([]byte(host))
		if len(name) == 0 || len(pld) == 0 || !bytes.HasSuffix(name, pld) {
			t.Errorf("%q: name %q, PLD %q", host, name, pld)
		}
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
