package report

import (
	"drumbeat/state"
	"drumbeat/state/explain"
)

// Figure is a figure of the summary.
type Figure struct {
	Key   string  `json:"key"`
	Name  string  `json:"name"`
	Value float64 `json:"value"` // of this crawl; -1 if it is not known
	Unit  Unit    `json:"unit,omitempty"`
	Paper float64 `json:"paper,omitempty"` // of the crawl of the paper's section VIII; 0 if it has none
}

// Unit is the unit of a figure.
type Unit string

// The units.
const (
	Number  Unit = ""
	Bytes   Unit = "bytes"
	Bits    Unit = "bits/s"
	Rate    Unit = "pages/s"
	Seconds Unit = "s"
	Mean    Unit = "mean" // a number with decimals
	Share   Unit = "share"
)

// PaymentsKey is the key of the figure of responses that asked for payment.
const PaymentsKey = "payments"

// unknown is the value of a figure that is not known.
const unknown = -1

// per returns a / b, unknown if b is 0.
func per(a, b float64) float64 {
	if b == 0 {
		return unknown
	}
	return a / b
}

// summary returns the figures of section VIII. Those that only the history has come from its last sample.
func summary(f *explain.Figures, o *over) []Figure {
	a := &f.Accounts
	count := func(list ...state.Counter) (n float64) {
		for _, c := range list {
			n += float64(a.Counters[c])
		}
		return n
	}
	active := f.Active.Seconds()
	pages, responses, unique := count(state.CountPages), count(state.CountResponses), float64(a.Unique.N)
	checked, sized := float64(a.Checked()), count(state.CountURLsSized)
	received := count(state.CountBytesWire, state.CountRobotsBytes)
	html := count(state.CountBytesPages)
	peak := func(v float64) float64 {
		if v == 0 {
			return unknown // the crawl has not run for ten minutes
		}
		return v
	}
	return []Figure{
		{"active", "Running time", active, Seconds, 41.27 * 86400},
		{"runs", "Starts of the program", float64(f.Runs), Number, 0},
		{"attempts", "Requests for URLs", count(state.CountAttempts), Number, 7_606_109_371},
		{"responses", "Responses", responses, Number, 7_437_281_300},
		{"pages", "Pages: status 200 and HTML", pages, Number, 6_380_051_942},
		{"redirects", "Redirects", count(state.CountRedirects), Number, 0},
		{"pages_per_second", "Pages per second", per(pages, active), Rate, 1789},
		{"peak_pages_per_second", "Pages per second, highest mean of 10 minutes", peak(a.Peak.Pages), Rate, 3134},
		{"bits_per_second", "Download rate", per(8*received, active), Bits, 319e6},
		{"peak_bits_per_second", "Download rate, highest mean of 10 minutes", peak(a.Peak.Bits), Bits, 470e6},
		{"received", "Bytes received", received, Bytes, 143e12},
		{"robots_received", "Bytes received for robots.txt", count(state.CountRobotsBytes), Bytes, 254e9},
		{"sent", "Bytes sent", count(state.CountBytesSent, state.CountRobotsBytesSent), Bytes, 1.8e12},
		{"html", "HTML parsed", html, Bytes, 161e12},
		{"page_bytes", "Page size", per(html, pages), Bytes, 25.2e3},
		{"compressed", "Responses with a compressed body", count(state.CountCompressed), Number, 1_050_955_245},
		{"compression", "Compression of these bodies",
			per(count(state.CountBytesUncompressed), count(state.CountBytesCompressed)), Mean, 5},
		{"links", "Links found", float64(a.Parsed()), Number, 394_619_023_142},
		{"checked", "Links after all filters", checked, Number, 374_707_295_503},
		{"links_per_page", "Links after all filters per page", per(checked, pages), Mean, 59},
		{"unique", "Unique URLs", unique, Number, 41_502_195_631},
		{"unique_per_page", "Unique URLs per page", per(unique, pages), Mean, 6.5},
		{"p", "Unique URLs per link after all filters, p", per(unique, checked), Mean, 0.11},
		{"url_bytes", "Length of a URL without http://", per(count(state.CountURLBytes), sized), Bytes, 70.6},
		{"record_bytes", "Record of a URL, b", per(count(state.CountRecordBytes), sized), Bytes, 110},
		{"urlseen_bytes", "URLseen on disk", float64(f.URLSeenBytes), Bytes, 332e9},
		{"hosts", "Hosts found, estimated", o.last("hosts"), Number, 641_982_061},
		{"hosts_answered", "Hosts that answered, estimated", o.last("hosts_answered"), Number, 117_576_295},
		{"plds_answered", "Domains that answered, estimated", o.last("plds_answered"), Number, 33_755_361},
		{"servers_answered", "Addresses that answered, estimated", o.last("servers_answered"), Number, 4_260_532},
		{"plds", "Domains found", float64(f.PLDs), Number, 89_652_630},
		{"edges", "Links between domains", float64(f.Edges), Number, 1_832_325_052},
		{"lookups", "DNS lookups", count(state.CountLookups), Number, 260_113_628},
		{"servers", "Addresses resolved, estimated", o.last("servers"), Number, 5_517_743},
		{"robots", "Requests for robots.txt", count(state.CountRobotsAttempts), Number, 0},
		{PaymentsKey, "Responses that asked for payment", count(state.CountPayments), Number, 0},
		{"signed", "Requests with a signature", count(state.CountSigned) + count(state.CountSignedAsked), Number, 0},
		{"signatures_refused", "Refused signatures that sites had asked for", count(state.CountSignatureRefused),
			Number, 0},
		{"connections", "Connections opened", count(state.CountConnections), Number, 0},
		{"host_gap", "Least gap between requests to a host", o.least("least_host_gap_seconds"), Seconds, 0},
		{"server_gap", "Least gap between requests to an address", o.least("least_server_gap_seconds"), Seconds, 0},
		{"checkpoints", "Checkpoints", count(state.CountCheckpoints), Number, 0},
	}
}
