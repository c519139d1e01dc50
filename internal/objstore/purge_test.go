package objstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

// putAs puts a file of its own under a key, over what is there.
func putAs(t *testing.T, b objstore.Bucket, key, text string) {
	t.Helper()
	u := &objstore.Uploader{Bucket: b, Replace: true}
	sums, err := u.Sum(t.Context(), strings.NewReader(text), int64(len(text)))
	must(t, err)
	must(t, u.Put(t.Context(), key, strings.NewReader(text), sums, objstore.Upload{}, func(objstore.Upload) {}))
}

// TestPurge deletes objects from a real server that keeps no versions, and from one that does.
func TestPurge(t *testing.T) {
	s := objtest.Serve(t)
	s.Setenv(t)
	b, err := objstore.OpenS3(t.Context(), s.Place)
	must(t, err)
	purge := func(key string, scope objstore.Scope) objstore.Purged {
		t.Helper()
		p, err := objstore.Purge(t.Context(), b, key, scope)
		must(t, err)
		return p
	}
	for _, versioned := range []bool{false, true} {
		if versioned {
			s.Keep(t)
		}
		if got, err := b.Versioned(t.Context()); got != versioned || err != nil {
			t.Fatalf("versioned %v, %v", got, err)
		}
		for i := range 3 {
			putAs(t, b, "x/a", fmt.Sprint("a", i))
			putAs(t, b, "x/b", fmt.Sprint("b", i))
		}
		putAs(t, b, "x/a-longer", "c")
		_, err := b.Create(t.Context(), "x/a", &objstore.Sums{})
		must(t, err)
		n := int64(1)
		if versioned {
			n = 3
		}
		older := n - 1
		if versioned {
			older++ // that of the bucket before it kept versions
		}
		if p := purge("x/b", objstore.PurgeOld); p.Deleted != older || !p.Whole() {
			t.Errorf("versioned %v: old versions: %+v", versioned, p)
		}
		if p := purge("x/a", objstore.PurgeAll); p.Deleted != n || !p.Whole() {
			t.Errorf("versioned %v: %+v", versioned, p)
		}
		for _, scope := range []objstore.Scope{objstore.PurgeAll, objstore.PurgeStray} {
			if p := purge("x/a", scope); p != (objstore.Purged{}) {
				t.Errorf("again: %+v", p)
			}
		}
		if ids, err := b.Uploads(t.Context(), "x/a"); err != nil || len(ids) > 0 {
			t.Errorf("uploads %q, %v", ids, err)
		}
		left := s.Objects(t, "x/")
		if len(left) != 2 || string(left["x/b"]) != "b2" || string(left["x/a-longer"]) != "c" {
			t.Errorf("versioned %v: left are %q", versioned, left)
		}
		if got, err := b.Versions(t.Context(), "x/a"); err != nil || len(got) > 0 {
			t.Errorf("versions %v, %v", got, err)
		}
	}
	putAs(t, b, "x/b", "b3")
	s.Hold(t, "x/b", true)
	putAs(t, b, "x/b", "b4")
	p := purge("x/b", objstore.PurgeAll) // b2 and b4 go
	if p.Left != 1 || p.Deleted != 2 || p.Why == "" || strings.Contains(p.Why, "operation error") {
		t.Errorf("a held version: %+v", p)
	}
	if _, err := b.Head(t.Context(), "x/b"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("what is left is not hidden: %v", err)
	}
	s.Hold(t, "x/b", false)
	if p := purge("x/b", objstore.PurgeAll); p.Left != 0 || p.Deleted != 1 || s.Versions(t, "x/b") != 0 {
		t.Errorf("afterwards: %+v", p)
	}
}

// TestPurgeDenied: what the store refuses is left and said.
func TestPurgeDenied(t *testing.T) {
	const all, old = objstore.PurgeAll, objstore.PurgeOld
	unknown := objstore.Purged{Unknown: true}
	for name, c := range map[string]struct {
		keeps  bool
		refuse string
		as     error
		scope  objstore.Scope
		want   objstore.Purged
	}{
		"no right to delete":     {false, "Delete", objstore.ErrDenied, all, objstore.Purged{Left: 1}},
		"nor with versions":      {true, "Delete", objstore.ErrDenied, all, objstore.Purged{Left: 2}},
		"nor old ones":           {true, "Delete", objstore.ErrDenied, old, objstore.Purged{Left: 1}},
		"no right to list":       {false, "Versions", objstore.ErrDenied, all, objstore.Purged{Deleted: 1}},
		"nor with versions, all": {true, "Versions", objstore.ErrDenied, all, unknown},
		"nor with versions, old": {true, "Versions", objstore.ErrDenied, old, unknown},
		"none, old":              {false, "Versions", objstore.ErrDenied, old, objstore.Purged{}},
		"no right to ask":        {false, "Versions Versioned", objstore.ErrDenied, old, unknown},
		"no right at all": {true, "Versions Versioned Delete Uploads", objstore.ErrDenied, all,
			objstore.Purged{Left: 1}},
		"a store without versions, all": {false, "Versions", objstore.ErrUnsupported, all, objstore.Purged{Deleted: 1}},
		"a store without versions, old": {false, "Versions", objstore.ErrUnsupported, old, objstore.Purged{}},
	} {
		b := &objtest.Bucket{Keeps: c.keeps}
		b.Set("k", []byte("1"))
		b.Set("k", []byte("2"))
		b.Before = func(call, _ string) error {
			if slices.Contains(strings.Fields(c.refuse), call) {
				return c.as
			}
			return nil
		}
		got, err := objstore.Purge(t.Context(), b, "k", c.scope)
		if got.Whole() != (got.Why == "") {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Why = ""; err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// TestPurgeFaults: a Purge whose calls fail, before or after the store has carried them out, is completed by the next.
func TestPurgeFaults(t *testing.T) {
	lost := errors.New("lost")
	for _, keeps := range []bool{false, true} {
		for n := 1; ; n++ {
			b := &objtest.Bucket{Keeps: keeps}
			b.Set("k", []byte("1"))
			b.Set("k", []byte("2"))
			calls := 0
			at := func(string, string) error {
				if calls++; calls == n {
					return lost
				}
				return nil
			}
			b.Before, b.After = at, at
			_, err := objstore.Purge(t.Context(), b, "k", objstore.PurgeAll)
			if err == nil {
				break
			}
			if !errors.Is(err, lost) {
				t.Fatal(err)
			}
			p, err := objstore.Purge(t.Context(), b, "k", objstore.PurgeAll)
			if err != nil || !p.Whole() || len(b.All()) > 0 {
				t.Errorf("keeps %v, fault %d: %+v, %v, %d objects", keeps, n, p, err, len(b.All()))
			}
		}
	}
}
