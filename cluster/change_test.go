package cluster

import (
	"bytes"
	"errors"
	"testing"
)

// TestChanger: a link in a message is changed, also one of a URL that its sender has found new, and all else stays: the
// sums, the number, and the other records. What is damaged is an error.
func TestChanger(t *testing.T) {
	raw := append(appendHead(nil, kindLink, 5), "link1"...)
	raw = append(appendHead(raw, kindScope, 8), "12345678"...)
	raw = append(appendHead(raw, kindChecked, 6), "link22"...)
	h := Header{Crawl: 7, From: 1, To: 2, Number: 9, After: Totals{}}
	h.After.Links.Add(5)
	msg := appendMessage(nil, &h, raw)
	shorten := func(link []byte) ([]byte, error) {
		if len(link) == 6 {
			return link[:4], nil
		}
		return link, nil
	}
	var c Changer
	if same, changed, err := c.Message(msg, func(link []byte) ([]byte, error) { return link, nil }); err != nil ||
		changed || !bytes.Equal(same, msg) {
		t.Errorf("no change: %v, %v", changed, err)
	}
	next, changed, err := c.Message(msg, shorten)
	if err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	is, err := ReadHeader(next)
	if err != nil || is.Number != 9 || is.After != h.After || is.From != 1 || is.To != 2 || is.Crawl != 7 {
		t.Errorf("%+v, %v", is, err)
	}
	var d Decoder
	got, err := d.block(next, &is)
	want := bytes.Replace(raw, append(appendHead(nil, kindChecked, 6), "link22"...),
		append(appendHead(nil, kindChecked, 4), "link"...), 1)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
	failed := errors.New("no")
	if _, _, err := c.Message(msg, func([]byte) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("an error of the function: %v", err)
	}
	msg[len(msg)/2] ^= 1
	if _, _, err := c.Message(msg, shorten); !errors.Is(err, ErrMessage) {
		t.Errorf("a damaged message: %v", err)
	}
	if _, _, err := c.Records([]byte{kindLink, 200}, shorten); !errors.Is(err, ErrMessage) {
		t.Errorf("a damaged record: %v", err)
	}
}
