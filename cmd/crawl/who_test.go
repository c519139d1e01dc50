package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"

	"drumbeat/cmd/term"
)

// asked is a request in a site's log.
type asked struct{ path, agent, from string }

// TestIdentityAtTheSite: every request, including those for robots.txt, has the token, the contact and From;
// the group of robots.txt that names the token applies.
func TestIdentityAtTheSite(t *testing.T) {
	for _, c := range []struct {
		flags    []string
		ua, from string
	}{
		{[]string{"--agent=Test-Bot", "--contact=ops@example.org"},
			"Test-Bot/" + term.Version() + " (+ops@example.org)", "ops@example.org"},
		{[]string{"--agent=Test-Bot", "--contact=https://example.org/bot"},
			"Test-Bot/" + term.Version() + " (+https://example.org/bot)", ""},
		{[]string{"--agent=Test-Bot", "--contact=https://example.org/bot", "--from=ops@example.org",
			"--user-agent=Mozilla/5.0 (compatible; Test-Bot/2; +https://example.org/bot)"},
			"Mozilla/5.0 (compatible; Test-Bot/2; +https://example.org/bot)", "ops@example.org"},
	} {
		var mu sync.Mutex // guards log
		var log []asked
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			log = append(log, asked{r.URL.Path, r.Header.Get("User-Agent"), r.Header.Get("From")})
			mu.Unlock()
			switch r.URL.Path {
			case "/robots.txt":
				_, _ = fmt.Fprint(w, "User-agent: drumbeat\nDisallow: /yes\n\nUser-agent: test-bot\nDisallow: "+
					"/no\n\nUser-agent: *\nDisallow: /\n")
			default:
				w.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprint(w, `<a href="/yes">yes</a><a href="/no">no</a>`)
			}
		}))
		port := netip.MustParseAddrPort(site.Listener.Addr().String()).Port()
		args := append([]string{"crawl", "--seeds=-", "--dir=" + filepath.Join(t.TempDir(), "c"),
			"--allow-net=127.0.0.0/8", "--ram=192MiB", fmt.Sprintf("--map-port=80=%d", port), "--host-delay=1ms",
			"--server-delay=0", "--linger=100ms", "--host-delay-factor=0", "--resolver=127.0.0.1:9", "-q"}, c.flags...)
		wantExit(t, term.ExitDone, "http://127.0.0.1/\n", args...)
		site.Close()
		paths := map[string]int{}
		for _, a := range log {
			paths[a.path]++
			if a.agent != c.ua || a.from != c.from {
				t.Errorf("%v: %s was asked for with User-Agent %q and From %q; want %q and %q", c.flags, a.path,
					a.agent, a.from, c.ua, c.from)
			}
		}
		if fmt.Sprint(paths) != "map[/:1 /robots.txt:1 /yes:1]" || log[0].path != "/robots.txt" {
			t.Errorf("%v: asked for %v", c.flags, log)
		}
	}
}
