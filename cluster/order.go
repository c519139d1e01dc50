package cluster

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Order is an order of the operator that all nodes carry out, also those that were away when it was given: a rule of
// the blacklist, or a request to erase pages. It is the value Key of BucketCrawl. Each node that has carried it out
// keeps it in its directories, and writes it again if the broker has lost it.
//
// An order about a rule replaces an older one about the same rule. A request to erase never changes.
type Order struct {
	// Stamp is the time of the order by the clock of the node that took it first, in ms since 1970; of a rule, it is
	// above that of each older order that this node knew.
	Stamp int64  `json:"stamp"`
	Who   string `json:"who,omitempty"`

	Rule string `json:"rule,omitempty"` // of the blacklist, as the journal of changes has it
	Off  bool   `json:"off,omitempty"`  // the rule no longer holds

	ID      string   `json:"id,omitempty"` // of a request to erase: OrderIDBytes hexadecimal digits, random
	Reason  string   `json:"reason,omitempty"`
	Later   bool     `json:"later,omitempty"` // it waits until the crawl of a node ends or starts
	Targets []string `json:"targets,omitempty"`
}

// Bounds of orders. Together they take an eighth of the bucket of a crawl at most: marks need the rest.
const (
	MaxOrders      = 10_000    // rules and requests of a crawl; further ones are carried out where they are given
	MaxOrdersBytes = 8 << 20   // of their values, for the same reason
	MaxOrderBytes  = 768 << 10 // a value
	OrderIDBytes   = 16
)

// OrderPattern matches the keys of all orders.
const OrderPattern = "order.>"

// Prefixes of keys.
const (
	ruleOrder  = "order.rule."
	eraseOrder = "order.erase."
)

// ErrOrder means that bytes are not an order of this cluster. It comes wrapped.
var ErrOrder = errors.New("not an order of this cluster")

// Key returns the key of the order. Orders about one rule have the same one.
func (o *Order) Key() string {
	if o.Rule != "" {
		sum := sha256.Sum256([]byte(o.Rule))
		return ruleOrder + hex.EncodeToString(sum[:16])
	}
	return eraseOrder + o.ID
}

// sealed is the value of an order.
type sealed struct {
	Form
	Order json.RawMessage `json:"order"`
	MAC   string          `json:"mac"` // of the bytes of Order
}

// orderMAC returns the code that tells orders of the cluster's nodes from those of others that can write to the broker:
// an order erases pages. HMAC-SHA256, hexadecimal.
func orderMAC(secret, order []byte) string {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, "drumbeat order 1\n") // a hash returns no error
	_, _ = h.Write(order)
	return hex.EncodeToString(h.Sum(nil))
}

// Encode returns the value, or ErrTooLarge. secret is that of the cluster.
func (o *Order) Encode(secret []byte) ([]byte, error) {
	order, err := plainJSON(o)
	var data []byte
	if err == nil {
		data, err = plainJSON(&sealed{Order: order, MAC: orderMAC(secret, order)})
	}
	if err == nil && len(data) > MaxOrderBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", o.Key(), err)
	}
	return data, nil
}

// plainJSON is json.Marshal, but & stays: six bytes for it in each URL may exceed the limit.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// DecodeOrder decodes the value of a key. The value is untrusted until its code was checked. The error wraps ErrOrder,
// or ErrVersion.
func DecodeOrder(key string, data, secret []byte) (*Order, error) {
	wrong := func(why any) error { return fmt.Errorf("cluster: %s: %w: %v", key, ErrOrder, why) }
	if len(data) > MaxOrderBytes {
		return nil, wrong("it is too large")
	}
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, wrong(err)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if !hmac.Equal([]byte(s.MAC), []byte(orderMAC(secret, s.Order))) {
		return nil, wrong("its code is that of another secret")
	}
	var o Order
	if err := json.Unmarshal(s.Order, &o); err != nil {
		return nil, wrong(err)
	}
	switch {
	case o.Key() != key || o.Stamp <= 0:
		return nil, wrong("key or time are wrong")
	case o.Rule == "" && (CheckOrderID(o.ID) != nil || len(o.Targets) == 0):
		return nil, wrong("it has neither a rule nor targets")
	}
	return &o, nil
}

// CheckOrderID returns an error unless id identifies a request to erase: OrderIDBytes hexadecimal digits in lower case.
func CheckOrderID(id string) error {
	if len(id) != OrderIDBytes || strings.Trim(id, "0123456789abcdef") != "" {
		return fmt.Errorf("cluster: the order %.40q: want %d hexadecimal digits", id, OrderIDBytes)
	}
	return nil
}
