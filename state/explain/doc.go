// Package explain reports what a crawl knows about a URL, a host, an origin or a link, and why. For a URL
// it reports the place and what the URL waits for, the verdict of robots.txt, the delay of its host, and
// the rule that drops it as a link.
//
// An Explainer reads the files that the last durable manifest names. It takes no lock and writes nothing,
// so it works while the crawl runs and needs only read permission. An answer describes the last checkpoint
// and gives the checkpoint's age. The Explainer opens the files that it needs, and keeps them open, before
// it reads them. If the crawl deletes one of them first, the Explainer starts again with the next manifest.
//
// URLseen, RobotsCache, RobotsRequested and STAR are looked up by key; a question reads some tens of
// kilobytes. The queues, the calendar, the logs and the buffers have no index. One call reads them once for
// all its questions; Options.Fast skips them. The answer lists damaged files. A URL that was not found may
// be in one of those.
//
// Verdicts come from the code that the crawl uses (packages admit, robots and internal/health), with
// the options that the manifest keeps from the last run.
//
// An Explainer serves one call at a time.
package explain
