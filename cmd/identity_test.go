package cmd

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
)

// TestIdentityOfBotPage: doctor --identity accepts the files that bot-page writes, served as nginx would, and refuses
// them at another host.
func TestIdentityOfBotPage(t *testing.T) {
	tmp := t.TempDir()
	dir, conf, key := filepath.Join(tmp, "site"), filepath.Join(tmp, "nginx.conf"), filepath.Join(tmp, "bot.key")
	files := http.FileServer(http.Dir(dir))
	field := regexp.MustCompile(`add_header (\S+) '(.*)';`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == botauth.DirectoryPath {
			text, err := os.ReadFile(conf)
			if err != nil {
				t.Error(err)
			}
			for _, f := range field.FindAllStringSubmatch(string(text), -1) {
				w.Header().Set(f[1], f[2])
			}
			w.Header().Set("Content-Type", botauth.DirectoryType)
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	who := []string{"--agent=Survey-Bot", "--contact=ops@example.org", "--addresses=127.0.0.1", "--sign=" + key}
	wantExit(t, term.ExitDone, "", "keys", "new", key)
	page := append([]string{"bot-page", "--purpose=To learn.", "--out-dir=" + dir, "--nginx=" + conf}, who...)
	check := append([]string{"doctor", "--identity=" + server.URL, "--resolver=127.0.0.1:9"}, who...)
	wantExit(t, term.ExitDone, "", append(page, "--url="+server.URL)...)
	out, _ := wantExit(t, term.ExitDone, "", check...)
	if !strings.Contains(out, "1 warning, 1 unknown: https; reverse DNS") {
		t.Errorf("got\n%s", out)
	}
	wantExit(t, term.ExitDone, "", append(page, "--url=https://bot.example.org")...)
	out, _ = wantExit(t, term.ExitFailure, "", check...)
	if !strings.Contains(out, "1 key, 0 proven: the signature does not") || !strings.Contains(out, "client_id is") {
		t.Errorf("got\n%s", out)
	}
}
