// Package health tracks how a host treats the crawler. It counts failures in a row and refusals, and
// decides how long the host backs off and when the crawler gives it up. It does no I/O: the input is a
// State, an Event, a Policy and a time, the output is a Verdict and the new State.
//
// The paper only requires that a crawler does not overload hosts (section VII); it leaves the reaction to
// failures open. The rules here follow RFC 9110 (10.2.3 Retry-After, 15.6.4 status 503) and RFC 6585
// (section 4, status 429). They treat "too fast" and "not welcome" separately.
//
// # Too fast, or failing
//
// These are failures: 429, 503, other 5xx, timeouts, resets and failed connections. After a failure the
// host backs off for Policy.Backoff. The back-off doubles with each further failure, up to
// Policy.BackoffMax. Spread makes each of these times longer by up to a tenth, so that hosts that failed together
// are not all asked again together. A Retry-After is a minimum, up to Policy.RetryAfterMax, and nothing is added to it.
//
// Every other answer is a success. A success halves the next back-off and does not reset it. So a host that
// fails every other request does not get the shortest back-off each time, and a recovered host reaches its
// old pace after a few pages.
//
// After Policy.Failures failures in a row the host enters a long back-off of Policy.LongRest. It doubles
// with each further failure, up to Policy.LongRestMax: one request after each long back-off is enough to
// test the host. After Policy.Rests long back-offs without a success the host is given up.
//
// # Not welcome
//
// 401 and 403 mean that the host does not want the crawler; slower requests do not help. A single refusal
// among pages counts for nothing. After Policy.Refusals refusals without a page in between the host backs
// off for Unwelcome[0]. After the same number again it backs off for Unwelcome[1]. The third time the
// crawler stops asking for good.
//
// A challenge page counts as three refusals, and so does a connection cut right after the request: a filter
// that rejects the crawler as a whole causes both. If all refusals concern one directory of the site, the
// limit is four times as high: a directory that needs a login says nothing about the rest of the site.
//
// A page ends the run of refusals. After Policy.Refusals pages in a row the host goes back one stage (a
// day, a week). Other answers (404, redirects) end nothing, because sites that refuse send them as well.
// 429 is never a refusal.
//
// # Asks for payment
//
// A response that asks for payment (Payments) counts as a refusal: the crawler never pays, so further requests are as
// useless. It keeps a name of its own: if the last refusal of a run asked for payment, so does the host, and after the
// third run it ends as PaymentAsked.
//
// The crawler never tries to get around a refusal: it keeps its identity and its headers, and uses no
// cookies.
//
// Concurrency: a State is a value; a Table is safe for concurrent use. An encoded State has at most
// MaxState bytes; docs/reference/files/robots.md has the layout.
package health
