package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"drumbeat/cluster"
)

// Transport is the connection of a node to NATS. It is an cluster.Transport.
type Transport struct {
	o      Options
	nc     *natsgo.Conn
	js     jetstream.JetStream
	server server // nil: external

	run      context.Context // ends at Close
	stop     context.CancelFunc
	inFlight chan struct{}  // one element for each message without a result
	running  sync.WaitGroup // goroutines that wait for acknowledgements

	mu       sync.Mutex // guards what follows; no I/O under it
	state    cluster.State
	conn     context.Context // ends when the connection breaks
	connEnd  context.CancelFunc
	streams  map[int]jetstream.Stream // found in this connection
	buckets  [cluster.Buckets]jetstream.KeyValue
	answered map[string]bool // kinds with a function
	leases   leaseRoom
	closed   bool

	fewer sync.Once // guards the warning that others keep more copies
}

// server is an embedded server.
type server interface {
	dial() natsgo.Option
	addr() net.Addr // nil: it does not listen
	close()
}

// Open starts the embedded server, if there is one, and connects. If external servers cannot be reached, Open
// returns a transport without a connection, which keeps trying. Refused credentials and certificates are
// errors, unless the server closes the connection without a reason.
func Open(o Options) (*Transport, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.StreamBytes == 0 {
		o.StreamBytes = DefaultStreamBytes
	}
	o.LeasesBytes = cmp.Or(o.LeasesBytes, cluster.DefaultLeasesBytes)
	o.Replicas = max(1, o.Replicas)
	e := &Transport{o: o, inFlight: make(chan struct{}, cluster.MaxInFlight), answered: map[string]bool{}}
	e.run, e.stop = context.WithCancel(context.Background())
	e.state.Since = time.Now()
	e.conn, e.connEnd = context.WithCancel(e.run)
	e.connEnd()
	list, err := o.client()
	if err != nil {
		return nil, err
	}
	if o.Embed != nil {
		if e.server, err = startServer(&o); err != nil {
			return nil, err
		}
		list = append(list, e.server.dial())
	}
	if err := e.connect(append(list, e.handlers()...)); err != nil {
		e.stop()
		if e.server != nil {
			e.server.close()
		}
		return nil, fmt.Errorf("cluster/nats: connect: %w", err)
	}
	return e, nil
}

func (e *Transport) connect(list []natsgo.Option) error {
	urls := strings.Join(e.o.URLs, ",")
	nc, err := natsgo.Connect(urls, list...)
	var network *net.OpError
	if errors.Is(err, natsgo.ErrNoServers) || errors.Is(err, natsgo.ErrTimeout) ||
		errors.Is(err, io.EOF) || // closed at once, as by a balancer without servers
		errors.As(err, &network) && network.Op != "remote error" { // which is a TLS alert
		e.warn("no connection yet: " + err.Error())
		nc, err = natsgo.Connect(urls, append(list, natsgo.RetryOnFailedConnect(true))...)
	}
	if err != nil {
		return err
	}
	e.nc = nc
	if e.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(time.Minute),
		jetstream.WithPublishAsyncMaxPending(4*cluster.MaxInFlight)); err != nil {
		nc.Close()
		return err
	}
	if nc.IsConnected() {
		e.up() // the handler is called too, later
	}
	return nil
}

func (e *Transport) handlers() []natsgo.Option {
	return []natsgo.Option{
		natsgo.ConnectHandler(func(*natsgo.Conn) { e.up() }),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { e.down(nil); e.up() }),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { e.down(err) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { e.warn(err.Error()) }),
	}
}

// up notes that there is a connection.
func (e *Transport) up() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Connected || e.closed {
		return
	}
	e.state = cluster.State{Connected: true, Since: time.Now(), Connects: e.state.Connects + 1}
	e.conn, e.connEnd = context.WithCancel(e.run)
	e.streams = map[int]jetstream.Stream{}
	e.buckets = [cluster.Buckets]jetstream.KeyValue{}
	e.leases = leaseRoom{}
}

// down notes that the connection broke.
func (e *Transport) down(err error) {
	e.mu.Lock()
	was := e.state.Connected
	if was {
		e.state.Connected, e.state.Since = false, time.Now()
		e.connEnd()
	}
	closed := e.closed
	e.mu.Unlock()
	if was && !closed && err != nil {
		e.warn("connection lost: " + err.Error())
	}
}

func (e *Transport) warn(text string) {
	if e.o.Warn != nil {
		e.o.Warn(text)
	}
}

// State returns the state of the connection.
func (e *Transport) State() cluster.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// Addr returns the address on which the embedded server listens, or nil.
func (e *Transport) Addr() net.Addr {
	if e.server == nil {
		return nil
	}
	return e.server.addr()
}

// Close ends the connection, then the embedded server.
func (e *Transport) Close() error {
	e.mu.Lock()
	was := e.closed
	e.closed = true
	e.state.Connected, e.state.Since = false, time.Now()
	e.mu.Unlock()
	if was {
		return nil
	}
	e.stop()
	e.js.CleanupPublisher()
	e.nc.Close()
	e.running.Wait()
	if e.server != nil {
		e.server.close()
	}
	return nil
}

// call begins a call. It returns ErrClosed or ErrAway, or a context that ends with ctx, after most, with the
// connection and at Close. The bound is needed: an answer in flight when the connection breaks never comes,
// nor does that of a stream without a leader.
func (e *Transport) call(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc, error) {
	e.mu.Lock()
	closed, conn := e.closed, e.conn
	e.mu.Unlock()
	if closed {
		return nil, nil, cluster.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, lose := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(conn, func() { lose(cluster.ErrAway) })
	if conn.Err() != nil {
		unhook()
		lose(nil)
		return nil, nil, cluster.ErrAway
	}
	limit, cancel := context.WithTimeoutCause(ctx, most, cluster.ErrAway)
	return limit, func() { cancel(); unhook(); lose(nil) }, nil
}

// begin registers a goroutine for which Close waits, unless Close has begun. The goroutine calls
// running.Done.
func (e *Transport) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
}

// explain translates an error of the client, in a call with the context ctx, into one of the contract.
func (e *Transport) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	var of error
	switch {
	case e.run.Err() != nil:
		return cluster.ErrClosed
	case errors.Is(context.Cause(ctx), cluster.ErrAway):
		of = cluster.ErrAway
	case errors.Is(err, cluster.ErrAway), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, natsgo.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		of = cluster.ErrTooLarge
	case errors.As(err, &api) && isFull(api):
		of = cluster.ErrFull
	case isAway(err), errors.As(err, &api) && hasNoLeader(api):
		of = cluster.ErrAway
	default:
		return fmt.Errorf("cluster/nats: %s: %w", what, err)
	}
	return fmt.Errorf("cluster/nats: %s: %w (%v)", what, of, err)
}

// isFull reports whether the server's answer names a reached limit of bytes: of the stream (the server has
// one code for all failures to store, so the text decides), the account or the server.
func isFull(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case 10077: // stream store failed
		return strings.Contains(err.Description, "maximum")
	case 10002, 10023, 10028, 10047: // limits of the account; of the server: resources, memory, storage
		return true
	}
	return false
}

// hasNoLeader reports whether too few servers are running to answer.
func hasNoLeader(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case 10004, 10005, 10008, 10009: // cluster not available, too few servers, no leader, not active
		return true
	}
	return false
}

func isAway(err error) bool {
	for _, of := range []error{natsgo.ErrConnectionClosed, natsgo.ErrConnectionDraining, natsgo.ErrDisconnected,
		natsgo.ErrReconnectBufExceeded, natsgo.ErrConnectionReconnecting, natsgo.ErrNoResponders, natsgo.ErrTimeout,
		natsgo.ErrStaleConnection, jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound,
		jetstream.ErrBucketNotFound, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerDoesNotExist,
		jetstream.ErrServerShutdown, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs} {
		if errors.Is(err, of) {
			return true
		}
	}
	var network net.Error
	return errors.As(err, &network)
}

var _ cluster.Transport = (*Transport)(nil)
