package doctor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestAdminPort: a free port is ok; a taken one names its holder and what to do.
func TestAdminPort(t *testing.T) {
	crawl := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"crawl":"ab12","pid":77,"dirs":["/d/one"]}`))
	}))
	defer crawl.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = free.Close()
	for _, c := range []struct {
		admin     flags.Admin
		want      status
		now, help string
	}{
		{flags.Admin{Admin: "none"}, ok, "none", ""},
		{flags.Admin{Admin: free.Addr().String()}, ok, "free", ""},
		{flags.Admin{Admin: crawl.Listener.Addr().String()}, warn, "the crawl in /d/one (process 77)",
			"next free port"},
		{flags.Admin{Admin: other.Listener.Addr().String()}, warn, "another process", "ss -ltnp"},
		{flags.Admin{Admin: "0.0.0.0:0"}, fail, "not encrypted", "--admin-cert"},
		{flags.Admin{Admin: "0.0.0.0:0", AdminPlain: true}, ok, "free", ""},
		{flags.Admin{Admin: "7878"}, fail, "not HOST:PORT", "--admin HOST:PORT"},
		{flags.Admin{Admin: "192.0.2.1:7878", AdminPlain: true}, fail, "192.0.2.1", "of this machine"},
	} {
		r := checkAdmin(t.Context(), &env{admin: c.admin})[0]
		if r.Status != c.want || !strings.Contains(r.Now, c.now) ||
			!strings.Contains(strings.Join(r.Fix, "\n"), c.help) {
			t.Errorf("%+v: %s, %q, %q", c.admin, marks[r.Status].text, r.Now, r.Fix)
		}
	}
}

// TestConfig: doctor reads the file of a crawl; flags and the environment take precedence over it; a key that no
// flag has is an error.
func TestConfig(t *testing.T) {
	file := cmdtest.File(t, "crawl.toml", "admin = \"none\"\nconnections = 123\n")
	bad := cmdtest.File(t, "bad.toml", "conections = 123\n")
	args := []string{"doctor", "--no-network", "--disk-test=0", "--pages=1000", "--ram=256MiB", "--dir=" + t.TempDir(),
		"--config=" + file}
	_, out, errs := cmdtest.Run[commands](t, "", args...)
	if !strings.Contains(out, " 123 connections") || !strings.Contains(out, "--admin none") {
		t.Errorf("%s%s", out, errs)
	}
	t.Setenv("DRUMBEAT_CONNECTIONS", "77")
	if _, out, errs = cmdtest.Run[commands](t, "", args...); !strings.Contains(out, " 77 connections") {
		t.Errorf("environment: %s%s", out, errs)
	}
	if _, out, errs = cmdtest.Run[commands](t, "", append(args, "--connections=55")...); !strings.Contains(out,
		" 55 connections") {
		t.Errorf("flag: %s%s", out, errs)
	}
	if _, errs := cmdtest.WantExit[commands](t, term.ExitUsage, "", "doctor", "--config="+bad); !strings.Contains(errs,
		"bad.toml:1") {
		t.Errorf("unknown key: %s", errs)
	}
	cmdtest.WantExit[commands](t, term.ExitUsage, "", "doctor", "--preset=unheard-of")
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
