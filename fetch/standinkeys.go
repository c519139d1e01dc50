package fetch

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"errors"
	"hash"
	"slices"
)

// gcmSuite are two cipher suites of TLS 1.2 that differ only in the kind of the server's key.
type gcmSuite struct {
	ids  [2]uint16 // with ECDSA, with RSA
	key  int       // bytes
	hash func() hash.Hash
}

var gcmSuites = [...]gcmSuite{
	{[2]uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, 16, sha256.New},
	{[2]uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}, 32,
		sha512.New384},
}

// Sizes of AES-GCM in TLS 1.2 (RFC 5288, 3), and of verify_data (RFC 5246, 7.4.9).
const (
	implicitNonce = 4
	explicitNonce = 8
	finishedBytes = 12
	typeFinished  = 20
)

// prf is the PRF of RFC 5246, 5.
func (g *gcmSuite) prf(secret []byte, label string, seed []byte, n int) []byte {
	mac := hmac.New(g.hash, secret)
	sum := func(parts ...[]byte) []byte {
		mac.Reset()
		for _, p := range parts {
			mac.Write(p)
		}
		return mac.Sum(nil)
	}
	seed = slices.Concat([]byte(label), seed)
	var out []byte
	for a := sum(seed); len(out) < n; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:n]
}

// finished returns the Finished message of a side, client or server, for a transcript.
func (g *gcmSuite) finished(master []byte, side string, transcript []byte) []byte {
	h := g.hash()
	h.Write(transcript)
	return message(typeFinished, g.prf(master, side+" finished", h.Sum(nil), finishedBytes))
}

// gcmKeys are the keys of a connection, by who sends.
type gcmKeys struct{ client, server gcmKey }

type gcmKey struct {
	aead cipher.AEAD
	iv   []byte
}

// keys derives the keys (RFC 5246, 6.3).
func (g *gcmSuite) keys(master, clientRandom, serverRandom []byte) (*gcmKeys, error) {
	block := g.prf(master, "key expansion", slices.Concat(serverRandom, clientRandom), 2*g.key+2*implicitNonce)
	k := new(gcmKeys)
	for i, half := range [...]*gcmKey{&k.client, &k.server} {
		b, err := aes.NewCipher(block[i*g.key:][:g.key])
		if err != nil {
			return nil, err
		}
		if half.aead, err = cipher.NewGCM(b); err != nil {
			return nil, err
		}
		half.iv = block[2*g.key+i*implicitNonce:][:implicitNonce]
	}
	return k, nil
}

// head returns the additional data of a Finished, which is the first record with these keys.
func (k *gcmKey) head(n int) []byte {
	return []byte{0, 0, 0, 0, 0, 0, 0, 0, recordHandshake, 3, 3, byte(n >> 8), byte(n)}
}

// seal returns the record of a Finished. The nonce is the one of the record that it replaces, which nobody gets.
func (k *gcmKey) seal(m, nonce []byte) []byte {
	n := explicitNonce + len(m) + k.aead.Overhead()
	record := append([]byte{recordHandshake, 3, 3, byte(n >> 8), byte(n)}, nonce...)
	return k.aead.Seal(record, slices.Concat(k.iv, nonce), m, k.head(len(m)))
}

// open returns the Finished in a record.
func (k *gcmKey) open(record []byte) ([]byte, error) {
	sealed := record[recordHead:]
	n := len(sealed) - explicitNonce - k.aead.Overhead()
	if n < 0 {
		return nil, errors.New("a short Finished")
	}
	nonce := slices.Concat(k.iv, sealed[:explicitNonce])
	return k.aead.Open(nil, nonce, sealed[explicitNonce:], k.head(n))
}
