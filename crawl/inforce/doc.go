// Package inforce is a room of the running crawl: it has the rules, the blacklist, the settings of sites and
// the trusted PLDs that are in force, and replaces them while the crawl runs.
//
// A Reloader reads the files, with what the operator has blocked, and puts them in force (Rules.Lists,
// Sites.Use). Then it ends exchanges and removes URLs from RAM that the new blacklist names, and gives the
// hosts in RAM the delays and connections of their sites. All others ask Rules and Sites. The paper's crawler
// has one fixed blacklist.
//
// # Contract
//
// A file with errors fails the start of a crawl; later, it leaves the old version in force. After a reload no
// exchange with a blacklisted host or address is under way or begins, and no URL is admitted to RAM with old
// terms.
//
// # Concurrency
//
// Rules and Sites have no goroutine and are safe for concurrent use. A question sees one version of a list.
// One goroutine runs Reloader.Run; its other methods are safe for concurrent use. Lock order: Reloader's
// locks, then Sites.Admitting, then polite; transactions begin under the first only.
//
// # Memory and disk
//
// Rules and blacklist take at most an eighth of the Go heap, settings of sites a 16th; during a reload there
// are two versions. Rules keeps one entry for each exchange under way. Nothing is written to disk.
//
// Files: rules.go, sites.go (what is in force), files.go (reading), reload.go (Reloader).
package inforce
