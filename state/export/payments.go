package export

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"drumbeat/internal/crawllog"
	"drumbeat/internal/tabular"
	"drumbeat/weburl"
)

// maxPrices bounds the prices of a host in a row.
const maxPrices = 8

// paymentTable has a row for each host that asked for payment, from the crawl log, in which a crawl keeps it through
// every kill.
func paymentTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "host", Type: tabular.String},
			{Name: "responses", Type: tabular.Int64}, // that ask for payment
			{Name: "first", Type: tabular.Time},
			{Name: "last", Type: tabular.Time},
			{Name: "price", Type: tabular.String},  // the last one, or license, or unpriced
			{Name: "prices", Type: tabular.String}, // all, by their first time; at most maxPrices
		},
		files: func(j *job) ([]string, error) { return logFiles(j, crawlLog()) },
		fill:  fillPayments,
		logs:  []string{logDir},
		parts: []string{logDir},
	}
}

// fillPayments sorts the responses by host and time: key of the host, host, a zero byte, time, price.
func fillPayments(j *job) error {
	s := j.sorter()
	var rec []byte
	err := j.scanLog(crawlLog(), func(e *crawllog.Entry) error {
		if e.Payment == "" {
			return j.live()
		}
		host := weburl.Split([]byte(e.URL)).Host
		rec = binary.BigEndian.AppendUint64(rec[:0], j.HostKey(host))
		rec = append(append(rec, host...), 0)
		rec = binary.BigEndian.AppendUint64(rec, uint64(e.Time.UnixMilli()))
		return s.Add(append(rec, e.Payment...))
	})
	if err != nil {
		return err
	}
	c, err := sorted(s)
	for err == nil && c.ok {
		err = j.writePayments(c)
	}
	return err
}

// writePayments writes the row of the host at the cursor, and goes to the next host.
func (j *job) writePayments(c *cursor) (err error) {
	name, _, _ := bytes.Cut(c.value, []byte{0})
	host := string(name)
	var n int64
	var first, last time.Time
	var price string
	var prices []string
	for err == nil && c.ok {
		of, rest, _ := bytes.Cut(c.value, []byte{0})
		if string(of) != host {
			break
		}
		last = time.UnixMilli(int64(binary.BigEndian.Uint64(rest)))
		price = string(rest[8:])
		if n++; n == 1 {
			first = last
		}
		if len(prices) < maxPrices && !slices.Contains(prices, price) {
			prices = append(prices, price)
		}
		err = c.next()
	}
	if err != nil {
		return err
	}
	return j.write(tabular.Str(host), tabular.Int(n), tabular.At(first), tabular.At(last), tabular.Str(price),
		tabular.Str(strings.Join(prices, "; ")))
}
