// Package condition says how a crawl does: it works, it waits by choice, a fault slows it, it stands still, or
// it has ended.
//
// Of judges a running crawl by one snapshot, OfEnd one that has ended. Dashboard, ctl, progress lines,
// metrics, /healthz and /readyz and the status of a node of a cluster show this condition and no other one.
//
// # Contract
//
// A crawl without a response for Patience (15 s from the start of a run) is never Working. If the operator
// or a site chose the wait (a delay, a limit, a pause, a visit that is due later), it is Waiting, and the
// text says since when and, if it is known, until when. Otherwise it is Slow or Standing. A back-off after
// failures is no choice. The text names the cause; Next is a command that shows more or helps.
//
// A fault that lets pages through makes the state Slow, one that lets none through Standing. Level is that
// of the worst problem.
//
// The package has no state and starts no goroutine. It reads the snapshot only; its functions may be called
// concurrently. Its windows are those of snapshot.Window: ten seconds, so a condition is at most that old, and
// a second.
//
// Files: condition.go judges a running crawl, end.go one that has ended, nodes.go a cluster by the words of
// its nodes.
package condition
