package keys

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// commands are those that the tests here run.
type commands struct {
	Keys Command `cmd:""`
}

// run runs keys and returns its streams.
func run(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	return cmdtest.WantExit[commands](t, want, "", append([]string{"keys"}, args...)...)
}

type shown struct {
	Keys []struct {
		ID, State   string
		SignsFrom   string `json:"signs_from"`
		ListedUntil string `json:"listed_until"`
		JWK         map[string]any
	}
}

func show(t *testing.T, file string) (s shown) {
	t.Helper()
	out, _ := run(t, 0, "show", "--json", file)
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeys: a file is made once, and rotated; nothing printed has a private key.
func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bot.key")
	printed, _ := run(t, 0, "new", file)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, errs := run(t, term.ExitUsage, "new", file); !strings.Contains(errs, "exists") {
		t.Errorf("new twice says %q", errs)
	}
	first := show(t, file)
	if len(first.Keys) != 1 || first.Keys[0].State != signs || first.Keys[0].JWK["kid"] != first.Keys[0].ID ||
		!strings.Contains(printed, first.Keys[0].ID) {
		t.Fatalf("a new file has %+v and printed %q", first, printed)
	}

	out, _ := run(t, 0, "rotate", file)
	printed += out
	second := show(t, file)
	if len(second.Keys) != 2 || second.Keys[0].State != waits || second.Keys[1].State != signs ||
		second.Keys[1].ID != first.Keys[0].ID || second.Keys[1].ListedUntil <= second.Keys[0].SignsFrom {
		t.Fatalf("a rotated file has %+v", second)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := run(t, term.ExitUsage, "rotate", "--after=1h", file); !strings.Contains(errs, "rotate again") {
		t.Errorf("rotated again too soon: %q", errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("a rotation that failed changed the file: %v", err)
	}

	plain, _ := run(t, 0, "show", file)
	asJSON, _ := run(t, 0, "show", "--json", file)
	printed += plain + asJSON
	for _, want := range []string{"signs from " + second.Keys[0].SignsFrom, "signs now until " +
		second.Keys[0].SignsFrom + "; must stay in the key directory until " + second.Keys[1].ListedUntil} {
		if !strings.Contains(plain, want) {
			t.Errorf("show prints %q without %q", plain, want)
		}
	}
	for rest := before; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		seed := block.Bytes[len(block.Bytes)-32:]
		for _, secret := range []string{string(seed), hex.EncodeToString(seed),
			base64.RawURLEncoding.EncodeToString(seed), base64.RawStdEncoding.EncodeToString(block.Bytes)} {
			if strings.Contains(printed, secret) {
				t.Errorf("printed a private key: %q", printed)
			}
		}
	}
}

// TestRotateNow: the key that nobody may trust any more signs nothing.
func TestRotateNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bot.key")
	const old = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n" +
		"-----END PRIVATE KEY-----\n" // RFC 9421, B.1.4
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, 0, "rotate", "--after=0s", file)
	keys := show(t, file).Keys
	if len(keys) != 2 || keys[0].State != signs || keys[1].State != retired ||
		keys[1].ID != "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U" {
		t.Errorf("keys %+v", keys)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"chmod 600", []string{"show", open}},
		{"want a PEM block", []string{"rotate", empty}},
		{"does not exist", []string{"show", filepath.Join(dir, "none")}},
		{"not a regular file", []string{"show", "."}},
		{"--after", []string{"rotate", "--after=2y", empty}},
		{filepath.Join(dir, "none") + " does not exist", []string{"new", filepath.Join(dir, "none", "key")}},
	} {
		if _, errs := run(t, term.ExitUsage, c.args...); !strings.Contains(errs, c.want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%q says %q, want %q", c.args, errs, c.want)
		}
	}
}
