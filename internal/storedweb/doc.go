// Package storedweb serves a stored crawl as the web: its hosts, pages and robots.txt, from WARC files, over
// sockets of the loopback interface and with name servers of its own. A crawl can so be repeated offline with
// other settings, and measured on the same web, as in the testbed of Polybot (Shkapenyuk and Suel, "Design and
// Implementation of a High-Performance Distributed Web Crawler", ICDE 2002). The IRLbot paper has no such
// web.
//
// # What is served
//
// Open finds the WARC files in the given directories and in their subdirectories "warc". A URL is answered
// with its newest capture: status, header fields, body, content coding and chunk framing as they were stored.
// A response without framing (by HTTP/2, or one that ended with its connection) gets a Content-Length. Of a
// body that was cut off, the stored part is sent, then the connection ends. A revisit record has its own head
// and the body of the capture that it names. A URL that is not stored gets 404, one whose record is damaged
// 502; both are counted and the first ones named. A host has the addresses of its stored DNS answer, or of
// its captures; a host that is not stored has no name. Each address is replaced by one of 127/8, always the
// same, so hosts that shared a server share one here. https has certificates of an authority of this web. One
// port serves both schemes and all ports of all hosts.
//
// # Index
//
// Open reads the CDXJ index beside each WARC file, or the WARC file itself if it has no sound index or was
// never closed. It writes a table to the scratch directory: 32 bytes for each capture and each run of
// captures of a host, sorted by a seeded hash of the URL. A request bisects the table, and compares the URL
// of the record. Seeds are the pages whose metadata record has no "via", and a "depth" of 0 if any.
//
// # Contract
//
// The stored crawl is only read. A directory that a crawl has locked is refused. Dial connects to nothing but
// this web, whatever the address: a stored page's link to an address does not leave the machine.
//
// # Concurrency, memory and disk
//
// A Web is safe for concurrent use. It has a goroutine for its listener, for each connection, and two for
// each name server; Close ends them. Memory: RAMBytes while the table is sorted; then 512 KiB of the table, 64
// bytes a WARC file, some 8 KiB a connection, and 0.4 MiB (up to 8 MiB more for zst files) for each of 32
// records that are read at once. Disk: the table, and as much again while it is sorted.
package storedweb
