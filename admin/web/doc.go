// Package web holds the dashboard of a crawl: static files that the admin server serves to a browser.
//
// The page shows whether the crawl is healthy, its speed, its progress, what limits it and what is wrong. It
// then shows the places of URLs, URLseen's buckets, BEAST's queues, connection slots, hosts in trouble, RAM
// and disk, and it changes what an operator may change. It has no paper section of its own; the words are
// those of docs/reference/glossary.md.
//
// Contract: Handler serves the embedded files under "/", and reasons.js with the words of package state for
// reasons. The page uses only the API under api/v1/, at addresses relative to its own, so a proxy may put both
// under a prefix. Everything comes from this server: the Content-Security-Policy forbids inline scripts and
// styles and other origins. Text of the crawled web enters the page as text, never as HTML. Answers have an
// ETag and are compressed with gzip if the browser accepts it; the first visit then transfers less than 100
// KB.
//
// Nothing moves under a click: what fills later has its room before, and each panel asks for its numbers once
// at the start. Speeds are means of ten seconds.
//
// Concurrency: the handler is safe for concurrent use and holds no state. Memory: each file in plain and
// compressed form, below 400 KB. Disk: none.
//
// Files: web.go has the handler. static/index.html is the page and app.css its style. The modules are app.js
// (start, keys), nav.js (tabs and sections that fold), live.js (the connection to the API), overview.js (the
// first screen), trends.js (history), ring.js (the drawing of the crawler), structures.js, sites.js,
// resources.js, explain.js, controls.js and dialogs.js, and below them level.js (the condition), dom.js,
// format.js and words.js; cluster.html and cluster.js are the page about the nodes of a cluster; theme.js runs
// before the first paint. static/vendor has uPlot 1.6.32 with its licence. admin/e2e serves the page with a
// made-up API, for its tests and for work on the page.
package web
