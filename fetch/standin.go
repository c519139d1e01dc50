package fetch

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// standIn makes a handshake with a server whose certificate crypto/x509 cannot parse, so that its pages can be
// fetched in spite of it. crypto/tls takes no other parser. standIn sits below it, speaks TLS 1.2 with ECDHE and
// AES-GCM, and gives it a certificate of ours in place of the server's:
//
//	ClientHello        the server gets it without extended_master_secret, so that the secrets do not depend on
//	                   what follows
//	ServerHello        with the ECDSA suite of the same cipher and hash, since the stand-in has an ECDSA key
//	Certificate        the stand-in
//	ServerKeyExchange  the server's parameters, signed by the stand-in
//	Finished           each side gets the one of the handshake that it saw
//
// Everything else passes unchanged: the keys depend on the randoms and on the key exchange alone. The server's
// signature is not verified, since its key may be unreadable, too. So nothing says who the server is, as with
// any bad certificate: the verdict is VerdictInvalid, and requests that need a good certificate never come here.
type standIn struct {
	net.Conn
	// Handshake messages as crypto/tls and as the server saw them, and bytes of an incomplete one of the server.
	ours, theirs, part []byte
	clientRandom       []byte
	serverRandom       []byte
	negotiated         uint16    // the server's choice, before serverHello replaces it
	suite              *gcmSuite // nil: not chosen yet, or not one of ours; then crypto/tls ends the handshake
	master             []byte
	keys               *gcmKeys
	out                []byte // records for crypto/tls
	sentCCS, gotCCS    bool   // ChangeCipherSpec: the next message is Finished
	sent, got          bool   // Finished: what follows passes unchanged
	records            int    // of the server
}

// Types of records and messages (RFC 5246, 6.2.1 and 7.4).
const (
	recordCCS       = 20
	recordHandshake = 22

	typeHelloRequest      = 0
	typeClientHello       = 1
	typeServerHello       = 2
	typeCertificate       = 11
	typeServerKeyExchange = 12

	extendedMasterSecret = 23
	namedCurve           = 3
	ecdsaWithSHA256      = uint16(tls.ECDSAWithP256AndSHA256)
)

const (
	recordHead = 5
	maxRecord  = 16<<10 + 2048 // RFC 5246, 6.2.3
	// maxShake bounds the messages of a handshake; crypto/tls allows a Certificate of 256 KiB.
	maxShake = 512 << 10
	// maxRecords bounds its records, which may be empty. Servers send one to twenty.
	maxRecords = 1 << 10
)

// standInCert is made once and has no secret worth keeping: whoever has its key can do no more than the server
// without any.
var standInCert = sync.OnceValues(func() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// newStandIn returns a standIn over a connection, and makes the configuration one for it.
func newStandIn(below net.Conn, cfg *tls.Config) *standIn {
	s := &standIn{Conn: below}
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	cfg.CipherSuites = nil
	for _, suite := range gcmSuites {
		cfg.CipherSuites = append(cfg.CipherSuites, suite.ids[:]...)
	}
	cfg.ClientSessionCache, cfg.SessionTicketsDisabled = nil, true
	cfg.KeyLogWriter = keyLog{s}
	return s
}

// keyLog takes the master secret, which crypto/tls writes before its Finished.
type keyLog struct{ s *standIn }

// Write implements io.Writer: "CLIENT_RANDOM", the random and the master secret in hexadecimal.
func (k keyLog) Write(line []byte) (int, error) {
	fields := strings.Fields(string(line))
	if len(fields) != 3 || fields[0] != "CLIENT_RANDOM" {
		return 0, errors.New("unknown line of the key log")
	}
	var err error
	k.s.master, err = hex.DecodeString(fields[2])
	return len(line), err
}

// Write implements net.Conn. crypto/tls writes whole records, each with one message.
func (s *standIn) Write(p []byte) (int, error) {
	if s.sent {
		return s.Conn.Write(p)
	}
	var out []byte
	for rest := p; len(rest) > 0; {
		n := recordHead
		if len(rest) >= recordHead {
			n += int(binary.BigEndian.Uint16(rest[3:]))
		}
		if len(rest) < n {
			return 0, errors.New("stand-in: half a record")
		}
		record, err := rest[:n], error(nil)
		if rest = rest[n:]; record[0] == recordHandshake && !s.sent {
			if record, err = s.sendMessage(record); err != nil {
				return 0, fmt.Errorf("stand-in: %w", err)
			}
		}
		s.sentCCS = s.sentCCS || record[0] == recordCCS
		out = append(out, record...)
	}
	if _, err := s.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sendMessage returns the record that the server gets in place of one of crypto/tls.
func (s *standIn) sendMessage(record []byte) ([]byte, error) {
	if s.sentCCS {
		return s.sendFinished(record)
	}
	m := record[recordHead:]
	if len(m) < 4 || int(m[1])<<16|int(binary.BigEndian.Uint16(m[2:])) != len(m)-4 {
		return nil, errors.New("a record of crypto/tls is not one message")
	}
	s.ours = append(s.ours, m...)
	if m[0] == typeClientHello {
		var err error
		if s.clientRandom, m, err = withoutEMS(m); err != nil {
			return nil, err
		}
		record = append(slices.Clone(record[:3]), byte(len(m)>>8), byte(len(m)))
		record = append(record, m...)
	}
	s.theirs = append(s.theirs, m...)
	return record, nil
}

// sendFinished returns the record with our Finished for the server.
func (s *standIn) sendFinished(record []byte) ([]byte, error) {
	if s.suite == nil || s.master == nil || len(record) < recordHead+explicitNonce {
		return nil, errors.New("no keys for Finished")
	}
	var err error
	if s.keys, err = s.suite.keys(s.master, s.clientRandom, s.serverRandom); err != nil {
		return nil, err
	}
	s.ours = append(s.ours, s.suite.finished(s.master, "client", s.ours)...)
	m := s.suite.finished(s.master, "client", s.theirs)
	s.theirs = append(s.theirs, m...)
	s.sent = true
	return s.keys.client.seal(m, record[recordHead:][:explicitNonce]), nil
}

// Read implements net.Conn.
func (s *standIn) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.got {
			return s.Conn.Read(p)
		}
		if err := s.readRecord(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// readRecord reads a record of the server and adds to out what crypto/tls gets for it.
func (s *standIn) readRecord() error {
	record := make([]byte, recordHead, 512)
	if _, err := io.ReadFull(s.Conn, record); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(record[3:]))
	if s.records++; n > maxRecord || s.records > maxRecords {
		return fmt.Errorf("stand-in: record %d has %d bytes", s.records, n)
	}
	record = append(record, make([]byte, n)...)
	if _, err := io.ReadFull(s.Conn, record[recordHead:]); err != nil {
		return err
	}
	switch {
	case record[0] != recordHandshake:
		s.gotCCS = s.gotCCS || record[0] == recordCCS
		s.out = append(s.out, record...)
		return nil
	case s.gotCCS:
		return s.gotFinished(record)
	}
	s.part = append(s.part, record[recordHead:]...)
	if len(s.part)+len(s.theirs) > maxShake {
		return fmt.Errorf("stand-in: a handshake of more than %d bytes", maxShake)
	}
	for len(s.part) >= 4 {
		n := 4 + int(s.part[1])<<16 + int(binary.BigEndian.Uint16(s.part[2:]))
		if n > len(s.part) {
			break
		}
		if err := s.gotMessage(s.part[:n]); err != nil {
			return fmt.Errorf("stand-in: %w", err)
		}
		s.part = s.part[n:]
	}
	return nil
}

// gotMessage adds to out what crypto/tls gets for a message of the server.
func (s *standIn) gotMessage(m []byte) error {
	if m[0] == typeHelloRequest {
		s.out = appendRecords(s.out, m) // it is in no transcript
		return nil
	}
	s.theirs = append(s.theirs, m...)
	var err error
	switch m[0] {
	case typeServerHello:
		m, err = s.serverHello(slices.Clone(m))
	case typeCertificate:
		m, err = standInMessage()
	case typeServerKeyExchange:
		m, err = s.keyExchange(m)
	}
	s.ours = append(s.ours, m...)
	s.out = appendRecords(s.out, m)
	return err
}

// serverHello notes the random and the suite, and replaces the suite by that of ECDSA.
func (s *standIn) serverHello(m []byte) ([]byte, error) {
	const random, id = 4 + 2, 4 + 2 + 32
	if len(m) < id+1 || len(m) < id+1+int(m[id])+2 {
		return nil, errors.New("a short ServerHello")
	}
	s.serverRandom = bytes.Clone(m[random:id])
	suite := m[id+1+int(m[id]):]
	s.negotiated = binary.BigEndian.Uint16(suite)
	for i := range gcmSuites {
		if slices.Contains(gcmSuites[i].ids[:], binary.BigEndian.Uint16(suite)) {
			s.suite = &gcmSuites[i]
			binary.BigEndian.PutUint16(suite, s.suite.ids[0])
		}
	}
	return m, nil
}

// keyExchange returns the ServerKeyExchange with the server's parameters (RFC 8422, 5.4) and our signature.
func (s *standIn) keyExchange(m []byte) ([]byte, error) {
	body := m[4:]
	if len(body) < 4 || body[0] != namedCurve || len(body) < 4+int(body[3]) {
		return nil, errors.New("a short ServerKeyExchange")
	}
	params := body[:4+int(body[3])]
	cert, err := standInCert()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(slices.Concat(s.clientRandom, s.serverRandom, params))
	signature, err := ecdsa.SignASN1(rand.Reader, cert.PrivateKey.(*ecdsa.PrivateKey), sum[:])
	if err != nil {
		return nil, err
	}
	body = binary.BigEndian.AppendUint16(bytes.Clone(params), ecdsaWithSHA256)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(signature))), signature...)
	return message(typeServerKeyExchange, body), nil
}

// gotFinished checks the server's Finished, and adds that of our handshake to out.
func (s *standIn) gotFinished(record []byte) error {
	if s.keys == nil {
		return errors.New("stand-in: Finished without keys")
	}
	m, err := s.keys.server.open(record)
	if err != nil {
		return fmt.Errorf("stand-in: %w", err)
	}
	if !bytes.Equal(m, s.suite.finished(s.master, "server", s.theirs)) {
		return errors.New("stand-in: the server's Finished is not that of this handshake")
	}
	m = s.suite.finished(s.master, "server", s.ours)
	s.out = append(s.out, s.keys.server.seal(m, record[recordHead:][:explicitNonce])...)
	s.got, s.ours, s.theirs, s.part = true, nil, nil, nil
	return nil
}

// standInMessage returns the Certificate message of the stand-in.
func standInMessage() ([]byte, error) {
	cert, err := standInCert()
	if err != nil {
		return nil, err
	}
	der := cert.Certificate[0]
	one := append([]byte{0, byte(len(der) >> 8), byte(len(der))}, der...)
	return message(typeCertificate, append([]byte{0, byte(len(one) >> 8), byte(len(one))}, one...)), nil
}

// message returns a handshake message.
func message(kind byte, body []byte) []byte {
	return append([]byte{kind, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// appendRecords appends a handshake message as records.
func appendRecords(dst, m []byte) []byte {
	for part := range slices.Chunk(m, 16<<10) {
		dst = append(dst, recordHandshake, 3, 3, byte(len(part)>>8), byte(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

// withoutEMS returns the random of a ClientHello, and the message without extended_master_secret.
func withoutEMS(m []byte) (random, out []byte, err error) {
	const at = 4 + 2 + 32
	bad := errors.New("a ClientHello of unknown form")
	if len(m) < at+1 {
		return nil, nil, bad
	}
	i := at + 1 + int(m[at])
	for _, width := range [...]int{2, 1} { // cipher suites, compression methods
		if len(m) < i+width {
			return nil, nil, bad
		}
		n := int(m[i])
		if width == 2 {
			n = n<<8 | int(m[i+1])
		}
		i += width + n
	}
	if len(m) < i+2 {
		return nil, nil, bad
	}
	var kept []byte
	for ext := m[i+2:]; len(ext) > 0; {
		if len(ext) < 4 || len(ext) < 4+int(binary.BigEndian.Uint16(ext[2:])) {
			return nil, nil, bad
		}
		n := 4 + int(binary.BigEndian.Uint16(ext[2:]))
		if binary.BigEndian.Uint16(ext) != extendedMasterSecret {
			kept = append(kept, ext[:n]...)
		}
		ext = ext[n:]
	}
	body := binary.BigEndian.AppendUint16(bytes.Clone(m[4:i]), uint16(len(kept)))
	return bytes.Clone(m[6:at]), message(typeClientHello, append(body, kept...)), nil
}
