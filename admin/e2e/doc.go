// Package e2e holds tests that open the dashboard in Chromium. It has no code of its own.
//
// TestOperator builds the command, runs demo with its admin server, and acts as an operator does: it reads
// the figures, pauses, enters the token, kills the process with SIGKILL and starts it again, resumes, blocks
// a PLD, and explains URLs, with the mouse and the keyboard of the page. It compares what the page says with
// the log of the demo's servers (demo --server-log). TestAppearance opens the demo and the made-up crawls of
// admin/web/mocktest on a phone, a laptop and a wall screen, light and dark. TestModules runs the page's
// functions that write numbers and derive rates.
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
// measure_test.go the measurements, demo_test.go the process; testdata/modules.js the cases of TestModules.
package e2e
