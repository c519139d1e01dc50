// Package mocktest serves the dashboard with a made-up API, for the tests of admin/web and for work on the
// page without a crawl.
//
// Handler has one crawl for each scenario, at /SCENARIO/: healthy (weeks old, full speed), trouble (an
// outage, a disk that fills up, late checkpoints), new (no URL yet), finished (all URLs ended), slow (answers
// take seconds) and down (every answer is an error). The numbers follow from the time of the request, so they
// move and agree with each other; the history covers 20 days with two restarts. Changes need Token, appear in
// the list of changes, and take effect where that is simple, such as pause and limits.
//
// Contract: the answers have the shapes of package admin (types.go there). admin/e2e tests the page
// against this package and against a real crawl. Concurrency: safe for concurrent use. Memory: the changes
// made, at most 100 a scenario. Disk: none. Files: mock.go has the server, status.go the state, detail.go the
// structures, hosts and PLDs, history.go the history and the log, changes.go the changes.
//
// To look at the page:
//
//	go test ./admin/web/mocktest -run TestServe -timeout 0 -serve 127.0.0.1:7879
//
// and open http://127.0.0.1:7879/healthy/ in a browser.
package mocktest
