// Package simweb is a synthetic web: pages, name servers, HTTP and HTTPS servers on loopback, and a log of
// a crawler's requests. It replaces the paper's Internet. The web is known exactly, so tests can check the
// properties of a crawl: each reachable and allowed URL is fetched once, delays are kept, spam is limited.
//
// # The generator
//
// The generator derives everything from Options.Seed by hashing; it stores only a table entry per host. A
// URL is a node of integers (host, page, hop): hop 0 is the page, hops 1 to 3 are the next URLs of a
// redirect chain or loop that starts at the page. Hosts are numbered:
//
//   - 0 to Hosts-1, ordinary. Host i < PLDs is the first of PLD i, later ones join PLD PLDs*u^4 for a
//     uniform u. Their Pages URLs are dealt by rank^-0.7, shuffled. Those with robots variants 503 and
//     "Disallow: /" have the highest numbers; the others are the trunk.
//   - the big host (BigPages URLs, otherwise as an ordinary one), the chain (page i links to i+1 only),
//     dead hosts, and one entry for all spam hosts s0 to s4294967295.spamfarm.<suffix>, which have 2^28 and
//     more pages each.
//
// Links of an HTML page, in document order: (1) the host's tree, page i to pages 4i+1 to 4i+4; (2) on roots
// of trunk hosts, the roots of trunk hosts 4i+1 to 4i+4, a share of the roots of barren and of dead hosts, on
// host 0 the big host's, on chosen hosts (the first of each of the first Spam.InLinks PLDs) one spam root;
// (3) 0 to 2*LinksPerPage-2 drawn ones, uniformly many. With u uniform and new each time, a drawn link is:
//
//   - with share Link.Duplicate, an earlier link of the page again;
//   - else with 1 - Link.Cross, a uniform page of the same host;
//   - else, if there are dead hosts, with Dead.Links a uniform page of a uniform dead host;
//   - else with 0.2 a uniform page of a uniform host of the same PLD;
//   - else PLD PLDs*u^8 (density p^(-7/8), so in-degrees have a power-law tail), its host number H*u^2, and
//     half the time the root, else page P*u^2.
//
// So all URLs are reachable from host 0's root, except those with links only from pages that robots rules
// forbid. Leaves of a host's tree may be of other kinds (PageMix; roots and inner pages are HTML).
// Redirects have no body; error pages and non-HTML have no links. Spam pages link to uniform spam pages,
// and with share OutLinks to trunk roots, which are reachable anyway.
//
// Each link has a form drawn from (seed, URL, place): absolute, protocol-relative, absolute path, relative
// to the page or to its base element; with fragments, upper case, default ports, dot segments, character
// references, odd spellings; in a, area, iframe, meta refresh. By the WHATWG URL and HTML rules every form
// leads to the one canonical URL of the node. Noise (comments, scripts, styles, textarea, other schemes,
// bad hosts, a second base) leads to /trap/… or nowhere.
//
// Robots rules are texts; refuses in robots.go computes their meaning from directory and form numbers.
// Agent tokens other than Options.Agent must be in no group except "*"; "otherbot" and Agent + "-news" are
// in other groups.
//
// # Expected
//
// Web.Expected walks the integer graph without pages or a parser. A test compares pages and graph with a
// crawler of independent parts: net/http, the parser of golang.org/x/net/html, a WHATWG URL library, and a
// robots matcher with regular expressions.
//
// # Servers, in-process form, log
//
// Web.Start serves on sockets: every address of the web on one HTTP port and one HTTPS port. A client must
// map ports 80 (and 8080) and 443 to these, as Server.Map does. Web.Dial and Web.LookupHost are the same
// web without sockets, for testing/synctest bubbles. Both write one Log, which defines its times;
// Log.Snapshot and its checks read it. Web.SetOutage breaks the network for a time.
//
// # Concurrency, memory
//
// All methods may be called concurrently. Goroutines are those of Server, for which Close waits, and one
// per connection of Dial, which ends with the connection. Memory: about 300 bytes per host, 64 KiB of text,
// one byte per node (4 per page) after the first fetched page, 120 bytes for each of LogRequests, and about
// 40 KiB per open connection.
//
// The package imports no other package of drumbeat.
package simweb
