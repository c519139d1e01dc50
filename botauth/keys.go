package botauth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Key is an Ed25519 key. Printing one shows its id and its time alone: the private key hides in a function.
type Key struct {
	// From is when the key begins to sign, in whole seconds; zero: it always did.
	From time.Time

	id      string
	public  ed25519.PublicKey
	private func() ed25519.PrivateKey
}

// NewKey returns a new key that signs from a time on.
func NewKey(from time.Time) (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("botauth: make a key: %w", err)
	}
	return keyOf(private, from), nil
}

func keyOf(private ed25519.PrivateKey, from time.Time) Key {
	public := private.Public().(ed25519.PublicKey)
	return Key{From: from.UTC().Truncate(time.Second), id: Thumbprint(public), public: public,
		private: func() ed25519.PrivateKey { return private }}
}

// ID returns the key id: the thumbprint of the public key.
func (k Key) ID() string { return k.id }

// Public returns the public key, which the caller must not change.
func (k Key) Public() ed25519.PublicKey { return k.public }

// Thumbprint returns the SHA-256 thumbprint of a public key in base64url (RFC 7638; RFC 8037, A.3).
func Thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64url.EncodeToString(public) + `"}`))
	return base64url.EncodeToString(sum[:])
}

var base64url = base64.RawURLEncoding

// Keys are the keys of a key file, newest first, with falling times. They are never empty.
type Keys []Key

// maxKeys bounds the keys of a file: a rotation every day keeps 3.
const maxKeys = 16

// At returns the key that signs at a time: the newest that has begun, or else the oldest.
func (k Keys) At(now time.Time) Key {
	for _, key := range k {
		if !key.From.After(now) {
			return key
		}
	}
	return k[len(k)-1]
}

// clockSkew is how far the clocks of two machines may differ.
const clockSkew = 5 * time.Minute

// Until returns when the last signature of the key at an index has expired, or zero if no key follows it.
func (k Keys) Until(i int) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return k[i-1].From.Add(Life + clockSkew)
}

// Listed returns the keys that belong in the directory at a time: those that will sign, the one that does, and those
// whose signatures may still be valid.
func (k Keys) Listed(now time.Time) Keys {
	for i := range k {
		if until := k.Until(i); !until.IsZero() && !until.After(now) {
			return k[:i]
		}
	}
	return k
}

// Rotate returns the keys with a new one that signs from a time on, and without those that Listed leaves out. It fails
// if the newest key has not yet begun to sign by then.
func (k Keys) Rotate(now, from time.Time) (Keys, error) {
	key, err := NewKey(from)
	if err != nil {
		return nil, err
	}
	if !k[0].From.Before(key.From) {
		return nil, fmt.Errorf("key %s begins to sign at %s, not before the new key: rotate again after that",
			k[0].id, k[0].From.Format(time.RFC3339))
	}
	rotated := append(Keys{key}, k.Listed(now)...)
	if len(rotated) > maxKeys {
		return nil, fmt.Errorf("%d keys are in use, the maximum for a file: rotate less often", maxKeys)
	}
	return rotated, nil
}

const (
	pemType  = "PRIVATE KEY" // PKCS#8 (RFC 7468, 10)
	pemBegin = "-----BEGIN "

	idLine   = "Key: "
	fromLine = "Signs-From: "

	fileHead = "Keys of drumbeat, newest first. Whoever can read this file can sign as you.\n"
)

// Encode returns the content of a key file.
func (k Keys) Encode() ([]byte, error) {
	var b strings.Builder
	b.WriteString(fileHead)
	for _, key := range k {
		der, err := x509.MarshalPKCS8PrivateKey(key.private())
		if err != nil {
			return nil, fmt.Errorf("botauth: encode key %s: %w", key.id, err)
		}
		fmt.Fprintf(&b, "\n%s%s\n", idLine, key.id)
		if !key.From.IsZero() {
			fmt.Fprintf(&b, "%s%s\n", fromLine, key.From.Format(time.RFC3339))
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
	}
	return []byte(b.String()), nil
}

// ParseKeys returns the keys in the content of a key file. Text between keys is skipped, except for the lines that
// Encode writes.
func ParseKeys(file []byte) (Keys, error) {
	if len(file) > maxFileBytes {
		return nil, fmt.Errorf("has %d bytes, want at most %d", len(file), maxFileBytes)
	}
	var keys Keys
	for text := string(file); ; {
		before, _, found := strings.Cut(text, pemBegin)
		if !found {
			break
		}
		key, rest, err := parseKey(before, text[len(before):])
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(keys)+1, err)
		}
		text, keys = rest, append(keys, key)
		if len(keys) > maxKeys {
			return nil, fmt.Errorf("has more than %d keys", maxKeys)
		}
	}
	return keys, keys.validate()
}

// validate checks that the keys are in order.
func (k Keys) validate() error {
	if len(k) == 0 {
		return errors.New("has no key: want a PEM block PRIVATE KEY with an Ed25519 key")
	}
	ids := map[string]bool{}
	for i, key := range k {
		if ids[key.id] {
			return fmt.Errorf("has key %s twice", key.id)
		}
		ids[key.id] = true
		if i > 0 && !key.From.Before(k[i-1].From) {
			return fmt.Errorf("keys %d and %d are not newest first: each except the last needs a line %q "+
				"with a later time than the next key's", i, i+1, strings.TrimSpace(fromLine))
		}
	}
	return nil
}

// parseKey parses the block at the start of text, and the lines before it.
func parseKey(before, text string) (key Key, rest string, err error) {
	end := strings.Index(text[len(pemBegin):], pemBegin) // a damaged block must not be skipped
	if end < 0 {
		end = len(text)
	} else {
		end += len(pemBegin)
	}
	block, after := pem.Decode([]byte(text[:end]))
	if block == nil {
		return key, "", errors.New("the PEM block is damaged")
	}
	if block.Type != pemType || len(block.Headers) > 0 {
		return key, "", fmt.Errorf("the PEM block is %q, want an unencrypted %s", block.Type, pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return key, "", errors.New("the PEM block has no PKCS#8 key")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return key, "", errors.New("the key is not an Ed25519 key")
	}
	var from time.Time
	for line := range strings.Lines(before) {
		line = strings.TrimSpace(line)
		if text, found := strings.CutPrefix(line, fromLine); found {
			if from, err = time.Parse(time.RFC3339, text); err != nil {
				return key, "", fmt.Errorf("%q is not a time such as 2026-11-29T17:00:00Z", text)
			}
		}
	}
	key = keyOf(private, from)
	for line := range strings.Lines(before) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), idLine); found && id != key.id {
			return key, "", fmt.Errorf("the line before it names key %q, but the id is %s", id, key.id)
		}
	}
	return key, string(after) + text[end:], nil
}
