package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestBill: the bill of a binary has its hash, the standard library and a time, and is the same each time.
func TestBill(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := run(&first, name, "v1.2.3+x", "86400"); err != nil {
		t.Fatal(err)
	}
	if err := run(&second, name, "v1.2.3+x", "86400"); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("a second run differs (%v)", err)
	}
	var b bill
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	program := b.Metadata.Component
	if !strings.HasSuffix(program.PURL, "@v1.2.3%2Bx") || len(program.Hashes) != 1 || len(program.Hashes[0].Content) != 64 ||
		b.Metadata.Time != "1970-01-02T00:00:00Z" {
		t.Errorf("%+v", b.Metadata)
	}
	std := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	if len(b.Components) == 0 || b.Components[0].PURL != std || b.Dependencies[0].DependsOn[0] != std {
		t.Errorf("want %s first: %+v", std, b.Components)
	}
}

// TestNotABinary: a file that is no Go binary, and a bad time, are errors.
func TestNotABinary(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(&bytes.Buffer{}, name, "v1", ""); err == nil {
		t.Error("no error for a text file")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := run(&bytes.Buffer{}, self, "v1", "yesterday"); err == nil {
		t.Error("no error for a bad time")
	}
}
