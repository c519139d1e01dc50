package crawl

import (
	"time"

	"drumbeat/fetch"
)

// answerTime returns the time that a site took to answer, which --host-delay-factor multiplies: from the
// end of the request to the last byte read. It excludes the time this machine spends on waiting for slots
// and memory, decoding, parsing and storing. It also excludes connect and TLS handshake, which depend on
// the network and this machine as well, and which a kept connection saves. It returns 0 if there was no
// answer; the host's back-off applies then.
func answerTime(resp *fetch.Response, err error) time.Duration {
	if err != nil {
		return 0
	}
	return max(0, resp.Total-resp.Connect-resp.TLS-resp.Waited)
}
