// Package admin is the HTTP server through which an operator watches and steers a running crawl: a JSON
// interface under /api/v1, its OpenAPI 3.1 description at /openapi.json, server-sent events, health checks,
// and further handlers that the command adds (dashboard, metrics).
//
// One table (operations.go) has every operation: method, path, parameters, the Go types of body and result,
// and the handler. The router, the OpenAPI description and the tests read this table, so they cannot differ.
// Errors are problem details (RFC 9457).
//
// Access. Two ways lead to the same operations (socket.go, token.go, guard.go).
//
//   - The Unix socket admin.sock in the crawl's first directory, for ctl. It has mode 0600, and both sides ask the
//     kernel for the user at the other end (SO_PEERCRED): the server takes its own user and root, the client those
//     and the owner of the directory. So no secret is sent, and nobody can take the place of a crawl that was
//     killed. The socket is made under the directory's lock. A directory that cannot hold one gets a socket in the
//     abstract namespace, with the same checks and a warning.
//   - TCP, for browsers and Prometheus. On a loopback address everybody may read; a change needs the token of the
//     file admin-token. On any other address everything needs it. Each start makes a new token, unless the
//     operator gives one. The client sends it only to an address that the operator named.
//
// Against DNS rebinding, the name in Host must be an IP address, localhost, or the host of Options.Addr. Against
// requests from other sites, an Origin must be the server's own, and what Sec-Fetch-Site calls another site may only
// lead to / and /cluster, as documents. No answer may be framed or used by other sites.
//
// Bounds. Connections, header and body sizes, times, event streams and answers that read from disk are
// limited by the constants of server.go; a request beyond them gets 429 or 503. When connections have all places, the
// one that is missed least makes room (gate.go). The socket has places, streams and an explainer of its own. Both ways
// speak HTTP/1.1 only. Reading never waits for a pass or a checkpoint of the crawl (crawl.Control).
//
// A Server is safe for concurrent use. Serve runs it until its context ends.
package admin
