package cluster

import (
	"errors"
	"strings"
	"testing"
)

// TestOrder: an order is what was encoded, at its own key and with its own secret alone.
func TestOrder(t *testing.T) {
	t.Parallel()
	secret, id := []byte("0123456789abcdef"), strings.Repeat("0a", 8)
	orders := []*Order{{Stamp: 5, Who: "eve", Rule: "- host a.example", Off: true},
		{Stamp: 6, ID: id, Reason: "a test", Later: true, Targets: []string{"http://a.example/?b&c", "pld:b.example"}}}
	for _, o := range orders {
		data, err := o.Encode(secret)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeOrder(o.Key(), data, secret)
		if err != nil || got.Key() != o.Key() || got.Stamp != o.Stamp || got.Off != o.Off || got.Later != o.Later ||
			strings.Join(got.Targets, " ") != strings.Join(o.Targets, " ") {
			t.Errorf("%+v, want %+v: %v", got, o, err)
		}
		for _, other := range orders {
			if _, err := DecodeOrder(other.Key(), data, secret); other != o && !errors.Is(err, ErrOrder) {
				t.Errorf("at the key %s: %v", other.Key(), err)
			}
		}
		if _, err := DecodeOrder(o.Key(), data, []byte("another secret")); !errors.Is(err, ErrOrder) {
			t.Errorf("with another secret: %v", err)
		}
		forged := []byte(strings.Replace(string(data), `"stamp":`, `"stamp":9`, 1))
		if _, err := DecodeOrder(o.Key(), forged, secret); !errors.Is(err, ErrOrder) {
			t.Errorf("with another time: %v", err)
		}
		later := []byte(strings.Replace(string(data), "{", `{"v":99,`, 1))
		if _, err := DecodeOrder(o.Key(), later, secret); !errors.Is(err, ErrVersion) {
			t.Errorf("of a later version: %v", err)
		}
	}
	large := &Order{Stamp: 1, ID: id, Targets: []string{strings.Repeat("&", MaxOrderBytes/2)}}
	if _, err := large.Encode(secret); err != nil {
		t.Errorf("half the limit: %v", err)
	}
	large.Targets[0] += large.Targets[0]
	if _, err := large.Encode(secret); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than the limit: %v", err)
	}
	for _, bad := range []Order{{Stamp: 1, ID: id}, {Stamp: 1, ID: "A" + id[1:], Targets: []string{"x"}},
		{Rule: "- host a"}, {Stamp: 1, Targets: []string{"x"}}} {
		data, err := bad.Encode(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeOrder(bad.Key(), data, secret); !errors.Is(err, ErrOrder) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// FuzzDecodeOrder: no value that others write is taken for an order.
func FuzzDecodeOrder(f *testing.F) {
	f.Add([]byte(`{"order":{"stamp":1,"rule":"- host a"},"mac":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := DecodeOrder((&Order{Rule: "- host a"}).Key(), data, []byte("secret")); err == nil {
			t.Errorf("%+v", o)
		}
	})
}
