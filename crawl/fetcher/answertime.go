package fetcher

import (
	"errors"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/polite"
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

// signOf returns what an exchange says about the strain on its host, if AdaptiveDelay needs to know. Strain are
// failures other than ours, 429 and 5xx, refusals, a request to wait, and a body that did not arrive in full. A
// failure counts before it is confirmed: to be slower for a while costs little. The verdict of package health
// adds a back-off, which is strain as well.
func (f *Fetcher) signOf(resp *fetch.Response, err error) polite.Sign {
	var fe *fetch.Error
	switch {
	case !f.opt.AdaptiveDelay:
		return polite.Unclear
	case err == nil && (!health.KindOf(resp.Status).Good() || outage.CutOff(resp) ||
		resp.Truncated == fetch.TruncatedTime || resp.Header("Retry-After") != nil):
		return polite.Strain
	case err == nil:
		return polite.Clean
	case errors.As(err, &fe) && !fe.Ours():
		return polite.Strain
	}
	return polite.Unclear
}
