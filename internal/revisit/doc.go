// Package revisit decides when a page is fetched again, from what earlier visits found (Cho and Garcia-Molina,
// "Effective Page Refresh Policies for Web Crawlers" and "Estimating Frequency of Change").
//
// # Model
//
// A page changes at random with a constant rate, as a Poisson process. A visit tells only whether it has changed since
// the visit before, not how often. Of n visits after the first, which looked back over T in all, X found a change. The
// naive estimate X/T is too low for a page that changes often, since several changes count as one. The estimator of
// Cho and Garcia-Molina corrects this:
//
//	rate = -ln((n - X + 0.5) / (n + 0.5)) / (T/n)
//
// It is defined for X = n, and nearly without bias when the visits are evenly spaced, as they are between two
// changes of the interval. T/n, the mean interval, stands for the interval where they are not.
//
// # Policies
//
//   - Uniform visits each page after the same interval. Among policies that do not optimize, it has the higher
//     freshness for the same number of visits: visiting a page in proportion to its changes spends most visits on
//     pages that change again before anybody looks.
//   - Proportional visits each page once for each change that is expected, so that it finds the most changes.
//
// The policy of highest freshness visits pages that change too fast seldom (same paper). It was tried and left out: a
// page that is visited seldom changes between all visits, so its rate is not known, and the policy mistakes it for one
// that changes slowly. With estimated rates it was no better than Uniform.
//
// Both stay within a least and a longest interval. Until a page has been visited leastVisits times, and if its rate is
// not known, the interval is the default.
//
// # Contract
//
// History is the state of a page. It travels with the URL's record, so it takes no RAM for a page, and a crash leaves
// it as the record was at the last checkpoint. Each History has exactly one coding, of at most MaxBytes.
//
// # Concurrency
//
// All functions are pure. A History is for one goroutine at a time.
package revisit
