// Package admin is the HTTP server through which an operator watches and steers a running crawl: a JSON
// interface under /api/v1, its OpenAPI 3.1 description at /openapi.json, server-sent events, health checks,
// and further handlers that the command adds (dashboard, metrics).
//
// One table (operations.go) has every operation: method, path, parameters, the Go types of body and result,
// and the handler. The router, the OpenAPI description and the tests read this table, so they cannot differ.
// Errors are problem details (RFC 9457).
//
// Access. On a loopback address everybody may read; a change needs the token of the crawl's file
// admin-token. On any other address everything needs the token. Against DNS rebinding, the name in Host must
// be an IP address, localhost, or the host of Options.Addr. Against requests from other sites, an Origin
// must be the server's own, and Sec-Fetch-Site must not be cross-site (guard.go).
//
// Bounds. Connections, header and body sizes, times, event streams and answers that read from disk are
// limited by the constants of server.go; a request beyond them gets 429 or 503. Reading never waits for a
// pass or a checkpoint of the crawl (crawl.Control).
//
// A Server is safe for concurrent use. Serve runs it until its context ends.
package admin
