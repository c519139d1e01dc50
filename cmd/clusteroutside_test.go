package cmd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/simweb"
)

// soundCrawl is what a check finds nothing wrong with: four URLs of two nodes, at two addresses of one network.
func soundCrawl() *outside {
	o := &outside{limits: outsideLimits{host: time.Second, pld: time.Second, address: time.Second, rate: 2,
		connections: 1, late: 100 * time.Millisecond},
		log: &simweb.Snapshot{Epoch: time.Unix(1000, 0), Total: 4}, want: map[string]bool{},
		pld: func(host string) string { return strings.TrimPrefix(host, "www.") }}
	for i := range 4 {
		host, ip := []string{"a.test", "b.test"}[i%2], fmt.Sprint("127.0.0.", 1+i%2)
		url := fmt.Sprintf("http://%s/%d", host, i)
		start := time.Duration(i) * 600 * time.Millisecond
		o.log.Requests = append(o.log.Requests, simweb.Request{URL: url, Host: host, IP: netip.MustParseAddr(ip),
			Start: start, End: start + time.Millisecond})
		o.want[url] = true
		o.records = append(o.records,
			warcRecord{node: i % 2, kind: "response", id: url, url: url, ip: ip, isResponse: true})
	}
	return o
}

// ask adds a request for the URL of another one.
func (o *outside) ask(of int, start time.Duration) {
	q := o.log.Requests[of]
	q.Start, q.End = start, start+time.Millisecond
	o.log.Requests = append(o.log.Requests, q)
	o.log.Total++
}

// TestOutsideCheck: the check from outside finds each kind of fault, and excuses what a kill explains.
func TestOutsideCheck(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }
	killed := kill{node: 1, from: at(5 * time.Second), to: at(5 * time.Second), saved: at(time.Second)}
	for _, c := range []struct {
		name   string
		change func(o *outside)
		want   string // "": no fault
	}{
		{"sound", func(*outside) {}, ""},
		{"part of the log", func(o *outside) { o.log.Total++ }, "4 of 5 requests"},
		{"a URL too many", func(o *outside) { delete(o.want, "http://b.test/3") }, "one node does not fetch"},
		{"a URL is missing", func(o *outside) { o.want["http://a.test/9"] = true }, "was not fetched"},
		{"no record", func(o *outside) { o.records = o.records[1:] }, "has no record"},
		{"a record twice", func(o *outside) { o.records[3].id = o.records[0].id }, "there twice"},
		{"two records", func(o *outside) {
			r := o.records[0]
			r.id = "other"
			o.records = append(o.records, r)
		}, "records of nodes 0 and 0"},
		{"two nodes, one PLD", func(o *outside) { o.records[3].node = 0 }, "nodes 1 and 0 have records of b.test"},
		{"another address", func(o *outside) { o.records[3].ip = "127.0.0.9" }, "nobody asked"},
		{"again", func(o *outside) { o.ask(1, 9*time.Second) }, "without a kill"},
		{"again after a kill", func(o *outside) { o.kills = []kill{killed}; o.ask(3, 9*time.Second) }, ""},
		{"twice after a kill", func(o *outside) {
			o.kills = []kill{killed}
			o.ask(3, 6*time.Second+unread)
			o.ask(3, 9*time.Second+unread)
		}, "without a kill"},
		{"read after the kill", func(o *outside) {
			o.kills = []kill{killed}
			o.log.Requests[3].Start, o.log.Requests[3].End = 6*time.Second, 7*time.Second
			o.ask(3, 9*time.Second)
		}, ""},
		{"again after a kill of another", func(o *outside) { o.kills = []kill{killed}; o.ask(2, 9*time.Second) },
			"without a kill"},
		{"again, though it was saved", func(o *outside) {
			killed := killed
			killed.saved, killed.from, killed.to = at(2*time.Second+unprocessed), at(5*time.Second+unprocessed),
				at(5*time.Second+unprocessed)
			o.kills = []kill{killed}
			o.ask(3, 9*time.Second+unprocessed)
		}, "without a kill"},
		{"host", func(o *outside) { o.log.Requests[0].End = 500 * time.Millisecond }, "host a.test"},
		{"PLD", func(o *outside) {
			o.log.Requests[2].Host, o.log.Requests[2].Start = "www.a.test", 800*time.Millisecond
			o.limits.address, o.limits.rate = 0, 0
		}, "PLD a.test"},
		{"address", func(o *outside) { o.log.Requests[3].IP = netip.MustParseAddr("127.0.0.1") }, "address 127.0.0.1"},
		{"network", func(o *outside) {
			for i := range o.log.Requests {
				o.log.Requests[i].Start = time.Duration(i) * 400 * time.Millisecond
			}
			o.limits.host, o.limits.pld, o.limits.address = 0, 0, 0
		}, "network 127.0.0.0/24"},
		{"connections", func(o *outside) { o.log.Requests[0].End = 601 * time.Millisecond; o.limits.host = 0 },
			"2 requests at once"},
	} {
		o := soundCrawl()
		c.change(o)
		if got := strings.Join(o.check(), "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestParseRecords: records that are cut short, or longer than they say, are errors.
func TestParseRecords(t *testing.T) {
	t.Parallel()
	pack := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		if err == nil {
			err = z.Close()
		}
		must(t, err)
		return b.Bytes()
	}
	const head = "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <a>\r\nWARC-Target-URI: " +
		"http://a.test/\r\nContent-Length: 3\r\n\r\n"
	whole := pack(head + "abc\r\n\r\n")
	list, err := parseRecords(append(bytes.Clone(whole), whole...))
	if err != nil || len(list) != 2 || list[1].url != "http://a.test/" || !list[1].isResponse || list[1].id != "<a>" {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, data := range [][]byte{whole[:len(whole)-1], pack(head + "ab\r\n\r\n"), pack(head + "abcd\r\n\r\n"),
		pack("WARC/1.0\r\n\r\n\r\n\r\n"), []byte("x")} {
		if list, err := parseRecords(data); err == nil {
			t.Errorf("%d bytes: got %+v", len(data), list)
		}
	}
}
