package botauth

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

func newKeys(t testing.TB, from time.Time) Keys {
	t.Helper()
	key, err := NewKey(from)
	if err != nil {
		t.Fatal(err)
	}
	return Keys{key}
}

// TestRotate: the new key waits for its time, and the old one leaves the directory after its last signature.
func TestRotate(t *testing.T) {
	old := newKeys(t, start)
	from := start.Add(24 * time.Hour)
	keys, err := old.Rotate(start.Add(time.Hour), from)
	if err != nil {
		t.Fatal(err)
	}
	until := from.Add(Life + clockSkew)
	for _, c := range []struct {
		now    time.Time
		signs  string
		listed int
	}{
		{start.Add(-time.Hour), old[0].ID(), 2},
		{from.Add(-time.Second), old[0].ID(), 2},
		{from, keys[0].ID(), 2},
		{until.Add(-time.Second), keys[0].ID(), 2},
		{until, keys[0].ID(), 1},
	} {
		if got := keys.At(c.now).ID(); got != c.signs {
			t.Errorf("at %s key %s signs, want %s", c.now, got, c.signs)
		}
		if got := len(keys.Directory(c.now).Keys); got != c.listed {
			t.Errorf("at %s the directory has %d keys, want %d", c.now, got, c.listed)
		}
	}
	d := keys.Directory(start)
	if d.Keys[0].NotBefore != from.Unix() || d.Keys[0].Expires != 0 || d.Keys[1].Expires != until.Unix() {
		t.Errorf("directory %+v", d)
	}
	_, err = keys.Rotate(start, start.Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "rotate again") {
		t.Errorf("rotated before the last rotation was in use: %v", err)
	}
	again, err := keys.Rotate(until, until)
	if err != nil || len(again) != 2 || again[1].ID() != keys[0].ID() {
		t.Errorf("after the old key's time: %v, %v", again, err)
	}
	many := newKeys(t, start)
	for i := 1; err == nil && i < 100; i++ {
		many, err = many.Rotate(start, start.Add(time.Duration(i)*time.Second))
	}
	if len(many) != 0 || err == nil || !strings.Contains(err.Error(), "16 keys") {
		t.Errorf("rotated without bound: %d keys, %v", len(many), err)
	}
}

func TestKeyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key.pem")
	keys, err := newKeys(t, start).Rotate(start, start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateKeys(name, keys); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if got, err := ReadKeys(name); err != nil || fmt.Sprint(ids(got)) != fmt.Sprint(ids(keys)) ||
		!got[0].From.Equal(keys[0].From) {
		t.Errorf("read %v, %v, want %v", got, err, keys)
	}
	if err := CreateKeys(name, keys); !errors.Is(err, fs.ErrExist) {
		t.Errorf("overwrote: %v", err)
	}
	if err := ReplaceKeys(name, keys[:1]); err != nil {
		t.Error(err)
	}
	if got, err := ReadKeys(name); err != nil || len(got) != 1 {
		t.Errorf("read %v, %v after the replacement", got, err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKeys(name); err == nil || !strings.Contains(err.Error(), "chmod 600 "+name) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	fifo, link := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(name, link), os.Chmod(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeys(fifo); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a FIFO: %v", err)
	}
	if err := ReplaceKeys(link, keys); err != nil {
		t.Error(err)
	}
	if got, err := ReadKeys(name); err != nil || len(got) != 2 {
		t.Errorf("read %v, %v after the replacement through a link", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if _, err := ReadKeys(filepath.Dir(name)); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := ReadKeys(name + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func ids(keys Keys) (list []string) {
	for _, k := range keys {
		list = append(list, k.ID())
	}
	return list
}

func TestParseKeysRefuses(t *testing.T) {
	two, err := newKeys(t, start).Rotate(start, start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	good, err := two.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := string(good)
	swapped := Keys{two[1], two[0]}
	wrongOrder, err := swapped.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, want string }{
		"empty":       {"", "no key"},
		"long":        {strings.Repeat("a", maxFileBytes+1), "at most"},
		"certificate": {strings.ReplaceAll(file, pemType, "CERTIFICATE"), "CERTIFICATE"},
		"damaged":     {strings.Replace(file, "MC4CAQ", "MC4CA!", 1), "key 1: the PEM block is damaged"},
		"cut":         {file[:len(file)-30], "key 2: the PEM block is damaged"},
		"not a key":   {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no PKCS#8"},
		"twice":       {testKeyFile + testKeyFile, "twice"},
		"order":       {string(wrongOrder), "not newest first"},
		"time":        {strings.Replace(file, fromLine, fromLine+"x", 1), "is not a time"},
		"id":          {strings.Replace(file, idLine, idLine+"x", 1), "names key"},
		"many":        {strings.Repeat(testKeyFile, maxKeys+1), "more than 16"},
	} {
		if keys, err := ParseKeys([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, keys, err, c.want)
		}
	}
}

// TestKeysDoNotPrint: no format prints the private key, wherever the key is.
func TestKeysDoNotPrint(t *testing.T) {
	keys := testKeys(t)
	signer, err := NewSigner(keys, "https://bot.test", Life)
	if err != nil {
		t.Fatal(err)
	}
	signer.Sign("example.com", start)
	seed := keys[0].private().Seed()
	directory, err := keys.Directory(start).Encode()
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{string(seed), hex.EncodeToString(seed), fmt.Sprint([]byte(seed))[1:20],
		base64url.EncodeToString(seed)[:20], fmt.Sprintf("%#v", []byte(seed))[7:30]}
	printed := string(directory)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		printed += fmt.Sprintf(format, keys) + fmt.Sprintf(format, signer) + fmt.Sprintf(format, *signer.slot)
	}
	for _, s := range secrets {
		if strings.Contains(printed, s) {
			t.Errorf("printed %q", s)
		}
	}
}

func TestProve(t *testing.T) {
	keys, err := newKeys(t, start).Rotate(start, start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	body, err := keys.Directory(start).Encode()
	if err != nil {
		t.Fatal(err)
	}
	p, err := keys.Prove("Bot.test:443", body, start, start.Add(90*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	fields := http.Header{"Content-Digest": {p.ContentDigest}, "Signature": {p.Signature},
		"Signature-Input": {p.SignatureInput}}
	d, proven, err := VerifyDirectory("bot.test", body, fields, start)
	var by []string
	for _, v := range proven {
		by = append(by, v.KeyID)
	}
	if err != nil || fmt.Sprint(by) != fmt.Sprint(ids(keys)) {
		t.Errorf("proven %+v, %v, want %q", proven, err, ids(keys))
	}
	if _, err := d.Key(keys[0].ID(), start); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a key before its time: %v", err)
	}
	public, err := d.Key(keys[1].ID(), start)
	if err != nil || !bytes.Equal(public, keys[1].Public()) {
		t.Errorf("key %x, %v", public, err)
	}
	if _, err := d.Key(keys[1].ID(), start.Add(2*time.Hour)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a key after its time: %v", err)
	}
}

func TestParseDirectoryRefuses(t *testing.T) {
	x := base64url.EncodeToString(make([]byte, ed25519.PublicKeySize))
	for name, c := range map[string]struct{ body, want string }{
		"text":    {"hello", "not a JSON"},
		"empty":   {`{}`, "no keys"},
		"private": {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":"` + x + `"}]}`, "is a private key"},
		"short":   {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, "32 bytes"},
		"id":      {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"}]}`, "thumbprint"},
		"many":    {`{"keys":[{}` + strings.Repeat(`,{}`, maxDirectoryKeys) + `]}`, "the limit is 256"},
		"long":    {strings.Repeat(" ", MaxDirectoryBytes+1), "the limit is"},
	} {
		if d, err := ParseDirectory([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, d, err, c.want)
		}
	}
	d, err := ParseDirectory([]byte(`{"keys":[{"kty":"RSA","n":"AA","e":"AQAB"}]}`))
	if err != nil || len(d.Keys) != 1 {
		t.Errorf("a key of another kind: %+v, %v", d, err)
	}
}
