// Package e2e holds tests that open the dashboard in Chromium. It has no code of its own.
//
// TestOperator builds the command, runs demo with its admin server, and acts as an operator does: it reads
// the figures, pauses, enters the token, kills the process with SIGKILL and starts it again, resumes, blocks
// a PLD, and explains URLs, with the mouse and the keyboard of the page. It compares what the page says with
// the log of the demo's servers (demo --server-log). TestAppearance opens the demo and made-up crawls on a
// phone, a laptop and a wall screen, light and dark. TestTabs jumps to sections. TestModules runs the
// page's functions that write numbers and derive rates.
//
// The made-up crawls are at /SCENARIO/: healthy (weeks old, full speed), trouble (an outage, a disk that fills
// up, late checkpoints), new (no URL yet), finished (all URLs ended), slow (answers take seconds) and down
// (every answer is an error). Their answers have the shapes of package admin. The numbers follow from the time
// of the request, so they move and agree with each other; the history covers 20 days with two restarts.
// Changes need the token, are listed, and take effect where that is simple. To look at the page without a crawl:
//
//	go test ./admin/e2e -run TestServe -timeout 0 -serve 127.0.0.1:7879
//
// and open http://127.0.0.1:7879/healthy/ in a browser.
//
// Each page fails its test if it logs an error or a warning, throws, breaks its Content-Security-Policy, is
// wider than the screen, shifts, or transfers too much. If the environment variable AXE names a file
// axe.min.js, serious and critical findings of axe-core fail the test too.
//
// Chromium is the program that CHROMIUM names, or chromium in PATH. The tests take a minute and check times, so
// they are skipped unless CHROMIUM or -browser is set. -shots DIR keeps screenshots. scripts/browser.sh sets
// all of these:
//
//	go test ./admin/e2e -v -args -browser -shots /tmp/shots
//
// The tests speak the DevTools protocol over two pipes. One goroutine reads the messages of a Chromium; one
// waits for each process. Each test has a deadline. Files: chromium_test.go has the browser, page_test.go a tab,
// measure_test.go the measurements, demo_test.go the process, mock_*_test.go the made-up crawls;
// testdata/modules.js the cases of TestModules.
package e2e
