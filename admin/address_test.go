package admin

import (
	"encoding/json"
	"net/http"
	"testing"

	"drumbeat/crawl"
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

// TestExplainPace: the explanation of a host says how far its delay has adapted, but only with --adaptive-delay.
func TestExplainPace(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := newRig(t, func(o *crawl.Options, _ *Options) {
			o.Politeness.AdaptiveDelay, o.Politeness.HostDelayFactor = on, 0.01
		})
		stepped, explained := false, 0
		r.await("a host visited sooner", func() bool {
			for _, host := range r.web.Hosts() {
				code, body := r.ask(http.MethodGet, "/api/v1/explain?url="+host, "", nil)
				var x Explanation
				if code != http.StatusOK || json.Unmarshal(body, &x) != nil || x.Host == nil {
					continue // before the first checkpoint
				}
				explained++
				if p := x.Host.Pace; p != nil {
					stepped = stepped || p.Steps > 0 && p.Steps <= p.AllSteps && p.Delay < 0.05 &&
						p.Delay > 0 && p.Answer > 0
				}
			}
			return stepped || !on && explained > 50
		})
		if stepped != on {
			t.Errorf("AdaptiveDelay %t: an adapted delay was shown: %t", on, stepped)
		}
	}
}
