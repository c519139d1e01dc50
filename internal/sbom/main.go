// Command sbom prints the software bill of materials of a Go binary as CycloneDX 1.5 JSON.
//
//	go run ./internal/sbom BINARY VERSION
//
// VERSION is that of the program itself; the binary need not contain it. The modules are those whose packages
// are linked into the binary, as the Go linker recorded them (debug/buildinfo), not all of go.mod. The
// standard library is a component of its own with the version of the Go release, because vulnerabilities are
// reported for it, too. Each component has its package URL (purl, type golang), by which scanners look it
// up, and the hash of go.sum as a property. The bill names the SHA-256 of the binary.
//
// The output depends only on the binary, VERSION and SOURCE_DATE_EPOCH (Unix seconds, UTC), so that a release
// can be reproduced: the serial number is derived from the hash of the binary. Without SOURCE_DATE_EPOCH the
// bill has no time.
//
// Exit codes: 0, 1 for a failure, 2 for wrong arguments. The command belongs to scripts/release.sh and shares
// no code with the crawler. It has no concurrency and writes no file.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// bill is the CycloneDX document, with the fields that we use.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Time      string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type license struct {
	Expression string `json:"expression"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// dependency names the components linked into the program. The linker does not record which of them needs
// which.
type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "sbom: "+err.Error())
		os.Exit(1)
	}
}

func run(out io.Writer, name, version, epoch string) error {
	b, err := newBill(name, version)
	if err != nil {
		return err
	}
	if epoch != "" {
		s, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		b.Metadata.Time = time.Unix(s, 0).UTC().Format(time.RFC3339)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}

// newBill returns the bill of the binary, without a time.
func newBill(name, version string) (*bill, error) {
	info, err := buildinfo.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the modules of the binary: %w", err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	program := library(info.Main.Path, version, "")
	program.Type = "application"
	program.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	program.Licenses = []license{{"Apache-2.0"}}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath":
			program.Properties = append(program.Properties, property{"go:" + strings.TrimPrefix(s.Key, "-"), s.Value})
		}
	}
	parts := []component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		parts = append(parts, module(m))
	}
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].Ref
	}
	return &bill{
		Format: "CycloneDX", Spec: "1.5", Serial: serial(sum), Version: 1,
		Metadata: metadata{Component: program}, Components: parts,
		Dependencies: []dependency{{program.Ref, refs}},
	}, nil
}

// module returns the component of a module, or of the one that replaces it.
func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	return library(m.Path, m.Version, m.Sum)
}

func library(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// serial returns a UUID (RFC 9562, version 8) made of the hash.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
