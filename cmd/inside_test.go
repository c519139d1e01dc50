package cmd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestCrawlOverIPv6: a crawl over sockets on [::1] works with --allow-net, and connects to nothing without
// it.
func TestCrawlOverIPv6(t *testing.T) {
	notShort(t)
	t.Parallel()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	_ = l.Close()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.IPv6, o.HTTPS, o.IPs = 1, 0.2, 1 })
	flags = append(flags, "--ip=6")
	// The flags include --allow-net=127.0.0.0/8 only. For an IP literal a refusal needs no second DNS answer.
	closed := append(flags[:len(flags):len(flags)], "--seeds=-", "--dir", filepath.Join(t.TempDir(), "closed"))
	out, _ := wantExit(t, term.ExitNoSeed, "http://[::1]/\n", closed...)
	if n := len(web.Log().Snapshot().Fetches); n > 0 || !strings.Contains(out, "address not allowed") {
		t.Errorf("%d URLs fetched from [::1], which no --allow-net names:\n%s", n, out)
	}
	dir := filepath.Join(t.TempDir(), "open")
	wantExit(t, term.ExitDone, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir, "--allow-net=::1")...)
	log := web.Log().Snapshot()
	if err := log.CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
	if _, ok := log.Servers["::1"]; len(log.Fetches) == 0 || !ok || len(log.Servers) != 1 {
		t.Errorf("%d URLs fetched from servers %v, want some, all from ::1", len(log.Fetches), log.Servers)
	}
	wantExit(t, term.ExitDone, "", "audit", dir)
}
