// Package mem is an cluster.Transport in memory, for tests: a Net is the broker, shared by the transports of all
// nodes, in one process and, as a rule, in one bubble of testing/synctest.
//
// Without faults it keeps all that it acknowledged, so the contract's tests run against it. With Faults it
// misbehaves, by seed, within the contract. It loses acknowledged messages, stores messages twice, at once or
// late, omits acknowledgements, and delays everything, which reorders the messages of different senders. It
// never changes bytes or the order within a subject.
//
// Events are calls, so that a test can place them: Stop and Start (a killed broker), Cut and Heal (a node
// without the network), LoseTail, Wipe, LoseValues (a broker set back), SetFull. Chaos makes them at random
// times, from the seed, and reports each.
//
// All random numbers come from one generator. Where goroutines race, the same seed may give another run.
//
// Time is that of package time, virtual in a bubble. Make the Net within the bubble. With Faults.Delay 0 all
// calls finish at once.
//
// Concurrency: one lock guards a Net and all its transports; no call waits under it. Goroutines: one for each
// request being answered; the rest are timers. Close of a transport waits for its goroutines.
//
// Memory: at most Options.StreamBytes for each stream and BucketBytes for each bucket, with 64 B for each
// message and value, the last 256 changes of each bucket, 1024 ids of each stream, and cluster.MaxInFlight
// messages in flight for each transport. Files: none.
package mem
