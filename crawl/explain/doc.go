// Package explain says what a crawl knows of a URL, a host, an origin or a link, and why it did what it did: which place a URL is
// in and what it waits for, what robots.txt says of it, which delay binds its host, which rule would drop it as a link.
//
// An Explainer reads the files that the last durable manifest names. It takes no lock and writes nothing, so that it may be asked
// about a crawl that runs, by anyone who may read the files; answers are as of that checkpoint and carry its age. Files that it
// needs are pinned, that is kept open, before they are read. When the crawl deletes one of them first, the Explainer begins anew
// with the next manifest.
//
// URLseen, RobotsCache, RobotsRequested and STAR are looked up by key, some tens of kilobytes a question. Queues, the calendar, the
// logs and the buffers have no index: they are read once for all questions of a call, unless Options.Fast leaves them out. What is
// damaged is named in the answer, and what wasn't found then may still be there.
//
// Verdicts come from the code that the crawl itself decides with (packages crawl/admit, robots, internal/health), fed with the
// options that the last run noted in the manifest.
//
// An Explainer answers one call at a time.
package explain
