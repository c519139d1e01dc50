package admin

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestExplainAddress: the explanation of an address lists hosts with URLs in RAM at it, with their names.
func TestExplainAddress(t *testing.T) {
	r := newRig(t, nil)
	named := false
	r.await("a host at an address", func() bool {
		for _, addr := range r.web.Addrs() {
			code, body := r.ask(http.MethodGet, "/api/v1/explain?url="+addr.String(), "", nil)
			if code == http.StatusUnprocessableEntity || code == http.StatusInternalServerError {
				continue // before the first checkpoint
			}
			var x Explanation
			if err := json.Unmarshal(body, &x); code != http.StatusOK || err != nil {
				t.Fatalf("%s: %d %s, %v", addr, code, body, err)
			}
			for _, h := range x.At {
				named = named || h.Host != "" && h.InRAM > 0
			}
		}
		return named
	})
	if code, body := r.ask(http.MethodGet, "/api/v1/explain?url=192.0.2.77", "", nil); code != http.StatusOK {
		t.Errorf("an address without hosts: %d %s", code, body)
	}
}
