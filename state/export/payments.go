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

// paymentColumns have the responses of a host that ask for payment, from the crawl log, in which a crawl keeps them
// through every kill. They are null if there is none.
var paymentColumns = []tabular.Column{
	{Name: "payment_responses", Type: tabular.Int64, Nullable: true},
	{Name: "payment_first", Type: tabular.Time, Nullable: true},
	{Name: "payment_last", Type: tabular.Time, Nullable: true},
	{Name: "payment_price", Type: tabular.String, Nullable: true},  // the last one, or license, or unpriced
	{Name: "payment_prices", Type: tabular.String, Nullable: true}, // all, by their first time; at most maxPrices
}

// paymentTable has a row for each host that asked for payment. It is for the report, which need not read all hosts.
func paymentTable() table {
	return table{
		columns: append([]tabular.Column{{Name: "host", Type: tabular.String}}, paymentColumns...),
		files:   func(j *job) ([]string, error) { return logFiles(j, crawlLog()) },
		fill:    fillPayments,
		logs:    []string{logDir},
		parts:   []string{logDir},
	}
}

func fillPayments(j *job) error {
	c, err := j.payments()
	for err == nil && c.ok {
		var host string
		var v []tabular.Value
		if host, v, err = paymentsOf(c); err == nil {
			err = j.write(append([]tabular.Value{tabular.Str(host)}, v...)...)
		}
	}
	return err
}

// payments returns a cursor over the responses that ask for payment, by the key of the host. A value has the host, a
// zero byte, the time, and the price.
func (j *job) payments() (*cursor, error) {
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
		return nil, err
	}
	return sorted(s)
}

// paymentsOf returns the host at the cursor and its values, and goes to the next host.
func paymentsOf(c *cursor) (host string, v []tabular.Value, err error) {
	name, _, _ := bytes.Cut(c.value, []byte{0})
	host = string(name)
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
	return host, []tabular.Value{tabular.Int(n), tabular.At(first), tabular.At(last), tabular.Str(price),
		tabular.Str(strings.Join(prices, "; "))}, err
}
