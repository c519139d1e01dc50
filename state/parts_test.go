package state_test

import (
	"encoding/json"
	"testing"

	"drumbeat/state"
	"drumbeat/weburl"
)

// TestBudgetParts: URLs have the key of one part if they are in the same directory at the root of the same host.
func TestBudgetParts(t *testing.T) {
	h := weburl.NewHasher(weburl.Secret{1})
	for _, c := range []struct {
		parts            state.BudgetParts
		host, path, same string // same: host and directory of the part
		main             bool
	}{
		{state.ByHosts, "a.test", "/x/y", "a.test", true},
		{state.ByHosts, "www.a.test.", "/x/y", "www.a.test", true},
		{state.ByHosts, "b.a.test", "/x/y", "b.a.test", false},
		{state.ByDirectories, "a.test", "/", "a.test", true},
		{state.ByDirectories, "a.test", "/x", "a.test", true},
		{state.ByDirectories, "a.test", "/x?q=/y/", "a.test", true},
		{state.ByDirectories, "a.test", "", "a.test", true},
		{state.ByDirectories, "a.test", "//x/", "a.test", true},
		{state.ByDirectories, "a.test", "/x/", "a.test/x", false},
		{state.ByDirectories, "a.test.", "/x/y/z?q", "a.test/x", false},
		{state.ByDirectories, "a.test", "/y/", "a.test/y", false},
		{state.ByDirectories, "b.a.test", "/x/", "b.a.test/x", false},
		{state.ByDirectories, "b.a.test", "/x", "b.a.test", false},
	} {
		key, main := c.parts.KeyOf(h, []byte(c.host), []byte("a.test"), []byte(c.path))
		if want := partKey(h, c.same); key != want || main != c.main {
			t.Errorf("%s: %s%s has key %x, main %v; want %x of %s, %v", c.parts, c.host, c.path, key, main, want,
				c.same, c.main)
		}
	}
	keys := map[uint64]string{}
	for _, part := range []string{"a.test", "b.a.test", "a.test/x", "a.test/y", "b.a.test/x"} {
		if other, is := keys[partKey(h, part)]; is {
			t.Errorf("%s and %s have one key", part, other)
		}
		keys[partKey(h, part)] = part
	}
}

func partKey(h *weburl.Hasher, part string) uint64 {
	for i := range part {
		if part[i] == '/' {
			return h.DirectoryKey(h.HostKey([]byte(part[:i])), []byte(part[i+1:]))
		}
	}
	return h.HostKey([]byte(part))
}

// TestBudgetPartsFrozen: a manifest keeps the parts; true is of a version that had only hosts.
func TestBudgetPartsFrozen(t *testing.T) {
	for text, want := range map[string]state.BudgetParts{`{}`: state.ByPLDs, `{"hosts":false}`: "bad",
		`{"hosts":true}`: state.ByHosts, `{"hosts":"hosts"}`: state.ByHosts,
		`{"hosts":"directories"}`: state.ByDirectories} {
		var f state.Frozen
		if err := json.Unmarshal([]byte(text), &f); (err != nil) != (want == "bad") || err == nil && f.Parts != want {
			t.Errorf("%s: %q, %v; want %q", text, f.Parts, err, want)
		}
	}
	for _, parts := range []state.BudgetParts{state.ByPLDs, state.ByHosts, state.ByDirectories} {
		data, err := json.Marshal(state.Frozen{Parts: parts})
		var f state.Frozen
		if err != nil || json.Unmarshal(data, &f) != nil || f.Parts != parts {
			t.Errorf("%q: %s has %q, %v", parts, data, f.Parts, err)
		}
	}
}
