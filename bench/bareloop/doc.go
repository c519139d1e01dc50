// Package bareloop fetches a list of URLs with the least work that a crawler can do for them. It is the
// yardstick of scripts/realweb.sh race: drumbeat's time and CPU beyond it are the cost of everything else.
//
// # The work of a response
//
// Send a request on a connection that is kept open, read the response, decode its body, find the links of
// HTML and their canonical URLs (package parse), and store the response (package warc) as one gzip member
// with a line of index. These are the packages that drumbeat uses, so a ratio to the bare loop shows the cost
// of the rest: frontier, politeness, DNS, robots.txt, URLseen, checkpoints, stages. The links go nowhere. The
// paper has no such baseline.
//
// # Contract
//
// The list has addresses, so there is no DNS. Responses may have any status, but must be HTTP/1.1 with a
// Content-Length; anything else ends the run with an error. The server must be trusted: nothing limits the
// size of a response. Stored files are complete but not synced, and keep the suffix ".open", because no
// checkpoint makes them final.
//
// # Concurrency and memory
//
// Each of Options.Connections goroutines processes one URL at a time, from the request to the record. One
// connection is thus the serial form. Idle connections are shared; an address has at most one for each
// goroutine. A goroutine holds the largest body, as received and decoded, and the buffers of packages parse
// and warc.
package bareloop
