package nats

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// On loopback nodes need no files of credentials: they derive theirs from the shared secret, Options.Secret.
// The server knows a public key, and a client signs the server's nonce, so a program that listens at a
// server's address learns nothing of use. Servers authenticate to each other by a password.

// derives reports whether credentials come from the secret: no others are given, and all servers are on
// loopback without TLS.
func (o *Options) derives() bool {
	for _, u := range o.URLs {
		if strings.HasPrefix(u, "tls://") {
			return false
		}
	}
	return len(o.Secret) > 0 && o.Seed == "" && o.Creds == "" && (o.Embed == nil || o.Embed.Cert == "")
}

// leastSecret is the least size of Options.Secret, in bytes.
const leastSecret = 16

// derive returns 32 bytes for a use.
func (o *Options) derive(use string) []byte {
	key, err := hkdf.Key(sha256.New, o.Secret, []byte(o.Crawl), "drumbeat broker "+use, 32)
	if err != nil {
		panic("BUG: cluster/nats: " + err.Error()) // 32 bytes are few
	}
	return key
}

// user returns the pair of keys of all nodes.
func (o *Options) user() (nkeys.KeyPair, string, error) {
	seed, err := nkeys.EncodeSeed(nkeys.PrefixByteUser, o.derive("user"))
	if err != nil {
		return nil, "", fmt.Errorf("cluster/nats: derive a key: %w", err)
	}
	defer clear(seed)
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, "", fmt.Errorf("cluster/nats: derive a key: %w", err)
	}
	public, err := pair.PublicKey()
	return pair, public, err
}

// routePassword returns the password between embedded servers.
func (o *Options) routePassword() string { return hex.EncodeToString(o.derive("routes")) }

// derived returns the client's options for the derived key.
func (o *Options) derived() ([]natsgo.Option, error) {
	pair, public, err := o.user()
	if err != nil {
		return nil, err
	}
	return []natsgo.Option{natsgo.Nkey(public, pair.Sign), natsgo.SetCustomDialer(&openDialer{warn: o.Warn})}, nil
}

// openDialer also connects to servers without authentication, which an operator may run on loopback: a client
// with a key requires a nonce. It warns once.
type openDialer struct {
	warn   func(string)
	warned atomic.Bool
}

func (d *openDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, dialTime)
	if err != nil {
		return nil, err
	}
	return &openConn{Conn: conn, dialer: d, address: address}, nil
}

const (
	dialTime = 5 * time.Second // to connect
	mostInfo = 64 << 10        // bytes of a server's first line; it has some 500
)

// openConn adds a nonce to the first line of a server that sends none. One goroutine reads from it at a time.
type openConn struct {
	net.Conn
	dialer  *openDialer
	address string
	begun   bool
	rest    []byte // read and not yet delivered
}

func (c *openConn) Read(p []byte) (int, error) {
	if !c.begun {
		c.begun = true
		if err := c.first(); err != nil {
			return 0, err
		}
	}
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// first reads the first line, INFO and a JSON object.
func (c *openConn) first() error {
	for !bytes.Contains(c.rest, []byte("\r\n")) {
		if len(c.rest) > mostInfo {
			return errors.New("cluster/nats: no NATS server answers")
		}
		part := make([]byte, 4096)
		n, err := c.Conn.Read(part)
		if c.rest = append(c.rest, part[:n]...); err != nil && n == 0 {
			if len(c.rest) > 0 && errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	line, after, _ := bytes.Cut(c.rest, []byte("\r\n"))
	var info map[string]any
	object, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok || json.Unmarshal(object, &info) != nil || info["nonce"] != nil {
		return nil // the client judges
	}
	if c.dialer.warn != nil && !c.dialer.warned.Swap(true) {
		c.dialer.warn("the server at " + c.address +
			" requires no credentials: every user of this machine can read and change" +
			" the messages between the nodes (--cluster-seed, --cluster-creds)")
	}
	info["nonce"] = "none"
	object, err := json.Marshal(info)
	if err != nil {
		return err
	}
	c.rest = append(append(append([]byte("INFO "), object...), "\r\n"...), after...)
	return nil
}
