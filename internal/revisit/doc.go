// Package revisit decides when a page is fetched again, from the results of earlier visits (Cho and
// Garcia-Molina, "Effective Page Refresh Policies for Web Crawlers" and "Estimating Frequency of Change").
//
// # Model
//
// A page changes at random with a constant rate, as a Poisson process. A visit shows only whether the page
// has changed since the last visit, not how often. A rarely visited page changes between all visits. An
// estimate from the share of visits that found a change (Cho and Garcia-Molina, "Estimating Frequency of
// Change") mistakes such a page for one that changes about as often as it is visited, and forgets the results
// of earlier, more frequent visits.
//
// So the rate is described by a distribution (Belief), of the gamma family. Before the first visit its mean
// is one change in Policy.Default. A visit after t seconds that finds no change updates it exactly, by Bayes'
// rule; for a visit that finds one, the gamma distribution with the mean and the variance of the result
// replaces it. The weight of a visit follows from its interval: a nearly certain change has no weight. A
// plausible Last-Modified gives the time of the last change; then the update is exact, too. Old results fade
// over some 32 visits, because habits change.
//
// # Policies
//
//   - Proportional visits each page once for each expected change, and so finds the most changes.
//   - Uniform visits each page after the same interval. For the same number of visits it has the higher
//     freshness: the proportional policy spends most visits on pages that soon change again.
//   - Optimal has the highest freshness for the same number of visits. By the solution of Cho and
//     Garcia-Molina, one more visit gains the same for all pages, the margin: the derivative of a page's
//     freshness by the rate of its visits. Pages that change too fast gain less even from a rare visit; they
//     get the longest interval. The gain is the mean over the belief (Belief.gain), so an unknown page is
//     scheduled by the mean gain over its possible rates. The margin is one number for the crawl. Stochastic
//     approximation adapts it until there are as many visits as with Uniform: one a page in Policy.Default.
//
// Pages may have weights (Policy.Weigh), by which they are visited more often. Optimal then has the highest sum of
// weighted freshness for the same number of visits.
//
// All stay within a least and a longest interval. The second visit comes Policy.Default after the first,
// unless the first visit or a sitemap gave a date of the last change.
//
// # Contract
//
// History is the state of a page. It travels with the URL's record, so it takes no RAM for a page, and a
// crash leaves it as the record was at the last checkpoint. Each History has exactly one coding, of at most
// MaxBytes.
//
// # Concurrency
//
// All functions are pure. A History is for one goroutine at a time.
package revisit
