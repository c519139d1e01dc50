//go:build !noembed

package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"drumbeat/cluster"
)

// startTime bounds the start, in which the server reads and checks its store.
const startTime = 2 * time.Minute

type embedded struct {
	s      *natsserver.Server
	routed bool
}

// startServer starts the server and waits until it takes connections.
func startServer(o *Options) (server, error) {
	conf, err := serverOptions(o)
	if err != nil {
		return nil, err
	}
	s, err := natsserver.NewServer(conf)
	if err != nil {
		return nil, fmt.Errorf("cluster/nats: embedded server: %w", err)
	}
	log := &serverLog{warn: o.Warn}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTime) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("cluster/nats: embedded server does not start: %s", log.last())
	}
	return embedded{s, len(o.Embed.Routes) > 0}, nil
}

func serverOptions(o *Options) (*natsserver.Options, error) {
	em := o.Embed
	conf := &natsserver.Options{
		ServerName: fmt.Sprintf("drumbeat-%s-%d", o.Crawl, o.Node),
		DontListen: em.Listen == "", NoSigs: true, NoSystemAccount: false,
		JetStream: true, StoreDir: em.Dir, DisableJetStreamBanner: true,
		JetStreamMaxMemory: 64 << 20, // consumers only
		JetStreamMaxStore:  em.StoreBytes, StreamMaxBufferedSize: 32 << 20,
		SyncAlways: em.Sync == 0, SyncInterval: em.Sync,
		MaxPayload: maxMessageBytes, MaxPending: 64 << 20, MaxConn: 1024,
	}
	if em.StoreBytes == 0 {
		conf.JetStreamMaxStore = cluster.BrokerDisk(1, DefaultStreamBytes, o.LeasesBytes)
	}
	if err := os.MkdirAll(em.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster/nats: embedded server: %w", err)
	}
	if o.Seed != "" {
		key, err := seedKey(o.Seed)
		if err != nil {
			return nil, err
		}
		conf.Nkeys = []*natsserver.NkeyUser{{Nkey: key}}
	}
	if o.derives() {
		pair, key, err := o.user()
		if err != nil {
			return nil, err
		}
		pair.Wipe()
		conf.Nkeys = []*natsserver.NkeyUser{{Nkey: key}}
	}
	if em.Listen == "" {
		return conf, nil
	}
	host, port, err := net.SplitHostPort(em.Listen)
	if err != nil {
		return nil, err
	}
	if conf.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("cluster/nats: listen address %q: %w", em.Listen, err)
	}
	if conf.Port == 0 {
		conf.Port = natsserver.RANDOM_PORT
	}
	conf.Host = host
	if err := em.route(conf, o); err != nil {
		return nil, err
	}
	if em.Cert == "" {
		return conf, nil
	}
	pair, err := tls.LoadX509KeyPair(em.Cert, em.Key)
	if err != nil {
		return nil, fmt.Errorf("cluster/nats: server certificate: %w", err)
	}
	conf.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if conf.TLSConfig.ClientCAs, err = o.pool(); err != nil {
		return nil, err
	}
	if conf.TLSConfig.ClientCAs != nil {
		conf.TLSVerify, conf.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert
	}
	conf.TLS, conf.TLSTimeout = true, 5
	return conf, nil
}

// route connects the server to the others.
func (e *Embed) route(conf *natsserver.Options, o *Options) error {
	if len(e.Routes) == 0 {
		return nil
	}
	host, port, err := net.SplitHostPort(e.RouteListen)
	if err != nil {
		return err
	}
	// Nodes know all servers; addresses that servers see of each other may not be in their certificates.
	conf.Cluster = natsserver.ClusterOpts{Name: "drumbeat-" + o.Crawl, Host: host, NoAdvertise: true}
	if conf.Cluster.Port, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("cluster/nats: route %q: %w", e.RouteListen, err)
	}
	var user *url.Userinfo
	if o.derives() {
		conf.Cluster.Username, conf.Cluster.Password = "drumbeat", o.routePassword()
		user = url.UserPassword(conf.Cluster.Username, conf.Cluster.Password)
	}
	for _, route := range e.Routes {
		if route != e.RouteListen {
			conf.Routes = append(conf.Routes, &url.URL{Scheme: "nats-route", Host: route, User: user})
		}
	}
	if e.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		return fmt.Errorf("cluster/nats: server certificate: %w", err)
	}
	pool, err := o.pool()
	if err != nil {
		return err
	}
	conf.Cluster.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	conf.Cluster.TLSTimeout = 5
	return nil
}

// lastReads is the time for which a server with routes keeps running after its node. Nodes that find the
// crawl over at the same time read a last value each second, which requires more than half of the servers.
const lastReads = 3 * time.Second

func (e embedded) dial() natsgo.Option { return natsgo.InProcessServer(e.s) }

func (e embedded) addr() net.Addr { return e.s.Addr() }

func (e embedded) close() {
	if e.routed {
		<-time.After(lastReads)
	}
	e.s.Shutdown()
	e.s.WaitForShutdown()
}

// serverLog passes on warnings and errors of the server, and drops the rest.
type serverLog struct {
	warn func(string)

	mu   sync.Mutex // guards text
	text []string   // the last warnings
}

func (l *serverLog) say(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.text = append(l.text[max(0, len(l.text)-4):], text)
	l.mu.Unlock()
	if l.warn != nil {
		l.warn("broker: " + text)
	}
}

// last returns the last warnings.
func (l *serverLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.New(strings.Join(l.text, "; "))
}

func (l *serverLog) Noticef(string, ...any)         {}
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}
func (l *serverLog) Warnf(format string, v ...any)  { l.say(format, v...) }
func (l *serverLog) Errorf(format string, v ...any) { l.say(format, v...) }
func (l *serverLog) Fatalf(format string, v ...any) { l.say(format, v...) }
