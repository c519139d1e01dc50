// Package revisit decides when a page is fetched again, from what earlier visits found (Cho and
// Garcia-Molina, "Effective Page Refresh Policies for Web Crawlers" and "Estimating Frequency of Change").
//
// # Model
//
// A page changes at random with a constant rate, as a Poisson process. A visit tells only whether it has
// changed since the visit before, not how often, and a page that is visited seldom changes between all
// visits. An estimate from the share of visits that found a change (Cho and Garcia-Molina, "Estimating
// Frequency of Change") takes such a page for one that changes about as often as it is visited, and forgets
// what more frequent visits had told.
//
// So what is known of the rate is a distribution (Belief), of the gamma family. Before the first visit its
// mean is one change in Policy.Default. A visit after t seconds that finds no change updates it exactly, by
// Bayes' rule; for a visit that finds one, the gamma distribution with the mean and the variance of the
// result replaces it. The weight of a visit follows from its interval, and a change that was certain changes
// nothing. A believable Last-Modified tells when the last change was; then the update is exact, too. What was
// learned fades, over some 32 visits, as habits change.
//
// # Policies
//
//   - Proportional visits each page once for each change that is expected, so that it finds the most changes.
//   - Uniform visits each page after the same interval. For the same number of visits it has the higher
//     freshness: the proportional policy spends most visits on pages that change again before anybody looks.
//   - Optimal has the highest freshness for the same number of visits. By the solution of Cho and
//     Garcia-Molina, all pages are visited so often that one visit more of any would gain the same, the
//     margin: the derivative of its freshness by the rate of its visits. Of pages that change too fast even a
//     rare visit gains less; they get the longest interval. The gain is that expected of the belief
//     (Belief.gain), so a page of which little is known is visited as befits all rates that it may have. The
//     margin is one number for the crawl. It follows from the visits by stochastic approximation, so that
//     they become as many as with Uniform: one a page in Policy.Default.
//
// All stay within a least and a longest interval. The second visit is Policy.Default after the first, unless
// that found a date of the last change, or a sitemap had one.
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
