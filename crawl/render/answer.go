package render

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"

	"drumbeat/cluster"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/httphead"
	cdp "drumbeat/internal/render"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Bounds of the requests that this node makes for pages of other nodes.
const (
	askPlaces    = 48              // at once; most wait for the delay of a host
	askPlacesPLD = 16              // of these, for one PLD
	askSoon      = 2 * time.Second // until a node is to ask again that found no place, or another table
	// mostAsked bounds a body as received. Most scripts of this size shrink to a message.
	mostAsked = 4 << 20
	// mostPlain bounds an exchange.
	mostPlain = mostAsked + 2*httphead.MaxBytes
)

// reply is the answer to a question: uvarint n, n bytes of JSON with these fields, and a block of S2 with the head of
// the request, and the head and the body of the response as received. There is no block if one of the first four is
// set.
type reply struct {
	Later     time.Duration `json:"later,omitempty"`   // ask again after it
	Refused   string        `json:"refused,omitempty"` // why the request may not be made
	Failed    string        `json:"failed,omitempty"`  // why it failed
	TooLarge  bool          `json:"too_large,omitempty"`
	Reuse     bool          `json:"reuse,omitempty"` // the answer may serve other pages
	Status    int           `json:"status,omitempty"`
	Date      time.Time     `json:"date,omitzero"`
	IP        netip.Addr    `json:"ip,omitzero"`
	Protocols []string      `json:"protocols,omitempty"`
	Cipher    string        `json:"cipher,omitempty"`
	Truncated string        `json:"truncated,omitempty"`
	Chunked   bool          `json:"chunked,omitempty"`
	Encoded   bool          `json:"encoded,omitempty"`
	MIME      []byte        `json:"mime,omitempty"`
	Redirect  []byte        `json:"redirect,omitempty"`
	Digest    []byte        `json:"digest,omitempty"`  // SHA-1 of the payload
	Request   int           `json:"request,omitempty"` // length of the head of the request
	Head      int           `json:"head,omitempty"`    // and of that of the response

	request, head, body []byte
}

var errReply = errors.New("crawl: not a valid answer to a request of a page")

// encode returns the bytes of a reply.
func (a *reply) encode() []byte {
	var block []byte
	if a.head != nil {
		a.Request, a.Head = len(a.request), len(a.head)
		plain := make([]byte, 0, len(a.request)+len(a.head)+len(a.body))
		block = s2.Encode(nil, append(append(append(plain, a.request...), a.head...), a.body...))
	}
	head, err := json.Marshal(a)
	if err != nil {
		panic("BUG: crawl: an answer has only texts, numbers and a time of now: " + err.Error())
	}
	data := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(head)+len(block)), uint64(len(head)))
	return append(append(data, head...), block...)
}

// decodeReply is the inverse of encode. The bytes come from outside.
func decodeReply(data []byte) (*reply, error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) {
		return nil, errReply
	}
	a, block := new(reply), data[size+int(n):]
	if json.Unmarshal(data[size:size+int(n)], a) != nil {
		return nil, errReply
	}
	if a.Later > 0 || a.TooLarge || a.Refused != "" || a.Failed != "" {
		return a, nil
	}
	if most, err := s2.DecodedLen(block); err != nil || most > mostPlain {
		return nil, errReply
	}
	plain, err := s2.Decode(nil, block)
	if err != nil || a.Request < 0 || a.Head <= 0 || a.Request > len(plain) || a.Head > len(plain)-a.Request ||
		len(a.Digest) != sha1.Size || a.Status < 100 || a.Status > 999 {
		return nil, errReply
	}
	a.request, a.head, a.body = plain[:a.Request], plain[a.Request:a.Request+a.Head], plain[a.Request+a.Head:]
	return a, nil
}

func (q *question) encode() []byte {
	data, err := json.Marshal(q)
	if err != nil {
		panic("BUG: crawl: a question has only texts and a number: " + err.Error())
	}
	return data
}

// decodeQuestion parses a question of another node. It comes from outside.
func decodeQuestion(data []byte) (q question, ok bool) {
	if json.Unmarshal(data, &q) != nil || q.From == "" || q.Left <= 0 {
		return q, false
	}
	url, err := weburl.Canonical(q.URL)
	from, errFrom := weburl.Canonical(q.From)
	return q, err == nil && url == q.URL && (errFrom == nil && from == q.From || q.From == string(fetcher.Foreign))
}

// Answer answers the questions of other nodes until ctx ends.
func (r *Stage) Answer(ctx context.Context) error {
	if r.opt.Browser == nil {
		return nil
	}
	places := askedPlaces{plds: map[uint64]int{}}
	stop, err := r.others.Cluster.Answer(AskKind, func(asked context.Context, _ int, data []byte) []byte {
		return r.answerTo(asked, data, &places)
	})
	if err != nil {
		return fmt.Errorf("crawl: answers to the requests of pages: %w", err)
	}
	<-ctx.Done()
	stop()
	return nil
}

// answerTo makes the request that another node asks for, and returns the encoded reply.
func (r *Stage) answerTo(ctx context.Context, data []byte, places *askedPlaces) (answer []byte) {
	q, ok := decodeQuestion(data)
	if !ok {
		return (&reply{Refused: "not a question"}).encode()
	}
	host := weburl.Split([]byte(q.URL)).Host
	pld := r.saved.PLDKey(host)
	if r.others.Cluster.Elsewhere(host) || r.outages.Slowed() || !places.take(pld) {
		return (&reply{Later: askSoon}).encode()
	}
	defer places.give(pld)
	limited, cancel := context.WithTimeout(ctx, min(q.Left, askFor))
	defer cancel()
	err := bug.Contained(func() error {
		return r.request(limited, q.URL, fetcher.Source(q.From), func(resp *fetch.Response) error {
			places.encoding.Lock()
			defer places.encoding.Unlock()
			answer = r.replyOf(q.URL, resp).encode()
			return nil
		})
	})
	switch {
	case err == nil && len(answer) <= cluster.MaxMessageBytes:
		return answer
	case err == nil:
		return (&reply{TooLarge: true}).encode()
	case limited.Err() != nil: // that says nothing about the host
		return (&reply{Later: askSoon}).encode()
	case errors.Is(err, ErrRefused):
		return (&reply{Refused: err.Error()}).encode()
	}
	r.run.LogBug(q.URL, err)
	return (&reply{Failed: err.Error()}).encode()
}

// replyOf returns the reply that carries a response. It refers to the bytes of resp.
func (r *Stage) replyOf(url string, resp *fetch.Response) *reply {
	if len(resp.RawBody) > mostAsked {
		return &reply{TooLarge: true}
	}
	parts, digest := weburl.Split([]byte(url)), sha1.Sum(resp.PayloadRaw)
	x := output.ExchangeOf(url, resp, warc.KindScript)
	seen := &cdp.Response{Status: resp.Status, Header: http.Header{}}
	resp.EachField(func(name, value []byte) { seen.Header.Add(string(name), string(value)) })
	return &reply{Reuse: resp.Truncated == fetch.NotTruncated && reusable(seen) && r.opt.Sites.Of(&parts) == nil,
		Status: x.Status, Date: x.Date, IP: x.IP, Protocols: x.Protocols, Cipher: x.Cipher, Truncated: x.Truncated,
		Chunked: x.Chunked, Encoded: x.Encoded, MIME: []byte(x.MIME), Redirect: []byte(x.Redirect), Digest: digest[:],
		request: x.Request, head: x.Head, body: x.Body}
}

// askedPlaces are the places for requests that other nodes ask for. The hosts of one PLD, such as a network of
// servers for scripts, cannot take them all.
type askedPlaces struct {
	encoding sync.Mutex // held while a reply is encoded, for the bound of RAM

	mu   sync.Mutex // guards the fields below
	all  int
	plds map[uint64]int
}

// take takes a place, if there is one.
func (p *askedPlaces) take(pld uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= askPlaces || p.plds[pld] >= askPlacesPLD {
		return false
	}
	p.all++
	p.plds[pld]++
	return true
}

func (p *askedPlaces) give(pld uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.plds[pld]--; p.plds[pld] == 0 {
		delete(p.plds, pld)
	}
}
