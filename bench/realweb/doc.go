// Command realweb crawls real HTML with drumbeat, without the Internet, and checks the result against a walk
// that shares no code with it. scripts/realweb.sh builds and runs it.
//
// The pages of the synthetic web (internal/simweb) have only the mistakes that its authors thought of. The
// documentation in Debian packages was written by others, with links as people and tools make them.
//
// # The web
//
// Each host name (by default 20, in 7 PLDs, on 5 addresses of 127.0.0.0/8) is one package's HTML directory.
// nginx serves it on unprivileged ports: half of the hosts by HTTPS with a certificate of a CA made for this
// run, which also redirect from HTTP, the others by HTTP. Another host, the hub, links to all, and has pages
// with the forms of links that documentation lacks: frames, a base, a refresh, areas, odd spellings. One DNS
// server knows only these names, so links to the real web end there.
//
// # The walk
//
// model.go predicts nginx's responses from the files. links.go takes links from the tree of
// golang.org/x/net/html and resolves them with nlnwa/whatwg-url; walk.go follows them from the hub, by the
// rules that package parse states for drumbeat.
//
// # The comparison
//
// compare.go compares the URLs in the CDXJ index with those of the walk, and nginx's log with both. Each
// difference has a class; a difference that no rule explains makes the exit code 1. Then another WARC
// library (scripts/checkwarc.mjs) reads the WARC files, and compares bodies with the files by a list that
// this program writes.
//
// # Trials
//
// "race" fetches a larger web alternately with the contenders (trial.go): wget2, drumbeat with and
// without its page store, and the bare loop (bench/bareloop) likewise, and compares medians (trials.go).
// The bare loop fetches the URLs that a first, untimed crawl requested.
//
// The web leaves out HTTPS, the hub and compression by the server, which would cost all the same and hide the
// difference. All hosts are seeds, and the crawlers stay on them. Links lead to no other existing host. The
// requests in nginx's log are compared with the walk.
//
// "discover" does so with a generated web (bench/docweb), whose hosts the crawlers find on the way from one
// seed. Its server is in this process, and its log is what the pages are compared with (discover.go,
// discovertrial.go, discoverreport.go). The bare loop fetches the list of what must be found. race.go has what
// both races share.
//
// # Processes
//
// nginx and the contenders are children of this process, and the kernel kills them when it dies. All files
// are in one directory, which the script removes.
package main
