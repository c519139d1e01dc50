// Package account has what all stages of a running crawl share: transactions, accounts, durations, signals, and the end
// of the crawl. It lies below the stages, has no options, and knows none of them.
//
// Run is one running crawl. A stage changes the place of a URL by Run.Transact only, whose function records
// each change in its Tx. A checkpoint takes Run.TxLock alone, so it sees a transaction whole or not at all
// (docs/how-it-works/architecture.md, "Transactions"). Nothing of this is in the paper, whose crawler is never cut.
//
// Contract: the accounts say how many URLs are in each place, with the sum of their keys; `audit` compares
// the files with them. After an error inside a transaction the crawl stops, and Transact begins no further
// one.
//
// A stage without work sleeps until something happens. Three things wake it: its own Signal, which a
// transaction raises when it adds work; a timer, if it waits for a known time; and the pulse, which follows
// every change of the crawl within PulseEvery. The pulse is for stages that wait for the state of others
// (the stock, idle connections, the end of BEAST's queue). Without a change no stage has new work before
// its timer fires, so a crawl that waits for one slow host is idle between its pages.
//
// Concurrency: Run, Accounts, Times and Signal are safe for concurrent use once the stages run; a Tx belongs
// to the function that Transact calls. Locks: TxLock above all locks of structures; the mutexes of Accounts
// and of the first error below all.
//
// Memory: one Tx for each transaction under way, kept in a pool; nothing that grows with the crawl. Disk: nothing. The
// checkpoint saves a copy of the accounts (state.Manifest).
package account
