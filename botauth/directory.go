package botauth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// JWK is a public key as a JSON Web Key (RFC 7517; RFC 8037). Times are in seconds since 1970; 0: none.
type JWK struct {
	Kty       string `json:"kty"`
	Crv       string `json:"crv,omitempty"`
	Kid       string `json:"kid,omitempty"`
	X         string `json:"x,omitempty"`
	Use       string `json:"use,omitempty"`
	NotBefore int64  `json:"nbf,omitempty"`
	Expires   int64  `json:"exp,omitempty"`
}

// Directory is a JSON Web Key Set with the keys of a signer.
type Directory struct {
	Keys []JWK `json:"keys"`
}

// Directory returns the directory at a time. Keys that will sign have the time from which they do; those that did have
// the time when their last signature expires.
func (k Keys) Directory(now time.Time) Directory {
	var d Directory
	for i, key := range k.Listed(now) {
		j := JWK{Kty: "OKP", Crv: "Ed25519", Kid: key.id, X: base64url.EncodeToString(key.public), Use: "sig"}
		if !key.From.IsZero() {
			j.NotBefore = key.From.Unix()
		}
		if until := k.Until(i); !until.IsZero() {
			j.Expires = until.Unix()
		}
		d.Keys = append(d.Keys, j)
	}
	return d
}

// Encode returns the directory as JSON, in one line.
func (d Directory) Encode() ([]byte, error) { return json.Marshal(d) }

const (
	// MaxDirectoryBytes bounds a directory that ParseDirectory accepts. A key takes about 200 bytes.
	MaxDirectoryBytes = 256 << 10
	// maxDirectoryKeys bounds its keys.
	maxDirectoryKeys = 256
)

// ParseDirectory parses a directory. Keys of other kinds than Ed25519 are kept, but Key does not find them. A private
// key, a key that cannot be decoded and an id that is not the key's thumbprint are errors.
func ParseDirectory(body []byte) (Directory, error) {
	if len(body) > MaxDirectoryBytes {
		return Directory{}, fmt.Errorf("directory: %d bytes, the limit is %d", len(body), MaxDirectoryBytes)
	}
	var set struct {
		Keys []struct {
			JWK
			Private any `json:"d"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return Directory{}, errors.New("directory: not a JSON Web Key Set")
	}
	switch {
	case len(set.Keys) == 0:
		return Directory{}, errors.New("directory: it has no keys")
	case len(set.Keys) > maxDirectoryKeys:
		return Directory{}, fmt.Errorf("directory: %d keys, the limit is %d", len(set.Keys), maxDirectoryKeys)
	}
	var d Directory
	for i, j := range set.Keys {
		if j.Private != nil {
			return Directory{}, fmt.Errorf("directory: key %d is a private key: anyone can sign with it", i+1)
		}
		if j.isEd25519() {
			if _, err := j.Public(); err != nil {
				return Directory{}, fmt.Errorf("directory: key %d: %w", i+1, err)
			}
		}
		d.Keys = append(d.Keys, j.JWK)
	}
	return d, nil
}

func (j JWK) isEd25519() bool { return j.Kty == "OKP" && j.Crv == "Ed25519" }

// Public returns the key, whose id, if it has one, is its thumbprint.
func (j JWK) Public() (ed25519.PublicKey, error) {
	if !j.isEd25519() {
		return nil, fmt.Errorf("the key is of kind %q %q, want OKP Ed25519", j.Kty, j.Crv)
	}
	public, err := base64url.DecodeString(j.X)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("x is not %d bytes in base64url", ed25519.PublicKeySize)
	}
	if id := Thumbprint(public); j.Kid != "" && j.Kid != id {
		return nil, fmt.Errorf("kid is %q, but the thumbprint is %s", j.Kid, id)
	}
	return public, nil
}

// Key returns the Ed25519 key with a thumbprint, if it is valid at a time.
func (d Directory) Key(id string, now time.Time) (ed25519.PublicKey, error) {
	j, public := d.find(id)
	switch {
	case public == nil:
		return nil, fmt.Errorf("%w: the directory has no key %s", ErrUnknownKey, id)
	case j.NotBefore > now.Add(clockSkew).Unix():
		return nil, fmt.Errorf("%w: key %s is valid from %s", ErrUnknownKey, id, unixText(j.NotBefore))
	case j.Expires != 0 && j.Expires <= now.Unix():
		return nil, fmt.Errorf("%w: key %s was valid until %s", ErrUnknownKey, id, unixText(j.Expires))
	}
	return public, nil
}

// find returns the Ed25519 key with a thumbprint, or nil.
func (d Directory) find(id string) (JWK, ed25519.PublicKey) {
	for _, j := range d.Keys {
		if public, err := j.Public(); err == nil && Thumbprint(public) == id {
			return j, public
		}
	}
	return JWK{}, nil
}

func unixText(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// Proof has the fields of a response that prove that the host of a directory has its private keys.
type Proof struct {
	ContentDigest, SignatureInput, Signature string
}

// digest returns the value of Content-Digest (RFC 9530).
func digest(body []byte) (string, error) {
	sum := sha256.Sum256(body)
	d := httpsfv.NewDictionary()
	d.Add("sha-256", httpsfv.NewItem(sum[:]))
	return httpsfv.Marshal(d)
}

// Prove returns the proof of a directory at a time, with a signature by each key in it that is listed, valid from now
// until expires. The host, with its port unless that is 443, is the one that serves the directory. The body is what it
// serves.
func (k Keys) Prove(host string, body []byte, now, expires time.Time) (Proof, error) {
	sum, err := digest(body)
	if err != nil {
		return Proof{}, err
	}
	m := &Message{Header: http.Header{"Content-Digest": {sum}},
		Request: &Message{Scheme: "https", Authority: host}}
	inputs, signatures := httpsfv.NewDictionary(), httpsfv.NewDictionary()
	for i, key := range k.Listed(now) {
		authority := httpsfv.NewItem("@authority")
		authority.Params.Add("req", true)
		input := httpsfv.InnerList{Items: []httpsfv.Item{authority, httpsfv.NewItem("content-digest")},
			Params: parameters(key.id, now, expires, "", DirectoryTag)}
		base, err := signatureBase(m, input)
		if err != nil {
			return Proof{}, err
		}
		label := fmt.Sprint("binding", i)
		inputs.Add(label, input)
		signatures.Add(label, httpsfv.NewItem(ed25519.Sign(key.private(), []byte(base))))
	}
	p := Proof{ContentDigest: sum}
	if p.SignatureInput, err = httpsfv.Marshal(inputs); err != nil {
		return Proof{}, err
	}
	p.Signature, err = httpsfv.Marshal(signatures)
	return p, err
}

// VerifyDirectory parses a directory that host served with these fields, and returns with it the signatures which prove
// that the host has their keys. Without any, err says why; the directory is valid nevertheless unless it has no keys.
func VerifyDirectory(host string, body []byte, header http.Header, now time.Time) (d Directory, proven []Verified,
	err error) {
	if d, err = ParseDirectory(body); err != nil {
		return d, nil, err
	}
	if err := checkDigest(header.Values("Content-Digest"), body); err != nil {
		return d, nil, err
	}
	m := &Message{Header: header, Request: &Message{Scheme: "https", Authority: host}}
	signatures, err := parseSignatures(m, DirectoryTag)
	if err != nil {
		return d, nil, err
	}
	var first error
	for _, s := range signatures {
		var err error
		switch {
		case !s.covers(`"@authority";req`) || !s.covers(`"content-digest"`):
			err = fmt.Errorf(`%w: signature %s must cover "@authority";req and "content-digest"`,
				ErrCoverage, s.Label)
		default:
			err = s.verify(m, Policy{Now: now, MaxLife: maxProofLife, Tag: DirectoryTag,
				Key: func(_, id string) (ed25519.PublicKey, error) {
					if _, public := d.find(id); public != nil {
						return public, nil
					}
					return nil, fmt.Errorf("%w: the directory has no key %s", ErrUnknownKey, id)
				}})
		}
		if err == nil {
			proven = append(proven, s.Verified)
		} else if first == nil {
			first = err
		}
	}
	if len(proven) == 0 {
		return d, nil, first
	}
	return d, proven, nil
}

// maxProofLife bounds the life of a directory's signature, which has to outlive the copies in lists of others.
const maxProofLife = 100 * 365 * 24 * time.Hour

// checkDigest compares a Content-Digest with a body.
func checkDigest(values []string, body []byte) error {
	d, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return fmt.Errorf("%w: Content-Digest: %w", ErrMalformed, err)
	}
	member, _ := d.Get("sha-256")
	item, ok := member.(httpsfv.Item)
	if !ok {
		return fmt.Errorf("%w: the response has no sha-256 in Content-Digest", ErrNoSignature)
	}
	sum := sha256.Sum256(body)
	if got, ok := item.Value.([]byte); !ok || string(got) != string(sum[:]) {
		return fmt.Errorf("%w: Content-Digest does not match the body", ErrMismatch)
	}
	return nil
}
