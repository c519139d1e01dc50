package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOptions: each fault of the options is refused by a text that names it, and no text has a secret.
func TestOptions(t *testing.T) {
	t.Parallel()
	urls := []string{"tls://n1:4222"}
	good := []Options{
		{Crawl: "c", URLs: urls}, {Crawl: strings.Repeat("9", 32),
			URLs: []string{"nats://127.0.0.1:1", "nats://[::1]:2", "nats://localhost:3"}},
		{Crawl: "c", Embed: &Embed{Dir: "d"}}, {Crawl: "c", Embed: &Embed{Dir: "d", Listen: "127.0.0.1:0"}},
		{Crawl: "c", Seed: "s", Embed: &Embed{Dir: "d", Listen: "0.0.0.0:4222", Cert: "c", Key: "k"}},
	}
	for i, o := range good {
		if err := o.Validate(); err != nil {
			t.Errorf("good options %d: %v", i, err)
		}
	}
	listen := func(address, cert, key, seed string) Options {
		return Options{Crawl: "c", Seed: seed, Embed: &Embed{Dir: "d", Listen: address, Cert: cert, Key: key}}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{URLs: urls}, "crawl"},
		{Options{Crawl: "A", URLs: urls}, "crawl"},
		{Options{Crawl: "a.b", URLs: urls}, "crawl"},
		{Options{Crawl: strings.Repeat("9", 33), URLs: urls}, "crawl"},
		{Options{Crawl: "c", Node: -1, URLs: urls}, "node"},
		{Options{Crawl: "c"}, "either"},
		{Options{Crawl: "c", URLs: urls, Embed: &Embed{Dir: "d"}}, "either"},
		{Options{Crawl: "c", URLs: []string{"nats://n1:4222"}}, "tls://"},
		{Options{Crawl: "c", URLs: []string{"nats://10.0.0.1:4222"}}, "tls://"},
		{Options{Crawl: "c", URLs: []string{"nats://localhost.example.org:4222"}}, "tls://"},
		{Options{Crawl: "c", URLs: []string{"http://n1"}}, "tls://HOST:PORT"},
		{Options{Crawl: "c", URLs: []string{"n1:4222"}}, "tls://HOST:PORT"},
		{Options{Crawl: "c", URLs: []string{"tls://user:secret@n1:4222"}}, "in a file"},
		{Options{Crawl: "c", URLs: []string{"tls://user:secret@n1:4222/%zz"}}, "not a URL"},
		{Options{Crawl: "c", URLs: urls, Cert: "x"}, "key"},
		{Options{Crawl: "c", URLs: urls, Key: "x"}, "key"},
		{Options{Crawl: "c", URLs: urls, Creds: "x", Seed: "y"}, "not both"},
		{Options{Crawl: "c", Creds: "x", Embed: &Embed{Dir: "d"}}, "seed"},
		{Options{Crawl: "c", URLs: urls, StreamBytes: -1}, "stream"},
		{Options{Crawl: "c", URLs: urls, StreamBytes: 1}, "stream"},
		{Options{Crawl: "c", URLs: urls, Replicas: 6}, "replicas"},
		{Options{Crawl: "c", Replicas: 3, Embed: &Embed{Dir: "d"}}, "replicas"},
		{Options{Crawl: "c", Embed: &Embed{}}, "directory"},
		{Options{Crawl: "c", Embed: &Embed{Dir: "d", Sync: -time.Second}}, "negative"},
		{Options{Crawl: "c", Embed: &Embed{Dir: "d", Cert: "x"}}, "key"},
		{listen("4222", "", "", ""), "listen address"},
		{listen(":4222", "", "", ""), "loopback"},
		{listen("0.0.0.0:4222", "", "", "s"), "loopback"},
		{listen("10.0.0.1:4222", "c", "k", ""), "loopback"},
		{listen("[::]:4222", "", "", "s"), "loopback"},
	} {
		err := c.o.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
		if e, err := Open(c.o); err == nil {
			e.Close()
			t.Errorf("%+v: Open accepts", c.o)
		}
	}
}

// TestFiles: missing and bad files are errors of Open that name the file, not its bytes.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	must(t, os.WriteFile(bad, []byte("secret"), 0o600))
	missing := filepath.Join(dir, "missing")
	for _, file := range []string{bad, missing} {
		for i, o := range []Options{
			{Seed: file}, {CA: file}, {Cert: file, Key: file}, {Creds: file},
		} {
			if file == bad && o.Creds != "" {
				continue // the client reads it when it connects
			}
			o.Crawl, o.URLs = "c", []string{"tls://127.0.0.1:1"}
			e, err := Open(o)
			if err == nil {
				e.Close()
				t.Errorf("file %d (%s) is accepted", i, file)
			} else if !strings.Contains(err.Error(), file) && o.Cert == "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("file %d: %v", i, err)
			}
		}
	}
	seed, err := NewSeed()
	must(t, err)
	other, err := NewSeed()
	if err != nil || string(seed) == string(other) || !strings.HasPrefix(string(seed), "SU") {
		t.Errorf("seeds %q and %q, %v", seed, other, err)
	}
}
