package flags

import "testing"

func TestFraction(t *testing.T) {
	for text, want := range map[string]Fraction{"1/9": 1. / 9, "0.15": 0.15, "59": 59} {
		var f Fraction
		if err := f.UnmarshalText([]byte(text)); err != nil || f != want {
			t.Errorf("%s: got %v, %v, want %v", text, f, err, want)
		}
	}
	for _, bad := range []string{"", "1/0", "0/0", "x", "-1", "1/2/3", "1e30"} {
		var f Fraction
		if err := f.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, f)
		}
	}
}

// TestSizes: decimal and binary units are exact, and reading String gives the same size.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		text string
		want Size
		back string
	}{{"2MiB", 2 << 20, "2MiB"}, {"2MB", 2e6, "2MB"}, {"1GiB", 1 << 30, "1GiB"}, {"1GB", 1e9, "1GB"},
		{"8TB", 8e12, "8TB"}, {"64KiB", 64 << 10, "64KiB"}, {"64kB", 64e3, "64kB"}, {"4096", 4096, "4KiB"},
		{"1.5GiB", 3 << 29, "1536MiB"}, {"0", 0, "0B"}, {"7B", 7, "7B"}, {"2 MiB", 2 << 20, "2MiB"},
		{"2mib", 2 << 20, "2MiB"}} {
		var s, again Size
		if err := s.UnmarshalText([]byte(c.text)); err != nil || s != c.want || s.String() != c.back {
			t.Errorf("%s: got %d, %q, %v, want %d, %q", c.text, s, s.String(), err, c.want, c.back)
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s: read again got %d, %v, want %d", s, again, err, s)
		}
	}
	for _, bad := range []string{"", "x", "-1", "3x", "1e99TB", "MiB", "1 2", "99999999999TB"} {
		var s Size
		if err := s.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %d, want an error", bad, s)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]Count{"0": 0, "7": 7, "1e6": 1e6, "20_000": 20000, "2.5e3": 2500} {
		var c Count
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%s: got %d, %v, want %d", text, c, err, want)
		}
	}
	for _, bad := range []string{"", "-1", "1.5", "x", "1e30", "NaN", "Inf"} {
		var c Count
		if err := c.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %d, want an error", bad, c)
		}
	}
}

// TestCodings: values of --accept-encoding, and what they mean for pages and sitemaps.
func TestCodings(t *testing.T) {
	for text, want := range map[string]struct {
		c        Codings
		sitemaps string
	}{"gzip": {Codings{Header: "gzip"}, "gzip"}, "auto": {Codings{Auto: true, Header: "gzip"}, "gzip"},
		"br,gzip": {Codings{Header: "br, gzip"}, "gzip"}, "br": {Codings{Header: "br"}, "identity"},
		"identity": {Codings{Header: "identity"}, "identity"}} {
		var c, again Codings
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want.c || c.ForSitemaps() != want.sitemaps {
			t.Errorf("%s: got %v, for sitemaps %s, %v, want %v", text, c, c.ForSitemaps(), err, want)
		}
		if err := again.UnmarshalText([]byte(c.String())); err != nil || again != c {
			t.Errorf("%s: read again got %v, %v", text, again, err)
		}
	}
	for _, bad := range []string{"", "auto,br", "gzip;q=1", "GZIP,gzip"} {
		var c Codings
		if err := c.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, c)
		}
	}
}

// TestNAT64Prefix: prefixes of RFC 6052 and nothing else.
func TestNAT64Prefix(t *testing.T) {
	var p NAT64
	if err := p.UnmarshalText([]byte("2001:db8:64::/96")); err != nil || p.String() != "2001:db8:64::/96" {
		t.Errorf("got %v, %v", p, err)
	}
	for _, bad := range []string{"", "2001:db8::", "10.0.0.0/8", "2001:db8::/33", "2001:db8::1/64",
		"2001:db8:0:0:ff00::/96", "::ffff:0:0/96"} {
		if err := p.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, p)
		}
	}
}

// TestLevel: -q and -v set the level of the log, and -q never lowers it.
func TestLevel(t *testing.T) {
	for want, logging := range map[string]Logging{
		"INFO": {LogLevel: "info"}, "WARN": {LogLevel: "info", Quiet: true}, "ERROR": {LogLevel: "error", Quiet: true},
		"DEBUG": {LogLevel: "warn", Verbose: true},
	} {
		if got := logging.Level().String(); got != want {
			t.Errorf("%+v: got %s, want %s", logging, got, want)
		}
	}
}
