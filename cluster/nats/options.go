package nats

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drumbeat/cluster"
)

// Defaults and limits.
const (
	DefaultStreamBytes = 1 << 30 // of Options.StreamBytes

	maxMessageBytes = 1 << 20                  // with its header; of a stream
	crawlBytes      = cluster.BucketCrawlBytes // limit of the bucket DB_<c>
	callTime        = 10 * time.Second         // of a call; of Ask only without a deadline
	markerTime      = time.Hour                // how long the broker keeps the marker of a deleted key
)

// Options of a transport.
type Options struct {
	Crawl string // id of the crawl: 1 to 32 of a-z 0-9
	Node  int    // number of this node

	URLs  []string // external servers: tls://host:port, on loopback also nats://host:port
	Embed *Embed   // or one in this process

	CA        string // file of PEM certificates that sign the servers' (and, embedded, the clients'); "": the system's
	Cert, Key string // files of a client certificate and its key
	Creds     string // file of NATS credentials: JWT and seed
	Seed      string // file of an NKey seed; see NewSeed

	// Secret is the secret of the crawl. Without Creds and Seed, and with servers on loopback, nodes and
	// embedded servers derive their credentials from it. External servers without authentication are used,
	// with a warning. Without Secret, an embedded server on loopback accepts every client.
	Secret []byte

	StreamBytes int64 // limit of this node's stream; 0: DefaultStreamBytes
	// Limit of the bucket of leases; 0: cluster.DefaultLeasesBytes. It raises the limit of an existing
	// bucket, but never lowers it.
	LeasesBytes int64
	Replicas    int // of streams and buckets that this node makes, 1 to 5; 0: 1

	// Observe connects for reading only: missing buckets are not made, and calls for them return ErrNotFound.
	Observe bool

	Warn func(text string) // if set, receives warnings of client and server, from many goroutines at once

	retry time.Duration // between attempts to connect, in tests; 0: 1 s
}

// Embed describes the server in this process.
type Embed struct {
	Dir    string // its files; made if missing
	Listen string // host:port for the other nodes; "": none, this process only
	// Cert and Key are files of the server's certificate and key. Beyond loopback they and Options.Seed are
	// required. With Options.CA, clients need certificates too.
	Cert, Key  string
	StoreBytes int64         // limit of all streams and buckets together; 0: DefaultStreamBytes
	Sync       time.Duration // how often to sync files; 0: before each acknowledgement

	// Routes are the addresses, host:port, at which the embedded servers of a crawl reach each other,
	// MinRoutes or MaxRoutes with RouteListen, this server's own, among them. They keep Options.Replicas
	// copies, and work while more than half of them are running. Beyond loopback they require Cert, Key and
	// Options.CA, and accept only servers with a certificate of that CA, for servers and for clients.
	RouteListen string
	Routes      []string
}

// Numbers of Embed.Routes. Two servers survive no failure, and four survive only one, like three.
const (
	MinRoutes = 3
	MaxRoutes = 5
)

// Validate returns all faults of the options.
func (o *Options) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster/nats: "+format, args...)) }
	if !validCrawl(o.Crawl) {
		fault("crawl %q: want 1 to 32 of a-z 0-9", o.Crawl)
	}
	if err := cluster.CheckNode(o.Node); err != nil {
		errs = append(errs, err)
	}
	if (len(o.URLs) == 0) == (o.Embed == nil) {
		fault("want either URLs of servers or an embedded one")
	}
	for _, u := range o.URLs {
		if err := checkURL(u); err != nil {
			errs = append(errs, err)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		fault("a client certificate needs a key, and a key needs a certificate")
	}
	if o.Creds != "" && o.Seed != "" {
		fault("want a credentials file or a seed file, not both")
	}
	if o.Creds != "" && o.Embed != nil {
		fault("an embedded server needs a seed file, not a credentials file")
	}
	if o.StreamBytes < 0 || o.StreamBytes > 0 && o.StreamBytes < 2*maxMessageBytes {
		fault("stream of %d bytes: want %d or more", o.StreamBytes, 2*maxMessageBytes)
	}
	if len(o.Secret) > 0 && len(o.Secret) < leastSecret {
		fault("a secret of %d bytes: want %d or more", len(o.Secret), leastSecret)
	}
	if o.LeasesBytes != 0 && o.LeasesBytes < cluster.LeastLeasesBytes {
		fault("leases of %d bytes: want %d or more", o.LeasesBytes, cluster.LeastLeasesBytes)
	}
	if o.Replicas < 0 || o.Replicas > 5 || o.Replicas > 1 && o.Embed != nil && o.Replicas > len(o.Embed.Routes) {
		fault("%d replicas: want 1 to 5, and at most one per embedded server", o.Replicas)
	}
	if o.Embed != nil {
		errs = append(errs, o.Embed.validate(o.Seed), o.Embed.validateRoutes(o.CA))
	}
	return errors.Join(errs...)
}

func (e *Embed) validate(seed string) error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster/nats: "+format, args...)) }
	if e.Dir == "" {
		fault("an embedded server needs a directory")
	}
	if e.Sync < 0 || e.StoreBytes < 0 {
		fault("embedded server: sync %v and store %d must not be negative", e.Sync, e.StoreBytes)
	}
	if (e.Cert == "") != (e.Key == "") {
		fault("a server certificate needs a key, and a key needs a certificate")
	}
	if e.Listen == "" {
		return errors.Join(errs...)
	}
	host, _, err := net.SplitHostPort(e.Listen)
	if err != nil {
		fault("listen address %q: %w", e.Listen, err)
	} else if !isLoopback(host) && (e.Cert == "" || seed == "") {
		fault("listening on %s requires a server certificate and a seed file: it is not loopback", e.Listen)
	}
	return errors.Join(errs...)
}

func (e *Embed) validateRoutes(ca string) error {
	if e.RouteListen == "" && len(e.Routes) == 0 {
		return nil
	}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster/nats: "+format, args...)) }
	if n := len(e.Routes); n < MinRoutes || n > MaxRoutes || n%2 == 0 {
		fault("routes to %d servers: want %d or %d, including this one", n, MinRoutes, MaxRoutes)
	}
	if !slices.Contains(e.Routes, e.RouteListen) {
		fault("routes %s lack %q, this server's own", strings.Join(e.Routes, ", "), e.RouteListen)
	}
	if e.Listen == "" {
		fault("a server with routes also needs an address for the nodes")
	}
	seen := map[string]bool{}
	for _, route := range e.Routes {
		host, port, err := net.SplitHostPort(route)
		if number, bad := strconv.ParseUint(port, 10, 16); err == nil && (bad != nil || number == 0) {
			err = errors.New("want a port of 1 to 65535")
		}
		switch {
		case err != nil:
			fault("route %q: %w", route, err)
		case host == "" || seen[route]:
			fault("route %q: want a different address for each host", route)
		case !isLoopback(host) && (e.Cert == "" || ca == ""):
			fault("the route to %s requires a server certificate and a CA: it is not loopback", route)
		}
		seen[route] = true
	}
	return errors.Join(errs...)
}

func validCrawl(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return id != "" && len(id) <= 32
}

// checkURL never quotes an address with a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("cluster/nats: a server address is not a URL")
	case u.User != nil:
		return fmt.Errorf("cluster/nats: server %s: put credentials in a file, not in the address", u.Host)
	case u.Hostname() == "" || u.Scheme != "tls" && u.Scheme != "nats" || u.Path != "" || u.RawQuery != "":
		return fmt.Errorf("cluster/nats: server %s: want tls://HOST:PORT", text)
	case u.Scheme != "tls" && !isLoopback(u.Hostname()):
		return fmt.Errorf("cluster/nats: server %s: want tls://, because the host is not loopback", text)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewSeed returns a new NKey seed, as text for a file that all nodes of a crawl share.
func NewSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("cluster/nats: create a seed: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("cluster/nats: create a seed: %w", err)
	}
	return append(seed, '\n'), nil
}

// seedKey returns the public key of the seed in a file.
func seedKey(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("cluster/nats: read the seed: %w", err)
	}
	defer clear(text)
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return "", fmt.Errorf("cluster/nats: %s is not a user seed: %w", name, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// pool returns the certificates of the CA file, or nil without one.
func (o *Options) pool() (*x509.CertPool, error) {
	if o.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("cluster/nats: read the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cluster/nats: %s has no PEM certificate", o.CA)
	}
	return pool, nil
}

// client returns the client's options. It reads all files once, to report a missing one now. The client reads
// keys again for each connection, so they can be renewed.
func (o *Options) client() ([]natsgo.Option, error) {
	list := []natsgo.Option{
		natsgo.Name(fmt.Sprintf("drumbeat %s node %d", o.Crawl, o.Node)),
		natsgo.CustomInboxPrefix(fmt.Sprintf("db.%s.i.%d", o.Crawl, o.Node)),
		natsgo.MaxReconnects(-1), natsgo.ReconnectWait(cmp.Or(o.retry, time.Second)), natsgo.IgnoreAuthErrorAbort(),
		natsgo.ReconnectBufSize(-1), // none: see the package comment
		natsgo.PingInterval(10 * time.Second), natsgo.MaxPingsOutstanding(2),
		natsgo.Timeout(5 * time.Second), natsgo.FlusherTimeout(callTime),
	}
	if o.Seed != "" {
		if _, err := seedKey(o.Seed); err != nil {
			return nil, err
		}
		opt, err := natsgo.NkeyOptionFromSeed(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("cluster/nats: %s is not a user seed", o.Seed)
		}
		list = append(list, opt)
	}
	if o.derives() {
		derived, err := o.derived()
		if err != nil {
			return nil, err
		}
		list = append(list, derived...)
	}
	if o.Creds != "" {
		if f, err := os.Open(o.Creds); err != nil {
			return nil, fmt.Errorf("cluster/nats: read the credentials: %w", err)
		} else if err = f.Close(); err != nil {
			return nil, fmt.Errorf("cluster/nats: read the credentials: %w", err)
		}
		list = append(list, natsgo.UserCredentials(o.Creds))
	}
	secure := false
	for _, u := range o.URLs {
		secure = secure || strings.HasPrefix(u, "tls://")
	}
	if !secure {
		return list, nil
	}
	pool, err := o.pool()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if o.Cert != "" {
		if _, err := tls.LoadX509KeyPair(o.Cert, o.Key); err != nil {
			return nil, fmt.Errorf("cluster/nats: client certificate: %w", err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
			return &pair, err
		}
	}
	return append(list, natsgo.Secure(conf)), nil
}
