// Command realweb crawls real HTML with drumbeat, without the Internet, and checks the result against a walk
// that shares no code with it. scripts/realweb.sh builds and runs it.
//
// The synthetic web (internal/simweb) is drawn by us, so its pages have the mistakes that we thought of. The
// documentation that Debian packages carry was written by others, with links as people and tools make them.
//
// # The web
//
// Each of some host names (20 unless told otherwise, in 7 PLDs, on 5 addresses of 127.0.0.0/8) is one
// package's HTML directory. nginx serves it on unprivileged ports: half of the hosts by HTTPS with a
// certificate of a CA that lives for this run, the others by HTTP; by HTTP a host of the first half redirects
// to its HTTPS form. A host more, the hub, links to all, and has pages with the forms of links that
// documentation lacks: frames, a base, a refresh, areas, odd spellings. One DNS server knows these names and
// no other, so that links to the real web end there.
//
// # The walk
//
// What nginx answers is predicted from the files (model.go). Links are taken from the tree that
// golang.org/x/net/html builds (links.go), resolved by nlnwa/whatwg-url, and followed from the hub by the
// rules that package parse states for drumbeat (walk.go). "check" holds the prediction against nginx itself
// with net/http.
//
// # The comparison
//
// URLs of the CDXJ index against those of the walk, and the requests that nginx logged against both
// (compare.go). Every difference has a class; those that no rule explains make the exit code 1. The files
// themselves are then read by a WARC library of another house (scripts/checkwarc.mjs), which compares
// bodies with the files by a list that this program writes.
//
// # The race
//
// "race" crawls a larger web with wget2 and drumbeat in turn, to compare their times (race.go). There HTTPS, the
// hub and the server's compression are left out: they would cost each the same, and hide the difference. All
// hosts are seeds, and both stay on them. Links of the web lead to no other host that exists. What each asked
// for is in nginx's log, which is compared with the walk.
//
// # Processes
//
// nginx and drumbeat are children of this process and die with it, whatever way it dies. All files are in one
// directory, which the script removes.
package main
