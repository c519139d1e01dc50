package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestBenchDNS: each case is measured against the server in another process, and no lookup fails; the server ends.
func TestBenchDNS(t *testing.T) {
	t.Setenv(childMode, "main")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--lookups=500", "--waiting=250", "--span=1s", "--repeat=1", "--in-flight=16",
			"--cases=hit,miss,nxdomain,aliases,tcp-10%,late-20ms-loss-2%"}, exitDone,
			[]string{"case=hit/client=ours/inflight=1 \t", "client=net.Resolver/inflight=16 \t", "client=bare-socket",
				"ok      lookups that failed, all cases: 0.000"}},
		{[]string{"--crawl", "--quick", "--lookups=0"}, exitUsage, []string{"must lie between"}},
		{[]string{"--cases=none"}, exitUsage, []string{`no case is named "none"`}},
		{[]string{"--lookups=0"}, exitUsage, []string{"must lie between 1 and"}},
	} {
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: &out}
		if code := a.run(append([]string{"bench", "dns", "-q"}, c.args...)); code != c.code {
			t.Errorf("%q: got exit code %d, want %d:\n%s", c.args, code, c.code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, out.String())
			}
		}
	}
}
