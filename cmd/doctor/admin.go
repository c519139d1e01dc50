package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"drumbeat/cmd/flags"
)

// checkAdmin: the admin server needs its port. On a loopback address the crawl takes the next free port, on
// others it does not start. The check opens the port for a moment.
func checkAdmin(ctx context.Context, e *env) []finding {
	r := finding{Check: "admin port"}
	if e.admin.Off() {
		r.Now = "--admin none"
		return []finding{r}
	}
	r.Need = e.admin.Admin + ", free"
	host, port, err := net.SplitHostPort(e.admin.Admin)
	if err != nil {
		r.Now = "not HOST:PORT"
		r.at(fail, true, "--admin HOST:PORT, such as --admin 127.0.0.1:7878")
		return []finding{r}
	}
	addr, err := netip.ParseAddr(host)
	loopback := strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
	r.at(fail, !loopback && e.admin.AdminCert == "" && !e.admin.AdminPlain, "--admin-cert FILE and --admin-key FILE",
		"--admin 127.0.0.1:"+port+" and a tunnel", "--admin-plain, in a trusted network")
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", e.admin.Admin)
	switch {
	case err == nil:
		_ = l.Close() // nothing was accepted
		r.Now = "free"
		if r.Status == fail {
			r.Now = "free, but not a loopback address and not encrypted"
		}
	case !errors.Is(err, syscall.EADDRINUSE):
		r.Now = err.Error()
		r.at(fail, true, "--admin with an address of this machine")
	default:
		r.Now = "in use by " + holder(ctx, e.admin, port)
		see := "see who has it: ss -ltnp 'sport = :" + port + "'"
		r.at(warn, loopback,
			"nothing: the crawl warns, takes the next free port and writes it to DIR/admin.json; ctl does "+
				"not need the port", "--admin with another port", see)
		r.at(fail, !loopback, "--admin with another port", see)
	}
	return []finding{r}
}

// holder names who answers at the address of the admin server: a crawl, or something else.
func holder(ctx context.Context, adm flags.Admin, port string) string {
	const other = "another process"
	host, _, _ := net.SplitHostPort(adm.Admin)
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/api/v1/status",
		nil)
	if err != nil {
		return other
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: short / 3}
	resp, err := client.Do(req)
	if err != nil {
		return other
	}
	defer resp.Body.Close()
	var s struct {
		Crawl string   `json:"crawl"`
		PID   int      `json:"pid"`
		Dirs  []string `json:"dirs"`
	}
	const most = 1 << 20 // bytes of an answer
	if json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(&s) != nil || s.Crawl == "" {
		return other
	}
	return fmt.Sprintf("the crawl in %s (process %d)", strings.Join(s.Dirs, ", "), s.PID)
}
