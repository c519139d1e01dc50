package botauth

import (
	"crypto/ed25519"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// testKeyFile is the key test-key-ed25519 of RFC 9421, B.1.4, as openssl writes it.
const testKeyFile = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
`

// testKeyID is its thumbprint, by the examples of the draft.
const testKeyID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"

func testKeys(t testing.TB) Keys {
	t.Helper()
	keys, err := ParseKeys([]byte(testKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestThumbprint(t *testing.T) {
	keys := testKeys(t)
	if got := keys[0].ID(); got != testKeyID {
		t.Errorf("thumbprint %s, want %s", got, testKeyID)
	}
	// RFC 8037, A.3.
	public, err := JWK{Kty: "OKP", Crv: "Ed25519", X: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}.Public()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Thumbprint(public), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("thumbprint %s, want %s", got, want)
	}
}

// TestRFC9421: B.2.6, the signature by Ed25519, made and verified.
func TestRFC9421(t *testing.T) {
	m := &Message{Method: "POST", Scheme: "https", Authority: "example.com", Path: "/foo",
		Query: "param=Value&Pet=dog",
		Header: http.Header{"Date": {"Tue, 20 Apr 2021 02:07:55 GMT"}, "Content-Type": {"application/json"},
			"Content-Length": {"18"}}}
	inputs, err := httpsfv.UnmarshalDictionary([]string{`sig-b26=("date" "@method" "@path" "@authority" ` +
		`"content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`})
	if err != nil {
		t.Fatal(err)
	}
	input, _ := inputs.Get("sig-b26")
	base, err := signatureBase(m, input.(httpsfv.InnerList))
	if err != nil {
		t.Fatal(err)
	}
	const wantBase = `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length")` +
		`;created=1618884473;keyid="test-key-ed25519"`
	if base != wantBase {
		t.Errorf("signature base\n%s\nwant\n%s", base, wantBase)
	}
	const want = ":wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"
	got, err := httpsfv.Marshal(httpsfv.NewItem(ed25519.Sign(testKeys(t)[0].private(), []byte(base))))
	if err != nil || got != want {
		t.Errorf("signature %s, %v, want %s", got, err, want)
	}
}

// TestComponents: the derived components of RFC 9421, 2.2, by its examples.
func TestComponents(t *testing.T) {
	m := &Message{Method: "POST", Scheme: "https", Authority: "www.Example.com:443", Path: "/path",
		Query: "param=value"}
	for name, want := range map[string]string{"@method": "POST", "@authority": "www.example.com", "@scheme": "https",
		"@path": "/path", "@query": "?param=value", "@request-target": "/path?param=value",
		"@target-uri": "https://www.example.com/path?param=value"} {
		if got, err := m.component(name, httpsfv.NewItem(name)); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	for authority, want := range map[string]string{"a:80": "a:80", "a:8443": "a:8443", "[::1]:443": "[::1]",
		"[::443]": "[::443]"} {
		if got := (&Message{Scheme: "https", Authority: authority}).authority(); got != want {
			t.Errorf("authority of %s is %s, want %s", authority, got, want)
		}
	}
	empty := &Message{Scheme: "http", Authority: "a:80"}
	for name, want := range map[string]string{"@path": "/", "@query": "?", "@request-target": "/",
		"@target-uri": "http://a/"} {
		if got, err := empty.component(name, httpsfv.NewItem(name)); err != nil || got != want {
			t.Errorf("empty %s is %q, %v, want %q", name, got, err, want)
		}
	}
}

// draftMessage is the request with a signature by Ed25519 in the draft's appendix "Test Vectors".
func draftMessage() *Message {
	return &Message{Method: "GET", Scheme: "https", Authority: "example.com", Path: "/path/to/resource",
		Header: http.Header{
			"Signature-Agent": {`agent2="https://signature-agent.test"`},
			"Signature-Input": {`sig2=("@authority" "signature-agent";key="agent2");created=1735689600` +
				`;keyid="` + testKeyID + `";alg="ed25519";expires=4889289600` +
				`;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="` +
				`;tag="web-bot-auth"`},
			"Signature": {"sig2=:" +
				"RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:"},
		}}
}

const century = 100 * 365 * 24 * time.Hour

func draftPolicy(t testing.TB) Policy {
	keys := testKeys(t)
	d := keys.Directory(time.Unix(1735689600, 0))
	return Policy{Now: time.Unix(1735689600, 0), MaxLife: century, Key: func(_, id string) (ed25519.PublicKey, error) {
		return d.Key(id, time.Unix(1735689600, 0))
	}}
}

func TestDraftRequest(t *testing.T) {
	v, err := Verify(draftMessage(), draftPolicy(t))
	if err != nil {
		t.Fatal(err)
	}
	if v.Label != "sig2" || v.KeyID != testKeyID || v.Agent != "https://signature-agent.test" ||
		v.Expires.Unix() != 4889289600 || len(v.Nonce) != 88 || len(v.Covers) != 2 {
		t.Errorf("verified %+v", v)
	}
}

// TestVerifyRefuses: each change to the draft's request has its error.
func TestVerifyRefuses(t *testing.T) {
	inputs := func(value string) func(*Message, *Policy) {
		return func(m *Message, _ *Policy) { m.Header.Set("Signature-Input", value) }
	}
	set := func(name, value string) func(*Message, *Policy) {
		return func(m *Message, _ *Policy) { m.Header.Set(name, value) }
	}
	agent := `"signature-agent";key="agent2"`
	params := `;created=1735689600;expires=1735689700;keyid="k";tag="web-bot-auth"`
	for name, c := range map[string]struct {
		change func(*Message, *Policy)
		want   error
	}{
		"other host":    {func(m *Message, _ *Policy) { m.Authority = "example.org" }, ErrMismatch},
		"other agent":   {set("Signature-Agent", `agent2="https://other.test"`), ErrMismatch},
		"no signature":  {func(m *Message, _ *Policy) { m.Header.Del("Signature-Input") }, ErrNoSignature},
		"other tag":     {inputs(`sig2=("@authority");tag="x"`), ErrNoSignature},
		"no agent":      {func(m *Message, _ *Policy) { m.Header.Del("Signature-Agent") }, ErrNoSignature},
		"legacy agent":  {set("Signature-Agent", `"https://signature-agent.test"`), ErrMalformed},
		"http agent":    {set("Signature-Agent", `agent2="http://signature-agent.test"`), ErrMalformed},
		"agent with p":  {set("Signature-Agent", `agent2="https://signature-agent.test";a=1`), ErrMalformed},
		"garbage":       {inputs("((("), ErrMalformed},
		"no bytes":      {set("Signature", `sig2="text"`), ErrMalformed},
		"short":         {set("Signature", "sig2=:AAAA:"), ErrMismatch},
		"long field":    {set("Signature", "sig2=:"+string(make([]byte, maxFieldBytes))), ErrMalformed},
		"not covered":   {inputs(`sig2=("@authority")` + params), ErrCoverage},
		"no authority":  {inputs(`sig2=(` + agent + `)` + params), ErrCoverage},
		"no expiry":     {inputs(`sig2=("@authority");created=1;keyid="";tag="web-bot-auth"`), ErrMalformed},
		"twice":         {inputs(`sig2=("@authority" "@authority" ` + agent + `)` + params), ErrMalformed},
		"unknown param": {inputs(`sig2=("@authority" ` + agent + ` "a";bs)` + params), ErrCoverage},
		"missing field": {inputs(`sig2=("@authority" ` + agent + ` "a")` + params), ErrCoverage},
		"req":           {inputs(`sig2=("@authority" ` + agent + ` "@method";req)` + params), ErrCoverage},
		"other key":     {inputs(`sig2=("@authority" ` + agent + `)` + params), ErrUnknownKey},
		"algorithm":     {inputs(`sig2=("@authority")` + params + `;alg="hmac-sha256"`), ErrAlgorithm},
		"future":        {func(_ *Message, p *Policy) { p.Now = p.Now.Add(-time.Second) }, ErrFuture},
		"expired":       {func(_ *Message, p *Policy) { p.Now = p.Now.Add(century) }, ErrExpired},
		"too long":      {func(_ *Message, p *Policy) { p.MaxLife = 0 }, ErrTooLong},
	} {
		m, p := draftMessage(), draftPolicy(t)
		c.change(m, &p)
		if v, err := Verify(m, p); !errors.Is(err, c.want) {
			t.Errorf("%s: verified %+v, %v, want %v", name, v, err, c.want)
		}
	}
	p := draftPolicy(t)
	p.Now, p.Skew = p.Now.Add(-time.Second), time.Second
	if _, err := Verify(draftMessage(), p); err != nil {
		t.Errorf("within the skew: %v", err)
	}
}

// draftDirectory is the draft's example "Signed Directory Response".
const draftDirectory = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"` + testKeyID + `",` +
	`"x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs","use":"sig"}]}`

func draftDirectoryFields() http.Header {
	return http.Header{
		"Content-Digest": {"sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"},
		"Signature-Input": {`binding=("@authority";req "content-digest");created=1735689600;expires=4889289600` +
			`;keyid="` + testKeyID + `";tag="http-message-signatures-directory"`},
		"Signature": {"binding=:" +
			"l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:"},
	}
}

func TestDraftDirectory(t *testing.T) {
	const host = "signature-agent.test"
	now := time.Unix(1735689600, 0)
	body, err := testKeys(t).Directory(now).Encode()
	if err != nil || string(body) != draftDirectory {
		t.Errorf("directory %s, %v, want %s", body, err, draftDirectory)
	}
	d, proven, err := VerifyDirectory(host, body, draftDirectoryFields(), now)
	if err != nil || len(proven) != 1 || proven[0].KeyID != testKeyID ||
		!proven[0].Expires.Equal(time.Unix(4889289600, 0)) || len(d.Keys) != 1 {
		t.Errorf("directory %+v, proven %+v, %v", d, proven, err)
	}
	other := draftDirectoryFields()
	other.Set("Content-Digest", "sha-256=:AAAA:")
	for name, c := range map[string]struct {
		host   string
		body   string
		fields http.Header
		now    time.Time
		want   error
	}{
		"other host":    {"other.test", draftDirectory, draftDirectoryFields(), now, ErrMismatch},
		"other body":    {host, draftDirectory + " ", draftDirectoryFields(), now, ErrMismatch},
		"other digest":  {host, draftDirectory, other, now, ErrMismatch},
		"no proof":      {host, draftDirectory, nil, now, ErrNoSignature},
		"before it was": {host, draftDirectory, draftDirectoryFields(), now.Add(-time.Second), ErrFuture},
	} {
		d, proven, err := VerifyDirectory(c.host, []byte(c.body), c.fields, c.now)
		if !errors.Is(err, c.want) || len(proven) > 0 || len(d.Keys) != 1 {
			t.Errorf("%s: %d keys, proven %+v, %v, want %v", name, len(d.Keys), proven, err, c.want)
		}
	}
}
