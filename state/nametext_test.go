package state

import (
	"bytes"
	"errors"
	"testing"

	"drumbeat/drum"
	"drumbeat/weburl"
)

// TestNameForm: AppendName and CheckName must agree on the form of host and PLD names. CheckName must
// refuse a wrong key, and DecodeName other forms.
func TestNameForm(t *testing.T) {
	h := weburl.NewHasher(weburl.Secret{1})
	host := AppendName(nil, 7, []byte("www.a.co.uk"))
	if want := []byte("\x07www.a.co.uk"); !bytes.Equal(host, want) {
		t.Errorf("got %q, want %q", host, want)
	}
	if pld, name, err := CheckName(h, drum.Key(h.HostKey([]byte("www.a.co.uk"))), host); err != nil ||
		string(pld) != "a.co.uk" || string(name) != "www.a.co.uk" {
		t.Errorf("got %q, %q, %v", pld, name, err)
	}
	pld := AppendName(nil, 0, []byte("a.co.uk"))
	if name, host, err := CheckName(h, drum.Key(h.PLDKey([]byte("a.co.uk"))), pld); err != nil ||
		string(name) != "a.co.uk" || host != nil {
		t.Errorf("got %q, %q, %v", name, host, err)
	}
	if _, _, err := CheckName(h, 1, pld); err == nil {
		t.Error("CheckName accepts a name under another key")
	}
	for _, bad := range []string{"", "\x00", "\x04abc", "\x01" + string(make([]byte, 256))} {
		if _, _, err := DecodeName([]byte(bad)); !errors.Is(err, errName) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
