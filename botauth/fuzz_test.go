package botauth

import (
	"crypto/ed25519"
	"net/http"
	"testing"
	"time"
)

// FuzzVerify: Verify takes any fields, and none but the vector's, as its parser reads them, are valid.
func FuzzVerify(f *testing.F) {
	m := draftMessage()
	f.Add(m.Header.Get("Signature-Agent"), m.Header.Get("Signature-Input"), m.Header.Get("Signature"))
	d := draftDirectoryFields()
	f.Add(d.Get("Content-Digest"), d.Get("Signature-Input"), d.Get("Signature"))
	f.Add(`a="https://a"`, `a=("@authority" "signature-agent";key="a");created=1;expires=2;keyid="";tag="web-bot-auth"`,
		`a=::`)
	keys := testKeys(f)
	now := time.Unix(1735689600, 0)
	f.Fuzz(func(t *testing.T, agent, input, value string) {
		m := draftMessage()
		m.Header = http.Header{"Signature-Agent": {agent}, "Signature-Input": {input}, "Signature": {value},
			"Content-Digest": {agent}}
		key := func(string, string) (ed25519.PublicKey, error) { return keys[0].Public(), nil }
		v, err := Verify(m, Policy{Now: now, MaxLife: century, Key: key})
		if err == nil && (v.Agent != "https://signature-agent.test" || v.Created.Unix() != 1735689600) {
			t.Errorf("verified %+v", v)
		}
		_, proven, err := VerifyDirectory("signature-agent.test", []byte(draftDirectory), m.Header, now)
		if (err == nil) != (len(proven) > 0) {
			t.Errorf("proven %+v, %v", proven, err)
		}
	})
}

// FuzzParseAccept: what a site asks for can be signed, and the signature is valid.
func FuzzParseAccept(f *testing.F) {
	f.Add(`sig1=("@authority" "signature-agent";key="sig1");created;expires;nonce="a";tag="web-bot-auth"`)
	f.Add(`a=("@path" "@method"), b=();alg="ed25519"`)
	s := newSigner(f, testKeys(f))
	f.Fuzz(func(t *testing.T, value string) {
		ask, ok := ParseAccept([]string{value})
		if !ok {
			return
		}
		m := &Message{Method: "GET", Scheme: "https", Authority: "example.com", Path: "/a"}
		fields, err := s.Answer(m, ask, start)
		if err != nil {
			t.Fatal(err)
		}
		m.Header = fields.header()
		if v, err := verifyBy(s, m, start); err != nil || ask.Nonce != "" && v.Nonce != ask.Nonce {
			t.Errorf("%+v: verified %+v, %v", ask, v, err)
		}
	})
}

// FuzzParseKeys: what parses encodes to what parses the same.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(testKeyFile))
	f.Add([]byte("Key: " + testKeyID + "\nSigns-From: 2026-11-29T17:00:00Z\n" + testKeyFile))
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := ParseKeys(file)
		if err != nil {
			return
		}
		encoded, err := keys.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKeys(encoded)
		if err != nil || len(again) != len(keys) || again[0].ID() != keys[0].ID() ||
			!again[0].From.Equal(keys[0].From) {
			t.Errorf("%v, then %v, %v", keys, again, err)
		}
	})
}

// FuzzParseDirectory: each Ed25519 key of a directory is found by its thumbprint.
func FuzzParseDirectory(f *testing.F) {
	f.Add([]byte(draftDirectory))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AA"},{"kty":"OKP","crv":"Ed25519","x":"","d":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := ParseDirectory(body)
		if err != nil {
			return
		}
		for _, j := range d.Keys {
			if public, err := j.Public(); err == nil {
				if _, found := d.find(Thumbprint(public)); found == nil {
					t.Errorf("key %+v not found", j)
				}
			}
		}
	})
}
