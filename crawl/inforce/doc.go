// Package inforce is a room of the running crawl: it has the rules, the blacklist and the settings of sites that are
// in force. A reload replaces them while the crawl runs.
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
// The owner bounds the lists; during a reload there are two versions. Rules keeps one entry for each exchange under
// way. Nothing is on disk.
package inforce
