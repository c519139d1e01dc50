package options

import (
	"net/netip"
	"reflect"
	"testing"

	"drumbeat/internal/ports"
	"drumbeat/state"
)

// TestKeepNetwork: the manifest keeps who crawls and what the crawl may reach, for later requests in its name.
func TestKeepNetwork(t *testing.T) {
	var got state.LastRun
	(&Identity{Version: "1", Agent: "bot", Contact: "me@x.test", UserAgent: "bot (+me@x.test)"}).Keep(&got)
	(&Network{Ports: ports.New(ports.Of(8080)...), AllowNets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		NameServers: []netip.AddrPort{netip.MustParseAddrPort("[::1]:53")}}).Keep(&got)
	want := state.LastRun{Version: "1", Agent: "bot", Contact: "me@x.test", UserAgent: "bot (+me@x.test)",
		Ports: ports.New(ports.Of(8080)...), AllowNets: []string{"10.0.0.0/8"}, NameServers: []string{"[::1]:53"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
