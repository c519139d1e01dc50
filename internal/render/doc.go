// Package render loads pages in a browser of the operator's, headless Chromium, and returns what their scripts made
// of them. It speaks the Chrome DevTools Protocol (CDP), over a WebSocket to a
// browser that runs, or by pipes to one that Launch starts as a child.
//
// The IRLbot paper renders nothing, and a crawl does so only for the pages that its operator names.
//
// # The browser requests nothing
//
// Each page has a browser context of its own, without cookies or cache of another page. The domain Fetch stops each
// request of the page before it leaves; the package answers it. The page itself comes from the caller, who has
// fetched it before. Scripts and the requests of scripts go to a Fetcher, which obeys robots.txt, delays and address
// rules. For images and style sheets the page gets stubs at once, and the caller their addresses (Limits.Resources).
// All others are refused: media, frames, forms, all methods but GET, and every scheme but http and https. Downloads are
// denied. A script that leaves the page does not: the address becomes a link.
//
// Three fences hold where Fetch does not see a request. A policy in the head of the page (CSP) forbids sockets, workers
// and what is refused anyway. A script that runs before those of the page removes the functions that Fetch does not
// see, such as WebRTC. And the browser has the flags of Flags, which Dial checks: whatever leaves the browser meets a
// proxy that does not exist (deadProxy), names are not looked up, and WebRTC sends no datagrams past the proxy. New
// targets, such as popups, stay paused where Chromium pauses them. TestRenderBypass has a page try all of it.
//
// # Contract
//
// Render returns the DOM as HTML once the page is quiet (parsed, without requests for Limits.Quiet), or when a limit
// is reached: its own time, its time with requests, requests, bytes. An endless script is ended. Dial and Render
// respect their contexts. An error that wraps ErrLost means that the browser is gone, and says nothing about the page.
// A page that cannot be closed within closeTime also loses the browser: it may have hung. Contexts end with the
// connection, so a crawler that is killed leaves no page open.
//
// # Concurrency, memory
//
// A Browser may render several pages at once, and has one goroutine until Close. Render has up to
// Limits.AtOnce + 1 more. The DOM comes in pieces, so that all messages are small. A message above maxMessage is
// skipped; if it was a request, that gets no answer before the page ends. A page with more than maxEvents unread
// events, or maxEventBytes of them, is ended. So RAM is bounded: RAM for the connection, TabRAM for each page, its
// body in Base64, three times Limits.Bytes (all answers, the Base64 of one) before the DOM is read, and then twice
// Limits.DOM. The only files are the profiles of children,
// which are temporary. A child has two goroutines until it has ended.
package render
