package ctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"drumbeat/admin"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// everyCommand has a line for each subcommand of ctl.
var everyCommand = []string{"status", "top", "structures", "slots", "hosts", "plds", "explain a.example", "limits",
	"limits --rate 5", "history urls", "log", "changes", "pause", "resume", "checkpoint", "drain", "stop",
	"stop --wait", "delay a.example 1s", "block host a.example", "unblock host a.example", "budget a.example 5",
	"budget-function equal", "priority depth", "seeds http://a.example/", "enqueue http://a.example/", "reload"}

// TestSquatterSeesNoToken: after kill -9 of a crawl its address and token stay. Whoever listens there then sees
// neither the token nor a request, whatever ctl is asked for.
func TestSquatterSeesNoToken(t *testing.T) {
	var asked, told atomic.Int64
	squatter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
			t.Errorf("%s %s brought the token", r.Method, r.URL)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer squatter.Close()
	dir := t.TempDir()
	address, err := json.Marshal(admin.Address{URL: squatter.URL, PID: 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{admin.AddressName: string(address),
		admin.TokenName: strings.Repeat("5e", 32) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range everyCommand {
		cmdtest.WantExit[commands](t, term.ExitDirectory, "",
			append([]string{"ctl", "--dir", dir}, strings.Fields(line)...)...)
	}
	if asked.Load() > 0 {
		t.Errorf("the squatter got %d requests, %d with the token", asked.Load(), told.Load())
	}
}

// TestURL: --url asks the server there. The token goes with changes alone, and nowhere without --url.
func TestURL(t *testing.T) {
	token := strings.Repeat("5e", 32)
	asked := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.Method] = r.Header.Get("Authorization")
		if r.Method == http.MethodPut {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--url", s.URL, "--token-file", file, "status")
	cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--url", s.URL+"/", "--token-file", file, "pause")
	if asked[http.MethodGet] != "" || asked[http.MethodPost] != "Bearer "+token {
		t.Errorf("tokens by method: %q", asked)
	}
	if _, text := cmdtest.WantExit[commands](t, term.ExitFailure, "", "ctl", "--url", s.URL, "--token-file", file,
		"delay", "a", "1s"); !strings.Contains(text, "307") {
		t.Errorf("a redirect: %s", text)
	}
	for _, bad := range [][]string{{"--token-file", file}, {"--url", "127.0.0.1:7878"}, {"--url", "ftp://127.0.0.1"},
		{"--url", "http://u:p@127.0.0.1"}, {"--url", s.URL, "--token-file", file + "x"}} {
		cmdtest.WantExit[commands](t, term.ExitUsage, "", append(append([]string{"ctl"}, bad...), "status")...)
	}
}
