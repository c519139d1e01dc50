// Package inforce is a room of the running crawl: the rules, the blacklist, and the settings of sites that are
// in force, which a reload replaces while the crawl runs.
//
// # Contract
//
// The owner reads the files and puts them in force (Rules.Lists, Sites.Use); all others ask. After CutOff no
// exchange with a blacklisted host or address is under way or begins.
//
// # Concurrency
//
// Rules and Sites have no goroutine and are safe for concurrent use. A question sees one version of a list.
//
// # Memory and disk
//
// The owner bounds the lists, of which there are two during a reload. Rules keeps one entry for each exchange
// under way. Nothing is on disk.
package inforce
