package tidy

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// givenPLDs are the files of the running crawl that hold PLDs, or other names, and not hosts.
var givenPLDs = []string{"crawl/inforce/sites.go", "crawl/node/peers.go", "crawl/outage/lookup.go",
	"crawl/walkers/walkers.go"}

// TestKeysOfHosts: a running crawl takes the keys of a host and of its PLD from state.Saved. The methods of the same
// names of its Hasher take a host without a final dot, and a PLD: their keys for any host are others, and nothing says
// so.
func TestKeysOfHosts(t *testing.T) {
	_, list := sources(t)
	for _, s := range list {
		if s.test || !strings.HasPrefix(s.name, "crawl/") || slices.Contains(givenPLDs, s.name) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "HostKey" && call.Sel.Name != "PLDKey" {
				return true
			}
			if of, ok := call.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Hasher" {
				t.Errorf("%s: Hasher.%s: use that of state.Saved", s.name, call.Sel.Name)
			}
			return true
		})
	}
}
