// Package cluster connects the nodes of a crawl and carries records between them.
//
// A Transport moves messages from node to node, and keeps small values that all nodes see. Package
// cluster/nats implements it over NATS JetStream, cluster/mem in memory for tests, with faults.
// cluster/transporttest holds the tests of the contract.
//
// A transport carries; it is not trusted to keep. The promises of a crawl rest on the directories of its
// nodes alone. A transport may:
//
//   - lose messages that it acknowledged: single ones, the newest of a stream, or all of them;
//   - lose values that it acknowledged, and return older ones: with replicas, Get and Watch may lag;
//   - put a message into a stream more than once, even if Publish reports an error;
//   - take any time, and be unreachable for any time.
//
// A transport must not change or invent bytes. Apart from repetitions, it must deliver the messages of one
// sender in one stream in the order of their Publish calls. Readers still check all bytes, because other
// programs may write them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of a transport. NATS limits a message with its header to 1 MiB by default.
const (
	MaxMessageBytes = 1<<20 - 4096 // data of a message, request or answer
	MaxValueBytes   = 1<<20 - 4096 // a value
	MaxKeyBytes     = 200          // the key of a value
	MaxNodes        = 4096         // node numbers are 0 to MaxNodes-1
)

// Errors of a transport. They come wrapped; use errors.Is. A call also returns the error of its context. With
// any error other than ErrFull, ErrTooLarge, ErrExists, ErrChanged and ErrNotFound, the call may have taken
// effect, or may take effect later.
var (
	ErrAway        = errors.New("no connection to the broker")
	ErrFull        = errors.New("the broker has no room: the stream or bucket is at its limit")
	ErrTooLarge    = errors.New("too large for a message")
	ErrClosed      = errors.New("the transport is closed")
	ErrInterrupted = errors.New("interrupted: read again")              // from a Reader or Watcher
	ErrNotFound    = errors.New("no such value")                        // from Get
	ErrExists      = errors.New("the value exists")                     // from Create
	ErrChanged     = errors.New("the value was changed")                // from Update and Delete
	ErrNoAnswer    = errors.New("no node answers this kind of request") // from Ask
)

// Transport is the connection of one node to the others. All methods are safe for concurrent use. All calls
// return when ctx ends, and with ErrAway when the connection breaks or nothing answers for 10 s. Ask with a
// deadline in ctx, and Next of a Reader or Watcher, wait as long as ctx allows.
type Transport interface {
	// Publish hands a message to the stream of node to, and returns without waiting for the acknowledgement.
	// The channel receives exactly one result: nil when the transport acknowledged the message, ErrAway,
	// ErrFull, ErrTooLarge, ErrClosed, or that of ctx. It is buffered, so the caller need not receive.
	//
	// Messages with the same to and from stand in the stream in the order of the calls. If one of them fails,
	// later ones may still arrive. Publish blocks while MaxInFlight messages have no result. A transport uses
	// id to drop repetitions; "" disables this. It may drop a message only if the stream holds or held one
	// with the same id, so messages with the same id must be equal. Do not change data before the result
	// arrives.
	Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error

	// Read returns a Reader for the messages of node to's stream with a sequence of seq or more (seq 0 or 1:
	// all). If the stream ends below seq-1, it has lost messages. The Reader then begins with the oldest
	// message, and Stream().Last is less than seq-1.
	Read(ctx context.Context, to int, seq uint64) (Reader, error)

	// Purge drops the messages of node to's stream whose sequence is less than below. It may be repeated. If
	// the stream ends below below-1, it has lost messages, and Purge drops nothing. Sequences are never
	// reused: the next message gets the one after the last, even in an empty stream.
	Purge(ctx context.Context, to int, below uint64) error

	// Get returns a value, or ErrNotFound.
	Get(ctx context.Context, b Bucket, key string) (Value, error)
	// Put sets a value unconditionally, and returns its revision. data may be empty.
	Put(ctx context.Context, b Bucket, key string, data []byte) (uint64, error)
	// Create sets a value that does not exist, or returns ErrExists. Of many calls at once, one succeeds. For
	// a key of BucketNet that begins with LeasePrefix, it returns ErrFull while more than LeaseRoom of the
	// bucket's limit is used: the rest is for changes of existing values. Many nodes at once may exceed the
	// limit a little.
	Create(ctx context.Context, b Bucket, key string, data []byte) (uint64, error)
	// Update sets a value whose revision is revision, or returns ErrChanged.
	Update(ctx context.Context, b Bucket, key string, data []byte, revision uint64) (uint64, error)
	// Delete removes a value if its revision is revision (0: any), or returns ErrChanged. With revision 0, a
	// value that does not exist is no error. It needs no room.
	Delete(ctx context.Context, b Bucket, key string, revision uint64) error
	// Last returns the highest revision of the bucket. It falls only if the bucket lost changes.
	Last(ctx context.Context, b Bucket) (uint64, error)
	// Room returns the used bytes of the bucket and their limit.
	Room(ctx context.Context, b Bucket) (Room, error)
	// Watch returns a Watcher for the values whose keys match pattern: a key, in which a token may be * (any
	// token), and the last one > (one or more tokens). A Watcher of BucketNet may miss deletions.
	Watch(ctx context.Context, b Bucket, pattern string) (Watcher, error)

	// Ask sends a request to a node and returns its answer: ErrNoAnswer if the node is unreachable or answers
	// no requests of this kind. Nothing is repeated: after a lost request or answer, the call ends with ctx.
	Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error)
	// Tell sends a request to a node without waiting, and drops the answer. The request may be lost or late.
	Tell(ctx context.Context, to int, kind string, data []byte) error
	// Answer makes f answer requests of a kind to this node, until stop. At most MaxAnswers calls of f run at
	// once; a bounded number of requests waits, and further ones are lost. stop ends the context of f and
	// returns when no call of f runs, so f must not call it. A kind is one token, and has one f at a time.
	Answer(kind string, f func(ctx context.Context, from int, data []byte) []byte) (stop func(), err error)

	// State returns the state of the connection. It never blocks on the network.
	State() State
	// Close ends the connection. It returns when all goroutines of the transport have ended. Waiting calls
	// return ErrClosed.
	Close() error
}

// Bounds of concurrency in one Transport.
const (
	MaxInFlight = 256 // messages without a result
	MaxAnswers  = 64  // requests being answered, of one kind
)

// Reader delivers the messages of a stream in the order of their sequences, none twice. One goroutine uses it.
// It reads ahead by a bounded number of messages.
type Reader interface {
	// Next waits for a message. After an error other than that of ctx, the Reader delivers nothing more.
	// ErrInterrupted means that the Reader may have missed messages, because the connection broke or the
	// stream was made again. Then call Read with the sequence after the last message, and compare Stream.
	Next(ctx context.Context) (Message, error)
	// Stream describes the stream as Read found it.
	Stream() Stream
	// Close ends the Reader. It may be called while Next waits, and twice.
	Close()
}

// Message is one message of a stream.
type Message struct {
	Seq  uint64 // number in the stream, from 1; rises, with gaps
	From int    // the node that published it, by the subject; -1: unknown
	Data []byte // belongs to the receiver
}

// Stream describes the stream of a node. A stream that was lost and made again has a new Epoch, and its
// sequences begin at 1. A stream whose files were replaced by an older copy keeps its Epoch.
type Stream struct {
	Epoch       int64  // when it was made, by the broker's clock, in ns since 1970; compare for equality only
	First, Last uint64 // sequence of the oldest and the newest message; empty: First is Last+1
}

// Bucket names one of the two sets of values of a crawl.
type Bucket int

// The buckets.
const (
	BucketCrawl Bucket = iota // nodes, marks, table, settings
	BucketNet                 // leases of networks
	Buckets                   // their number
)

// LeasePrefix begins the keys of leases in BucketNet.
const LeasePrefix = "net."

// Room is the room of a bucket.
type Room struct {
	Bytes, Limit int64 // Limit 0: there is none
}

// Above reports whether more than a part of the room is used.
func (r Room) Above(part float64) bool {
	return r.Limit > 0 && float64(r.Bytes) > part*float64(r.Limit)
}

// LeaseRoom is the part of the room of BucketNet in which new leases are created. The rest is for leases that
// grow: a handed-over lease names the waiting nodes and back-offs.
const LeaseRoom = 7.0 / 8

// Value is a value of a bucket. A key consists of tokens with a dot between them; see CheckKey.
type Value struct {
	Key      string
	Data     []byte // belongs to the receiver
	Revision uint64 // rises with each change in the bucket
	Deleted  bool   // only from a Watcher
}

// Watcher delivers values and their changes. One goroutine uses it.
type Watcher interface {
	// Next waits for a value. It delivers every matching value, then reports the end of this list once by ok
	// false, then delivers each change. With replicas, the newest values may come as changes. Next may skip
	// all but the last of several changes of one key, and may deliver a value after the list if it changes
	// meanwhile. Revisions of one key rise.
	//
	// After an error other than that of ctx, the Watcher delivers nothing more. ErrInterrupted means the same
	// as for a Reader: watch again, and replace all values by the new list.
	Next(ctx context.Context) (v Value, ok bool, err error)
	// Close ends the Watcher. It may be called while Next waits, and twice.
	Close()
}

// State is the state of a connection.
type State struct {
	Connected bool
	Since     time.Time // when Connected changed last, with a monotonic clock
	Connects  uint64    // number of connections so far; if it rises, there was a gap
}

// CheckNode returns an error unless n is the number of a node.
func CheckNode(n int) error {
	if n < 0 || n >= MaxNodes {
		return fmt.Errorf("cluster: node %d is outside 0 to %d", n, MaxNodes-1)
	}
	return nil
}

// CheckKey returns an error unless key is valid: 1 to MaxKeyBytes bytes, tokens of a-z A-Z 0-9 - _ / = with a
// dot between them.
func CheckKey(key string) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("cluster: key %.40q… has %d bytes, want at most %d", key, len(key), MaxKeyBytes)
	}
	for token := range strings.SplitSeq(key, ".") {
		if !isToken(token) {
			return fmt.Errorf("cluster: key %q has a token %q; want letters, digits and - _ / =", key, token)
		}
	}
	return nil
}

// CheckPattern returns an error unless pattern is valid for Watch.
func CheckPattern(pattern string) error {
	if pattern == ">" {
		return nil
	}
	tokens := strings.Split(strings.TrimSuffix(pattern, ".>"), ".")
	for i, token := range tokens {
		if token == "*" {
			tokens[i] = "x"
		}
	}
	if CheckKey(strings.Join(tokens, ".")) != nil {
		return fmt.Errorf("cluster: %q is not a key pattern", pattern)
	}
	return nil
}

// CheckKind returns an error unless kind, of requests, is one token of at most 40 bytes.
func CheckKind(kind string) error {
	if len(kind) > 40 || !isToken(kind) {
		return fmt.Errorf("cluster: %q is not a kind of request", kind)
	}
	return nil
}

// Match reports whether a key matches a pattern; both must be valid.
func Match(pattern, key string) bool {
	for {
		p, pRest, pMore := strings.Cut(pattern, ".")
		k, kRest, kMore := strings.Cut(key, ".")
		switch {
		case p == ">" && !pMore:
			return true
		case p != "*" && p != k:
			return false
		case !pMore || !kMore:
			return pMore == kMore
		}
		pattern, key = pRest, kRest
	}
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-_/=", c) < 0 {
			return false
		}
	}
	return s != ""
}
