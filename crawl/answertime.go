package crawl

import (
	"time"

	"drumbeat/fetch"
)

// answerTime is how long a site took to answer, which --host-delay-factor multiplies: from the written request to the last byte
// that was read. What this machine adds elsewhere is left out: waiting for a slot and for memory, decoding, parsing,
// storing. So are connect and TLS handshake, which are the network's and this machine's as much as the site's, and which a
// kept connection saves. 0 if there was no answer: then the host's back-off says how long it rests.
func answerTime(resp *fetch.Response, err error) time.Duration {
	if err != nil {
		return 0
	}
	return max(0, resp.Total-resp.Connect-resp.TLS-resp.Waited)
}
