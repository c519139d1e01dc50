package botpage

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// keyFile makes a key file and returns its name and the id of its key.
func keyFile(t *testing.T) (name, id string) {
	t.Helper()
	key, err := botauth.NewKey(time.Now().Add(-time.Hour))
	must(t, err)
	name = filepath.Join(t.TempDir(), "bot.key")
	must(t, botauth.CreateKeys(name, botauth.Keys{key}))
	return name, key.ID()
}

// TestSignedDirectory: --sign publishes the key directory. The page has the key ids, the card the URL, and nginx's
// file the directory with the signatures, which a verifier accepts at this host alone.
func TestSignedDirectory(t *testing.T) {
	name, id := keyFile(t)
	dir := t.TempDir()
	conf := filepath.Join(t.TempDir(), "nginx.conf")
	args := botPageArgs("--url=https://Bot.example.org/x/", "--out-dir="+dir, "--sign="+name)
	wantExit(t, term.ExitDone, "", append(args, "--nginx="+conf)...)
	page, err := os.ReadFile(filepath.Join(dir, indexName))
	must(t, err)
	checkPage(t, string(page))
	wantIn(t, "the page", string(page), "<code>"+id+"</code>", "We sign our requests",
		`href="https://bot.example.org/.well-known/http-message-signatures-directory"`)
	card, err := os.ReadFile(filepath.Join(dir, cardName))
	must(t, err)
	wantIn(t, "the card", string(card),
		`"jwks_uri": "https://bot.example.org/.well-known/http-message-signatures-directory"`)
	body, err := os.ReadFile(filepath.Join(dir, directoryName))
	must(t, err)

	text, err := os.ReadFile(conf)
	must(t, err)
	header := http.Header{}
	for line := range strings.Lines(string(text)) {
		if words := strings.SplitN(strings.Trim(line, " ;\n"), " ", 3); words[0] == "add_header" {
			header.Set(words[1], strings.Trim(words[2], "'"))
		}
	}
	wantIn(t, "nginx.conf", string(text), "    return 200 '"+string(body)+"';", "default_type "+botauth.DirectoryType)
	now := time.Now()
	_, proven, err := botauth.VerifyDirectory("bot.example.org", body, header, now.Add(proofLife-time.Minute))
	if err != nil || !slices.Equal(keyIDs(proven), []string{id}) {
		t.Errorf("got %v, %v, want the proven key %s", proven, err, id)
	}
	for _, c := range []struct {
		host string
		at   time.Time
	}{{"evil.example", now}, {"bot.example.org", now.Add(proofLife + time.Minute)}} {
		if _, proven, err := botauth.VerifyDirectory(c.host, body, header, c.at); err == nil {
			t.Errorf("%s at %v: the keys %v are proven", c.host, c.at, proven)
		}
	}
	plain, _ := wantExit(t, term.ExitDone, "", botPageArgs("--url=https://a.example/", "--text", "--sign="+name+
		",when=challenge")...)
	wantIn(t, "the text", plain, id, "sites that ask for it")
	for _, file := range []string{string(page), string(card), string(body), string(text), plain} {
		if strings.Contains(file, "PRIVATE") || strings.Contains(file, `"d"`) {
			t.Errorf("has a private key:\n%s", file)
		}
	}
}

// TestSignFaults: bot-page needs a key file that only its owner can read, and a URL at which the directory is.
func TestSignFaults(t *testing.T) {
	name, _ := keyFile(t)
	open := filepath.Join(t.TempDir(), "open.key")
	data, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(open, data, 0o600))
	must(t, os.Chmod(open, 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{botPageArgs("--sign=" + name), "--sign needs --url"},
		{botPageArgs("--url=https://a.example/", "--nginx=x"), "--nginx needs --sign"},
		{botPageArgs("--url=https://a.example/", "--sign="+open), "chmod 600"},
		{botPageArgs("--url=https://a.example/", "--sign="+name+".none"), "--sign: key file"},
		{botPageArgs("--url=https://a.example/", "--sign=directory=https://a.example"), "key file is missing"},
		{botPageArgs("--url=https://a.example/", "--sign="+name+",directory=https://b.example"), "host of --url"},
	} {
		if _, errs := wantExit(t, term.ExitUsage, "", c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%v: got %q, want %q", c.args, errs, c.want)
		}
	}
	wantExit(t, term.ExitDone, "", botPageArgs("--url=https://a.example/",
		"--sign="+name+",directory=https://a.example")...)
}

// TestServedDirectory: --serve signs the directory for the host of --url, also for a client that names another, and
// shows a rotated key. Without its key file it still serves.
func TestServedDirectory(t *testing.T) {
	name, id := keyFile(t)
	c := &Command{Who: flags.Who{Agent: "Survey-Bot", Contact: "a@example.org"}, Purpose: "x", Serve: ":0",
		URL: "https://bot.example.org", Sign: flags.Sign{Sign: flags.Signing{File: name, When: "always"}}}
	c.Addresses = []flags.NetPrefix{{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	must(t, c.check())
	var said []string
	s := &server{c: c, say: func(text string) { said = append(said, text) }}
	proven := func() []string {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "https://evil.example"+botauth.DirectoryPath, nil)
		s.ServeHTTP(w, r)
		if w.Code != 200 || w.Header().Get("Content-Type") != botauth.DirectoryType {
			t.Fatalf("got %d, %v", w.Code, w.Header())
		}
		if _, _, err := botauth.VerifyDirectory("evil.example", w.Body.Bytes(), w.Header(), time.Now()); err == nil {
			t.Error("the directory is signed for another host")
		}
		_, signatures, err := botauth.VerifyDirectory("bot.example.org", w.Body.Bytes(), w.Header(), time.Now())
		must(t, err)
		return keyIDs(signatures)
	}
	if got := proven(); !slices.Equal(got, []string{id}) {
		t.Errorf("got %v, want %s", got, id)
	}
	keys, err := botauth.ReadKeys(name)
	must(t, err)
	keys, err = keys.Rotate(time.Now(), time.Now().Add(time.Hour))
	must(t, err)
	must(t, botauth.ReplaceKeys(name, keys))
	s.tried = time.Time{} // a minute has passed
	if got := proven(); !slices.Equal(got, []string{keys[0].ID(), id}) {
		t.Errorf("got %v, want the keys %s and %s", got, keys[0].ID(), id)
	}
	must(t, os.Remove(name))
	for range 2 {
		s.tried = time.Time{}
		if got := proven(); len(got) != 2 {
			t.Errorf("without the file: got %v", got)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "--sign: key file") {
		t.Errorf("said %q", said)
	}
}

// keyIDs returns the keys of signatures.
func keyIDs(list []botauth.Verified) (ids []string) {
	for _, v := range list {
		ids = append(ids, v.KeyID)
	}
	return ids
}
