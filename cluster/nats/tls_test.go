//go:build !noembed

package nats

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca",
		&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// make writes NAME.pem and NAME.key.
func (a *authority) make(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return cert, key
}

func (a *authority) write(name string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.file(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// seed writes a new seed and returns it.
func (a *authority) seed(name string) string {
	a.t.Helper()
	seed, err := NewSeed()
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name, seed)
	return strings.TrimSpace(string(seed))
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// TestSecured: a server that listens with TLS, client certificates and a seed takes those who have them and
// nobody else. No secret is in an error or a warning.
func TestSecured(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.make("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.make("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	stranger := newAuthority(t)
	stranger.make("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	secrets := []string{a.seed("seed"), a.seed("other")}
	var mu sync.Mutex
	var said []string
	warn := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}
	owner := open(t, Options{Node: 9, Seed: a.file("seed"), CA: a.file("ca.pem"), Warn: warn,
		Embed: &Embed{Dir: a.file("broker"), Listen: "127.0.0.1:0", Cert: a.file("server.pem"),
			Key: a.file("server.key"), Sync: time.Minute}})
	if !owner.State().Connected {
		t.Fatal("the owner is not connected")
	}
	address := owner.Addr().String()
	right := Options{Crawl: "t1", URLs: []string{"tls://" + address}, CA: a.file("ca.pem"), Cert: a.file("client.pem"),
		Key: a.file("client.key"), Seed: a.file("seed"), StreamBytes: testStream, Warn: warn}
	for name, change := range map[string]func(*Options){
		"no seed":               func(o *Options) { o.Seed = "" },
		"another seed":          func(o *Options) { o.Seed = a.file("other") },
		"no client certificate": func(o *Options) { o.Cert, o.Key = "", "" },
		"stranger's certificate": func(o *Options) {
			o.Cert, o.Key = stranger.file("client.pem"), stranger.file("client.key")
		},
		"another CA": func(o *Options) { o.CA = stranger.file("ca.pem") },
		"no TLS": func(o *Options) {
			o.URLs, o.CA, o.Cert, o.Key = []string{"nats://" + address}, "", "", ""
		},
	} {
		o := right
		change(&o)
		e, err := Open(o)
		if err == nil {
			// A refusal of the client's certificate can be lost when the server closes the connection.
			if e.State().Connected || !strings.Contains(name, "certificate") {
				t.Errorf("%s: no error", name)
			}
			e.Close()
			continue
		}
		warn(err.Error())
	}
	for _, test := range transporttest.Tests() {
		if test.Name == "Order" || test.Name == "Ask" || test.Name == "Values" {
			test.Run(t, transporttest.Broker{Open: func(node int) cluster.Transport {
				o := right
				o.Node = node
				return open(t, o)
			}, StreamBytes: testStream})
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, text := range said {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in %q", text)
			}
		}
	}
}

// TestCreds: credentials of an account (JWT), on a server with an operator.
func TestCreds(t *testing.T) {
	t.Parallel()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		kp, err := create()
		must(t, err)
		public, err := kp.PublicKey()
		must(t, err)
		return kp, public
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	account, accountKey := pair(nkeys.CreateAccount)
	_, systemKey := pair(nkeys.CreateAccount)
	user, userKey := pair(nkeys.CreateUser)
	claims := jwt.NewAccountClaims(accountKey)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	accountJWT, err1 := claims.Encode(operator)
	systemJWT, err2 := jwt.NewAccountClaims(systemKey).Encode(operator)
	userJWT, err3 := jwt.NewUserClaims(userKey).Encode(account)
	seed, err4 := user.Seed()
	creds, err5 := jwt.FormatUserConfig(userJWT, seed)
	resolver := &natsserver.MemAccResolver{}
	for _, err := range []error{err1, err2, err3, err4, err5, resolver.Store(accountKey, accountJWT),
		resolver.Store(systemKey, systemJWT)} {
		must(t, err)
	}
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), TrustedKeys: []string{operatorKey}, AccountResolver: resolver,
		SystemAccount: systemKey})
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	name := filepath.Join(t.TempDir(), "creds")
	must(t, os.WriteFile(name, creds, 0o600))
	o := Options{Crawl: "c", URLs: []string{"nats://" + s.Addr().String()}}
	if e, err := Open(o); err == nil {
		e.Close()
		t.Error("connected without credentials")
	}
	o.Creds = name
	e := open(t, o)
	if err := <-e.Publish(context.Background(), 0, 0, "", []byte("x")); err != nil {
		t.Error(err)
	}
}
