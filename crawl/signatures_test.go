package crawl

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/botauth"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// signedBy has opt sign requests by a new key, and returns its file.
func signedBy(t *testing.T, opt *Options, when SignWhen) (file string) {
	t.Helper()
	key, err := botauth.NewKey(time.Now())
	must(t, err)
	file = filepath.Join(t.TempDir(), "bot.key")
	must(t, botauth.CreateKeys(file, botauth.Keys{key}))
	signer, err := botauth.NewSigner(botauth.Keys{key}, "https://bot.test", botauth.Life)
	must(t, err)
	opt.Identity.Signer, opt.Identity.Sign, opt.Identity.KeyFile = signer, when, file
	return file
}

// verify verifies the signature of a request as its site would, with the keys of a file.
func verify(t *testing.T, file, scheme string, r request) (botauth.Verified, error) {
	t.Helper()
	keys, err := botauth.ReadKeys(file)
	must(t, err)
	now := r.At
	m := &botauth.Message{Method: http.MethodGet, Scheme: scheme, Authority: r.Host, Path: r.Path, Header: r.Header}
	return botauth.Verify(m, botauth.Policy{Now: now, Key: func(agent, id string) (ed25519.PublicKey, error) {
		if agent != "https://bot.test"+botauth.DirectoryPath {
			return nil, fmt.Errorf("%w: of %s", botauth.ErrUnknownKey, agent)
		}
		return keys.Directory(now).Key(id, now)
	}})
}

// TestSignAlways: each request over TLS has a valid signature, that for robots.txt too, and no other request has one.
// No file and no log has the private key; the requests in WARC files have their signatures.
func TestSignAlways(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &secretWeb{tinyWeb: tinyWeb{Serve: pagesOnly}}
		opt := web.options(t, "", "https://a.test/1", "https://a.test/2", "https://a.test:8443/3", "http://b.test/1",
			"https://bad.test/1")
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		file := signedBy(t, &opt, SignAlways)
		fs := opt.Disk.FS
		res := mustRun(t, t.Context(), opt)
		count := map[string]int{}
		for _, r := range web.Got("", "") {
			count[r.Host]++
			if r.Host == "b.test" || r.Host == "bad.test" {
				if r.Header.Get("Signature")+r.Header.Get("Signature-Input") != "" {
					t.Errorf("%s%s has a signature without good TLS", r.Host, r.Path)
				}
				continue
			}
			if _, err := verify(t, file, "https", r); err != nil {
				t.Errorf("%s%s: %v", r.Host, r.Path, err)
			}
		}
		if count["a.test"] != 3 || count["a.test:8443"] != 2 || count["b.test"] != 2 ||
			count["bad.test"] != 2 {
			t.Errorf("requests: %v", count)
		}
		wantSigned(t, res, 5, 0, 0, 0, 0)
		pkcs8, err := os.ReadFile(file)
		must(t, err)
		block, _ := pem.Decode(pkcs8)
		seed := block.Bytes[len(block.Bytes)-ed25519.SeedSize:]
		stored := 0
		check := func(name string, content []byte) {
			stored += bytes.Count(content, []byte("\r\nSignature-Input: sig1=("))
			for _, secret := range [][]byte{seed, []byte(hex.EncodeToString(seed)),
				[]byte(base64.StdEncoding.EncodeToString(seed)[:40]),
				[]byte(base64.RawURLEncoding.EncodeToString(seed)[:40]),
				[]byte(base64.StdEncoding.EncodeToString(block.Bytes)[24:60])} {
				if bytes.Contains(content, secret) {
					t.Errorf("%s has the private key as %q", name, secret)
				}
			}
		}
		check("the log", log.Bytes())
		allFiles(t, fs, opt.Disk.Dirs, check)
		if stored != 3 { // the pages
			t.Errorf("%d stored requests have a signature, want 3", stored)
		}
	})
}

// wantSigned compares the counters of signatures.
func wantSigned(t *testing.T, res *Result, want ...int64) {
	t.Helper()
	for i, c := range []state.Counter{state.CountSigned, state.CountSignedAsked, state.CountSignatureAsks,
		state.CountSignatureUnable, state.CountSignatureRefused} {
		if got := res.Snapshot.Count(c); got != want[i] {
			t.Errorf("%s is %d, want %d", c, got, want[i])
		}
	}
}

// TestSignNever: nothing is signed, although a site asks for it; its refusals count as such.
func TestSignNever(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sites := &askingSites{t: t, nonces: map[string]bool{}}
		web := &secretWeb{tinyWeb: tinyWeb{Serve: pagesOnly, Reply: sites.reply}}
		opt := web.options(t, "", "https://a.test/1", "http://never.test/1", "http://never.test/2")
		sites.file = signedBy(t, &opt, SignNever)
		res := mustRun(t, t.Context(), opt)
		for _, r := range web.Got("", "") {
			if r.Header.Get("Signature") != "" {
				t.Errorf("%s%s has a signature", r.Host, r.Path)
			}
		}
		wantSigned(t, res, 0, 0, 3, 0, 0)
		if got := res.Snapshot.Status[4]; got != 2 {
			t.Errorf("%d pages were refused, want 2", got)
		}
	})
}

// TestNoSignatureForBadCertificates: a site whose certificate is bad gets no signature even if it asks for one, and is
// not asked twice, unless its settings accept any certificate.
func TestNoSignatureForBadCertificates(t *testing.T) {
	for table, want := range map[string][]int64{"": {0, 0, 4, 4, 0},
		"[[site]]\nhost = 'bad.test'\ncertificate = 'any'": {1, 4, 5, 0, 4}} {
		inBubble(t, func(t *testing.T) {
			web := &secretWeb{tinyWeb: tinyWeb{Serve: pagesOnly}}
			web.Reply = func(req *http.Request) (answer, bool) {
				return answer{Status: 403, Header: "Accept-Signature: a=()\r\n"}, true
			}
			opt := web.options(t, table, "https://bad.test/1", "https://bad.test/2", "https://bad.test/3")
			signedBy(t, &opt, SignAlways)
			wantSigned(t, mustRun(t, t.Context(), opt), want...)
			for i, r := range web.Got("", "") {
				if (r.Header.Get("Signature") != "") != (table != "") {
					t.Errorf("with %q, request %d has %v", table, i, r.Header)
				}
			}
		})
	}
}

// askingSites are sites that want signatures.
type askingSites struct {
	t      *testing.T
	file   string
	nonces map[string]bool // given and not yet used
	given  int
}

// reply answers a request as its site does.
func (a *askingSites) reply(req *http.Request) (answer, bool) {
	refuse := func(status int, ask string) (answer, bool) {
		return answer{Status: status, Header: "Accept-Signature: " + ask + "\r\n"}, true
	}
	v, err := verify(a.t, a.file, "http", request{Host: req.Host, Path: req.URL.Path, Header: req.Header,
		At: time.Now()})
	switch {
	case req.Host == "asks.test" && err != nil:
		return refuse(403, `sig7=("@authority" "@path" "signature-agent";key="sig7");created;expires;`+
			`tag="web-bot-auth"`)
	case req.Host == "nonce.test" && (err != nil || !a.nonces[v.Nonce]):
		a.given++
		nonce := fmt.Sprint("n", a.given)
		a.nonces[nonce] = true
		return refuse(401, `sig1=("@authority");nonce="`+nonce+`"`)
	case req.Host == "slow.test" && err != nil:
		return answer{Status: 429, Header: "Retry-After: 600\r\nAccept-Signature: a=()\r\n"}, true
	case req.Host == "never.test":
		return refuse(403, `sig1=("@authority")`)
	case req.Host == "strange.test":
		return refuse(403, `sig1=("content-digest")`)
	}
	delete(a.nonces, v.Nonce)
	return answer{}, false
}

// TestSignOnChallenge: a request that is refused for want of a signature is repeated once with it, in the turn of its
// host; then the host's other requests have it at once. A site that asks for nothing gets no signature. A host that
// refuses what it asked for is not asked twice, and its refusals count.
func TestSignOnChallenge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sites := &askingSites{t: t, nonces: map[string]bool{}}
		web := &tinyWeb{Serve: pagesOnly, Reply: sites.reply}
		hosts := []string{"open.test", "asks.test", "nonce.test", "slow.test", "never.test", "strange.test"}
		var seeds []string
		for _, host := range hosts {
			for page := range 3 {
				seeds = append(seeds, fmt.Sprintf("http://%s/%d", host, page))
			}
		}
		opt := tinyOptions(t, web, memfs.New(*seedFlag), seeds...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		sites.file = signedBy(t, &opt, SignOnChallenge)
		res := mustRun(t, t.Context(), opt)
		for _, want := range []struct {
			host             string
			requests, signed int
		}{
			{"open.test", 4, 0},
			{"asks.test", 5, 4},  // robots.txt twice
			{"nonce.test", 8, 7}, // each URL twice
			{"slow.test", 5, 4},
			{"never.test", 5, 4},
			{"strange.test", 4, 0},
		} {
			requests, signed := 0, 0
			for _, r := range web.Got(want.host, "") {
				requests++
				if r.Header.Get("Signature") != "" {
					signed++
				}
			}
			if requests != want.requests || signed != want.signed {
				t.Errorf("%s: %d requests, %d signed, want %d and %d", want.host, requests, signed, want.requests,
					want.signed)
			}
			if gap, _ := leastGap(web, func(r request) bool { return r.Host == want.host }); gap < time.Second {
				t.Errorf("%s: %v between two requests, want 1s", want.host, gap)
			}
		}
		slow := web.Got("slow.test", "")
		if wait := slow[1].At.Sub(slow[0].At); wait < 10*time.Minute {
			t.Errorf("slow.test: asked again after %v, before its Retry-After", wait)
		}
		if got := res.Snapshot.Status[4]; got != 6 { // 4xx of never.test and strange.test
			t.Errorf("%d pages were refused, want 6", got)
		}
		wantSigned(t, res, 0, 19, 15, 4, 4)
	})
}

// TestRotateKeys: after a reload the new key signs when its time has come, without another reload. A file with errors
// changes nothing and is logged.
func TestRotateKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &secretWeb{tinyWeb: tinyWeb{Serve: pagesOnly}}
		var seeds []string
		for i := range 40 {
			seeds = append(seeds, fmt.Sprintf("https://a.test/%d", i))
		}
		opt := web.options(t, "", seeds...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		file := signedBy(t, &opt, SignAlways)
		reload := make(chan struct{})
		opt.Admission.Reload = reload
		old, err := botauth.ReadKeys(file)
		must(t, err)
		var from time.Time
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-time.After(10 * time.Second)
			from = time.Now().Add(10 * time.Second).Truncate(time.Second)
			keys, err := old.Rotate(time.Now(), from)
			must(t, err)
			must(t, botauth.ReplaceKeys(file, keys))
			reload <- struct{}{}
			<-time.After(15 * time.Second)
			must(t, os.Chmod(file, 0o644))
			reload <- struct{}{}
			reload <- struct{}{} // the one before is done
			<-time.After(time.Second)
			must(t, os.Chmod(file, 0o600))
			good, err := os.ReadFile(file)
			must(t, err)
			for _, content := range [][]byte{good[:len(good)-30], []byte("garbage"), nil} {
				must(t, os.WriteFile(file, content, 0o600))
				reload <- struct{}{}
				<-time.After(time.Second)
			}
			must(t, os.WriteFile(file, good, 0o600))
		}()
		mustRun(t, t.Context(), opt)
		<-done
		signers := map[string]int{}
		for _, r := range web.Got("", "") {
			v, err := verify(t, file, "https", r)
			if err != nil {
				t.Errorf("%s: %v", r.Path, err)
			}
			if (v.KeyID == old[0].ID()) != r.At.Before(from) {
				t.Errorf("%s: key %s signs %v after the new key's time", r.Path, v.KeyID, r.At.Sub(from))
			}
			signers[v.KeyID]++
		}
		if len(signers) != 2 {
			t.Errorf("requests by key: %v", signers)
		}
		if text := log.String(); !strings.Contains(text, "keys of --sign reloaded") ||
			!strings.Contains(text, "chmod 600") || !strings.Contains(text, "key 2: the PEM block is damaged") ||
			strings.Count(text, "has no key: want a PEM block") != 2 {
			t.Errorf("log:\n%s", text)
		}
	})
}
