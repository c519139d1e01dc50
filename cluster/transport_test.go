package cluster

import (
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"a": true, "nodes.0": true, "net.10-0-0-0/24": true, "A_b=.c": true, strings.Repeat("x", MaxKeyBytes): true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, "a b": false, "a.*": false,
		">": false, "ä": false, "a:b": false, strings.Repeat("x", MaxKeyBytes+1): false,
	} {
		if got := CheckKey(key) == nil; got != want {
			t.Errorf("CheckKey(%q) accepts: %v, want %v", key, got, want)
		}
	}
	for pattern, want := range map[string]bool{
		">": true, "a": true, "a.>": true, "*": true, "want.*.3": true, "*.>": true,
		"": false, "a.>.b": false, "a*": false, ">.a": false, "a.": false, ">.>": false, ".>": false,
	} {
		if got := CheckPattern(pattern) == nil; got != want {
			t.Errorf("CheckPattern(%q) accepts: %v, want %v", pattern, got, want)
		}
	}
	for kind, want := range map[string]bool{"robots": true, "": false, "a.b": false, "*": false,
		strings.Repeat("x", 41): false} {
		if got := CheckKind(kind) == nil; got != want {
			t.Errorf("CheckKind(%q) accepts: %v, want %v", kind, got, want)
		}
	}
	for n, want := range map[int]bool{0: true, MaxNodes - 1: true, -1: false, MaxNodes: false} {
		if got := CheckNode(n) == nil; got != want {
			t.Errorf("CheckNode(%d) accepts: %v, want %v", n, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{">", "a", true}, {">", "a.b.c", true},
		{"a", "a", true}, {"a", "b", false}, {"a", "a.b", false}, {"a.b", "a", false},
		{"a.>", "a", false}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "b.c", false},
		{"*", "a", true}, {"*", "a.b", false}, {"want.*.3", "want.x.3", true}, {"want.*.3", "want.x.4", false},
		{"want.*.3", "want.x", false}, {"*.>", "a", false}, {"*.>", "a.b", true},
	} {
		if got := Match(c.pattern, c.key); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.key, got, c.want)
		}
	}
}
