package cmd

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
)

// keyFile makes a key file by keys new, and returns its path and the key that keys show prints.
func keyFile(t *testing.T) (file string, directory botauth.Directory) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "bot.key")
	wantExit(t, term.ExitDone, "", "keys", "new", file)
	out, _ := wantExit(t, term.ExitDone, "", "keys", "show", "--json", file)
	var shown struct{ Keys []struct{ JWK botauth.JWK } }
	must(t, json.Unmarshal([]byte(out), &shown))
	for _, key := range shown.Keys {
		directory.Keys = append(directory.Keys, key.JWK)
	}
	return file, directory
}

// TestCrawlSigns: a real server verifies each request of a crawl with --sign, by HTTP/1.1 and HTTP/2, with the
// public key that keys show prints. The crawl's directory has nothing of the private key.
func TestCrawlSigns(t *testing.T) {
	for proto, flag := range map[int]string{1: "off", 2: "on"} {
		t.Run(fmt.Sprint("http", proto), func(t *testing.T) {
			t.Parallel()
			file, directory := keyFile(t)
			var mu sync.Mutex // guards seen
			seen := map[string]int{}
			site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := botauth.Verify(botauth.RequestMessage(r), botauth.Policy{Now: time.Now(),
					MaxLife: botauth.Life, Key: func(agent, id string) (ed25519.PublicKey, error) {
						if agent != "https://bot.example.org"+botauth.DirectoryPath {
							return nil, botauth.ErrUnknownKey
						}
						return directory.Key(id, time.Now())
					}})
				if err != nil || r.ProtoMajor != proto {
					t.Errorf("%s by %s: %v", r.URL, r.Proto, err)
				}
				mu.Lock()
				seen[r.URL.Path]++
				mu.Unlock()
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<html><a href="/a?b=c">a</a><a href="/d">d</a>`)
			}))
			site.EnableHTTP2 = true
			site.StartTLS()
			t.Cleanup(site.Close)
			dir := filepath.Join(t.TempDir(), "c")
			sites := filepath.Join(t.TempDir(), "sites.toml")
			must(t, os.WriteFile(sites, []byte("[[site]]\nhost = '127.0.0.1'\ncertificate = 'any'\n"), 0o600))
			wantExit(t, term.ExitDone, "", "crawl", site.URL+"/", "--contact=https://bot.example.org/about",
				"--sign="+file, "--sites="+sites, "--allow-net=127.0.0.0/8", "--scope=host", "--host-delay=0",
				"--server-delay=0", "--linger=0s", "--ram=192MiB", "--log-level=warn", "--http2="+flag,
				"--resolver=127.0.0.1",
				"--ports="+site.URL[strings.LastIndexByte(site.URL, ':')+1:], "--dir="+dir)
			if len(seen) != 4 {
				t.Errorf("requests: %v", seen)
			}
			hasNoKey(t, dir, file)
		})
	}
}

// hasNoKey fails if a file below dir has the private key of a key file.
func hasNoKey(t *testing.T, dir, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	block, _ := pem.Decode(data)
	seed := block.Bytes[len(block.Bytes)-ed25519.SeedSize:]
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for _, secret := range [][]byte{seed, fmt.Appendf(nil, "%x", seed),
			[]byte(base64.StdEncoding.EncodeToString(seed)[:40]),
			[]byte(base64.RawURLEncoding.EncodeToString(seed)[:40])} {
			if bytes.Contains(content, secret) {
				t.Errorf("%s has the private key", path)
			}
		}
		return err
	}))
	if files == 0 {
		t.Errorf("%s has no files", dir)
	}
}

// TestSignFlags: a crawl that cannot sign as it is told to does not start.
func TestSignFlags(t *testing.T) {
	file, directory := keyFile(t)
	open := filepath.Join(t.TempDir(), "open")
	must(t, os.WriteFile(open, nil, 0o644))
	for _, c := range []struct{ contact, sign, want string }{
		{"a@example.org", file, "add directory=URL"},
		{"http://bot.example.org/", file, "add directory=URL"},
		{"a@example.org", file + ",directory=http://bot.example.org", "is not an https URL"},
		{"a@example.org", file + ",directory=https://bot.example.org,when=often", "when=often"},
		{"https://bot.example.org/", "directory=https://bot.example.org", "the key file is missing"},
		{"https://bot.example.org/", open, "chmod 600"},
		{"https://bot.example.org/", "run=3.key", "a file with = in its name needs a / before it: ./run=3.key"},
		{"https://bot.example.org/", file + ",life=1m", "life=1m"},
		{"https://bot.example.org/", file + ",life=1h", "life=1h"},
		{"https://bot.example.org/", open + "x", "does not exist"},
	} {
		dir := filepath.Join(t.TempDir(), "c")
		_, errs := wantExit(t, term.ExitUsage, "", "crawl", "https://a.example/", "--contact="+c.contact,
			"--sign="+c.sign, "--resolver=127.0.0.1", "--dir="+dir)
		wantPlain(t, errs, c.want, c.sign)
		if !strings.Contains(errs, "--sign") {
			t.Errorf("%s: %s names no flag", c.sign, errs)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the crawl has begun", c.sign)
		}
	}
	out, _ := wantExit(t, term.ExitDone, "", "crawl", "https://a.example/", "--contact=https://bot.example.org/",
		"--sign="+file+",when=challenge", "--resolver=127.0.0.1", "--print-config")
	line := "# sign: key " + directory.Keys[0].Kid + "; key directory https://bot.example.org/.well-known/"
	if !strings.Contains(out, file+",when=challenge") || !strings.Contains(out, line) {
		t.Errorf("--print-config lacks the flag: %s", out)
	}

	odd := filepath.Join(t.TempDir(), "run=3, b.key")
	must(t, os.Rename(file, odd))
	args := []string{"crawl", "https://a.example/", "--contact=https://bot.example.org/", "--resolver=127.0.0.1"}
	out, _ = wantExit(t, term.ExitDone, "", append(args, "--sign="+strings.ReplaceAll(odd, ",", `\,`)+",when=never",
		"--print-config")...)
	if !strings.Contains(out, "# sign: nothing; key "+directory.Keys[0].Kid) {
		t.Errorf("--print-config does not say that nothing is signed: %s", out)
	}
	config := filepath.Join(t.TempDir(), "crawl.toml")
	must(t, os.WriteFile(config, []byte(out), 0o600))
	out, _ = wantExit(t, term.ExitDone, "", append(args, "--config="+config, "--print-config")...)
	if !strings.Contains(out, "# sign: nothing; key "+directory.Keys[0].Kid) {
		t.Errorf("the configuration is not read again as printed: %s", out)
	}
}
