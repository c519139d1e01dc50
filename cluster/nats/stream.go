package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"drumbeat/cluster"
)

func (e *Transport) streamName(to int) string { return fmt.Sprintf("DB_%s_%d", e.o.Crawl, to) }

func (e *Transport) subject(to, from int) string {
	return fmt.Sprintf("db.%s.l.%d.%d", e.o.Crawl, to, from)
}

// stream returns the stream of a node. Once in each connection it looks the stream up, and makes a missing
// one.
func (e *Transport) stream(ctx context.Context, to int) (jetstream.Stream, error) {
	if err := cluster.CheckNode(to); err != nil {
		return nil, err
	}
	e.mu.Lock()
	s, conn := e.streams[to], e.conn
	e.mu.Unlock()
	if s != nil {
		return s, nil
	}
	conf := jetstream.StreamConfig{
		Name: e.streamName(to), Subjects: []string{fmt.Sprintf("db.%s.l.%d.*", e.o.Crawl, to)},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxBytes: e.o.StreamBytes, MaxMsgSize: maxMessageBytes, Replicas: e.o.Replicas,
	}
	s, err := e.js.Stream(ctx, conf.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if s, err = e.js.CreateStream(ctx, conf); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = e.js.Stream(ctx, conf.Name) // another node was faster
		}
	case err == nil && to == e.o.Node && s.CachedInfo().Config.MaxBytes != conf.MaxBytes:
		changed := s.CachedInfo().Config
		changed.MaxBytes = conf.MaxBytes
		s, err = e.js.UpdateStream(ctx, changed)
	}
	if err == nil {
		e.replicate(ctx, s, fmt.Sprintf("the stream of node %d", to))
		// A message that names another stream as expected is refused, not stored.
		err = e.settle(ctx, &natsgo.Msg{Subject: e.subject(to, e.o.Node),
			Header: natsgo.Header{jetstream.ExpectedStreamHeader: {"none"}}})
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", conf.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if conn == e.conn {
		e.streams[to] = s
	}
	return s, nil
}

// settle repeats a request without effect until a server answers it. The servers of a cluster learn of a new
// stream or consumer one after the other, and lose earlier messages to it.
func (e *Transport) settle(ctx context.Context, msg *natsgo.Msg) error {
	for {
		short, cancel := context.WithTimeout(ctx, time.Second) // without a leader no server answers
		_, err := e.nc.RequestMsgWithContext(short, msg)
		cancel()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if !errors.Is(err, natsgo.ErrNoResponders) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return natsgo.ErrNoResponders
		}
	}
}

// forget makes the next call look the stream up again.
func (e *Transport) forget(to int) {
	e.mu.Lock()
	delete(e.streams, to)
	e.mu.Unlock()
}

// Publish implements cluster.Transport. The transport has a goroutine for each message without a result.
func (e *Transport) Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error {
	result := make(chan error, 1)
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		result <- err
		return result
	}
	future, err := e.send(ctx, to, from, id, data)
	if err != nil {
		cancel()
		result <- e.explain(ctx, "publish", err)
		return result
	}
	go func() {
		defer e.running.Done()
		defer cancel()
		var err error
		select {
		case <-future.Ok():
		case err = <-future.Err():
		case <-ctx.Done():
			err = ctx.Err()
		}
		<-e.inFlight
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			e.forget(to)
		}
		result <- e.explain(ctx, "publish", err)
	}()
	return result
}

// send waits until one more message may be in flight and hands it to the client.
func (e *Transport) send(ctx context.Context, to, from int, id string, data []byte) (jetstream.PubAckFuture, error) {
	if len(data) > cluster.MaxMessageBytes {
		return nil, fmt.Errorf("%d bytes: %w", len(data), cluster.ErrTooLarge)
	}
	if err := cluster.CheckNode(from); err != nil {
		return nil, err
	}
	if _, err := e.stream(ctx, to); err != nil {
		return nil, err
	}
	select {
	case e.inFlight <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !e.begin() {
		<-e.inFlight
		return nil, cluster.ErrClosed
	}
	// The client would repeat a message without a stream after later ones.
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if id != "" {
		opts = append(opts, jetstream.WithMsgID(id))
	}
	future, err := e.js.PublishMsgAsync(&natsgo.Msg{Subject: e.subject(to, from), Data: data}, opts...)
	if err != nil {
		e.running.Done()
		<-e.inFlight
	}
	return future, err
}

// Purge implements cluster.Transport.
func (e *Transport) Purge(ctx context.Context, to int, below uint64) error {
	if below <= 1 {
		return cluster.CheckNode(to)
	}
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		return err
	}
	defer cancel()
	s, err := e.stream(ctx, to)
	if err != nil {
		return e.explain(ctx, "purge", err)
	}
	info, err := s.Info(ctx)
	// The server would drop all, and continue with the sequence below.
	if err == nil && below <= info.State.LastSeq+1 {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(below))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		e.forget(to)
	}
	return e.explain(ctx, "purge", err)
}

// Read implements cluster.Transport.
func (e *Transport) Read(ctx context.Context, to int, seq uint64) (cluster.Reader, error) {
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		return nil, err
	}
	defer cancel()
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	e.forget(to) // read a current description
	s, err := e.stream(ctx, to)
	if err != nil {
		return nil, e.explain(ctx, "read", err)
	}
	r := &reader{prefix: fmt.Sprintf("db.%s.l.%d.", e.o.Crawl, to), seq: seq}
	info := s.CachedInfo()
	r.stream = cluster.Stream{Epoch: info.Created.UnixNano(), First: info.State.FirstSeq, Last: info.State.LastSeq}
	if info.State.Msgs == 0 {
		r.stream.First = r.stream.Last + 1
	}
	if seq > r.stream.Last+1 {
		r.seq = r.stream.First
	}
	r.feed, err = e.feed(ctx, conn, s, readAhead, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, r.seq)})
	if err != nil {
		return nil, e.explain(ctx, "read", err)
	}
	return r, nil
}

type reader struct {
	*feed
	prefix string // of subjects; the node that sent follows
	stream cluster.Stream
	seq    uint64 // where it begins
}

func (r *reader) Stream() cluster.Stream { return r.stream }

func (r *reader) Next(ctx context.Context) (cluster.Message, error) {
	msg, meta, err := r.next(ctx)
	for err == nil && meta.Sequence.Stream < r.seq {
		msg, meta, err = r.next(ctx) // a lagging replica begins at its own end
	}
	if err != nil {
		return cluster.Message{}, err
	}
	from, err := strconv.Atoi(strings.TrimPrefix(msg.Subject(), r.prefix))
	if err == nil {
		err = cluster.CheckNode(from)
	}
	if err != nil {
		// Another program wrote it. The receiver refuses messages without a node's sums.
		from = -1
	}
	return cluster.Message{Seq: meta.Sequence.Stream, From: from, Data: msg.Data()}, nil
}

// Bounds of the broker's read-ahead.
const (
	readAhead  = 32 // of 1 MiB at most
	watchAhead = 256
)

// feed is a consumer that ends at the first sign of a gap.
type feed struct {
	e     *Transport
	conn  context.Context // context of its connection
	s     jetstream.Stream
	name  string
	iter  jetstream.MessagesContext
	run   context.Context // ends at Close
	close context.CancelFunc
	err   error // why it ended

	last    uint64 // number of the last message, in the consumer
	waiting uint64 // how many messages there were at the beginning
	more    uint64 // how many the broker had after the last message
}

func (e *Transport) feed(ctx, conn context.Context, s jetstream.Stream, ahead int,
	conf jetstream.ConsumerConfig) (*feed, error) {
	conf.AckPolicy, conf.MemoryStorage, conf.Replicas = jetstream.AckNonePolicy, true, 1
	conf.InactiveThreshold = time.Minute
	consumer, err := s.CreateConsumer(ctx, conf)
	if err != nil {
		return nil, err
	}
	info := consumer.CachedInfo()
	// An unparsable request for delivery is refused.
	next := &natsgo.Msg{Subject: fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", info.Stream, info.Name),
		Data: []byte("{")}
	if err := e.settle(ctx, next); err != nil {
		return nil, err
	}
	f := &feed{e: e, conn: conn, s: s, name: info.Name, waiting: info.NumPending, more: info.NumPending}
	f.iter, err = consumer.Messages(jetstream.PullMaxMessages(ahead), jetstream.PullExpiry(10*time.Second),
		jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return nil, err
	}
	f.run, f.close = context.WithCancel(conn)
	context.AfterFunc(f.run, f.iter.Stop)
	return f, nil
}

// next returns the next message of the consumer.
func (f *feed) next(ctx context.Context) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	if f.err != nil {
		return nil, nil, f.err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	msg, err := f.iter.Next(jetstream.NextContext(ctx))
	if err != nil {
		if ctx.Err() != nil && f.run.Err() == nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, f.end(err.Error())
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, nil, f.end(err.Error())
	}
	if meta.Sequence.Consumer != f.last+1 {
		return nil, nil, f.end(fmt.Sprintf("message %d of the consumer follows %d", meta.Sequence.Consumer, f.last))
	}
	f.last++
	f.more = meta.NumPending
	return msg, meta, nil
}

func (f *feed) end(why string) error {
	switch {
	case f.e.run.Err() != nil:
		f.err = cluster.ErrClosed
	case f.conn.Err() != nil:
		f.err = fmt.Errorf("cluster/nats: read: %w (%w)", cluster.ErrInterrupted, cluster.ErrAway)
	default:
		f.err = fmt.Errorf("cluster/nats: read: %w (%s)", cluster.ErrInterrupted, why)
	}
	f.close()
	return f.err
}

// Close ends the feed. The broker drops the consumer by itself after a minute; Close asks it to do so now.
func (f *feed) Close() {
	was := f.run.Err() != nil
	f.close()
	if was || f.conn.Err() != nil {
		return
	}
	// Without a reply subject, the request does not wait.
	_ = f.e.nc.Publish(fmt.Sprintf("$JS.API.CONSUMER.DELETE.%s.%s", f.s.CachedInfo().Config.Name, f.name), nil)
}
