// Package health keeps account of how a host treats us: how often in a row it failed, how often it refused, how long it is to
// be left alone because of that, and when for good. It is pure: a State, an Event, a Policy and a time in, a Verdict out.
//
// The paper only says that a crawler must not overload hosts (section VII); what follows from failures is left open there. The
// rules here follow RFC 9110 (10.2.3 Retry-After, 15.6.4 status 503) and RFC 6585 (4, status 429), and keep apart what these keep
// apart: being too fast, and not being welcome.
//
// # Too fast, or failing
//
// 429 and 503, other 5xx, timeouts, resets and connections that aren't had: the host rests for Policy.Backoff, twice as long
// with each further one, up to Policy.BackoffMax. Any answer that is none of these is a success; it halves the back-off of the
// next failure instead of forgetting it, so that a host which answers every other request isn't pressed at the first step again
// and again, while one that has recovered is at its old pace after a few pages. A Retry-After is a minimum, up to MaxRetryAfter.
// After Policy.Failures failures in a row the host rests for long: Policy.LongRest, doubling to Policy.LongRestMax with each
// further failure, since one request after each rest is enough to know. After Policy.Rests of these without any success it is
// given up.
//
// # Not welcome
//
// 401 and 403 say that we may not, not that we are too fast: slower requests don't help, and more of them are a nuisance. One
// among pages means nothing. Policy.Refusals of them without a page between: the host rests for Unwelcome[0], after as many
// further ones for Unwelcome[1], then it is left alone for good. A challenge page, and a connection that is cut as soon as the
// request has been read, count as three: both are made by a filter that has judged us, not a page. If all refusals are for one
// directory of the site, four times as many are needed: a part that needs a login is no refusal of the rest. A page ends the
// run; a stage (a day, a week) is taken back after Policy.Refusals pages in a row. Other answers (404, redirects) end nothing:
// sites that refuse give them as well. 429 is never a refusal.
//
// Nothing here, or in who uses it, tries to get around a refusal: the same identity, no other headers, no cookies.
//
// Concurrency: a State is a value. Memory and disk: MaxState bytes when coded; docs/formats/robots.md has the layout.
package health
