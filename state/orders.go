package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Order is a URL that the operator has enqueued (changes.OpEnqueue), as a checkpoint keeps it.
type Order struct {
	Key  uint64 // of the URL
	Host uint64 // key of its host
	// Own says that the URL was new: the order's record is that of the unique URL. Otherwise it is a second one.
	Own bool
	// Stored says that the order has been fetched, and its page waits for the verdict on its body.
	Stored bool
	// Done says that the order has left the crawl. If another record of the URL still waits, it ends without a fetch.
	Done bool
	// Urgent says that the order is on its way to RAM, and neither there nor deferred: passes must not wait.
	Urgent bool
	// Deadline is the Unix second by which a URL of --watch is to be fetched, NoDeadline without one; 0: it is none, or
	// it has been counted.
	Deadline int64
	// Visits are what the order's visit found (weburl.Record.Visits), if Done. In an outbox, those of an order that
	// waits are its weburl.Record.
	Visits []byte
}

// NoDeadline is the deadline of a URL that is watched without one.
const NoDeadline = math.MaxInt64

// Bits of a coded Order.
const (
	orderOwn = 1 << iota
	orderStored
	orderDone
	orderUrgent
	orderWatched // a deadline of 8 bytes follows the bits
	orderBits    = orderOwn | orderStored | orderDone | orderUrgent | orderWatched
)

// orderBytes is the length of a coded Order without its visits: key, host, bits.
const orderBytes = 8 + 8 + 1

// AppendOrder appends the coding of an order for DumpRecords.
func AppendOrder(dst []byte, o *Order) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, o.Key)
	dst = binary.LittleEndian.AppendUint64(dst, o.Host)
	var bits byte
	for _, b := range []struct {
		is  bool
		bit byte
	}{{o.Own, orderOwn}, {o.Stored, orderStored}, {o.Done, orderDone}, {o.Urgent, orderUrgent},
		{o.Deadline != 0, orderWatched}} {
		if b.is {
			bits |= b.bit
		}
	}
	if dst = append(dst, bits); o.Deadline != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Deadline))
	}
	return append(dst, o.Visits...)
}

// AppendMovedOrder appends a record of cluster.MovedOrder.
func AppendMovedOrder(dst []byte, o *Order) []byte {
	if o.Own {
		return AppendOrder(append(dst, 1), o)
	}
	return AppendOrder(append(dst, 0), o)
}

// AppendOrdered appends the coding of the key of a URL that was enqueued: a record of the queue NameOrdered. A crawl
// only appends to the queue. An audit reads it, for an enqueued URL may have several responses.
func AppendOrdered(dst []byte, key uint64) []byte { return binary.LittleEndian.AppendUint64(dst, key) }

// DecodeOrdered is the inverse of AppendOrdered.
func DecodeOrdered(rec []byte) (key uint64, err error) {
	if len(rec) != 8 {
		return 0, fmt.Errorf("%w: key of %d bytes", ErrOrder, len(rec))
	}
	return binary.LittleEndian.Uint64(rec), nil
}

// ErrOrder is the error of bytes that are no Order.
var ErrOrder = errors.New("crawl: damaged order of an enqueued URL")

// EachOrder calls f for each order of a checkpoint's tail. Visits are a part of data.
func EachOrder(data []byte, f func(o *Order) error) error {
	return EachRecord("enqueued URLs", data, func(rec []byte) error {
		o, err := DecodeOrder(rec)
		if err != nil {
			return err
		}
		return f(o)
	})
}

// DecodeOrder is the inverse of AppendOrder. Visits are a part of rec.
func DecodeOrder(rec []byte) (*Order, error) {
	if len(rec) < orderBytes || rec[orderBytes-1]&^orderBits != 0 {
		return nil, fmt.Errorf("%w: % x", ErrOrder, rec[:min(len(rec), orderBytes)])
	}
	bits, visits, deadline := rec[orderBytes-1], rec[orderBytes:], int64(0)
	if bits&orderWatched != 0 {
		if len(visits) < 8 {
			return nil, fmt.Errorf("%w: no deadline", ErrOrder)
		}
		deadline, visits = int64(binary.LittleEndian.Uint64(visits)), visits[8:]
	}
	return &Order{Key: binary.LittleEndian.Uint64(rec), Host: binary.LittleEndian.Uint64(rec[8:]),
		Own: bits&orderOwn != 0, Stored: bits&orderStored != 0, Done: bits&orderDone != 0,
		Urgent: bits&orderUrgent != 0, Deadline: deadline, Visits: visits}, nil
}
