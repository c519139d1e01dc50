// Package mem is an exchange.Engine in memory, for tests: a Net is the broker, shared by the engines of all
// nodes, in one process and, as a rule, in one bubble of testing/synctest.
//
// Without faults it keeps all that it acknowledged, so the contract's tests run against it. With Faults it
// does, by seed, what the contract allows a broker to do: it loses single messages that it acknowledged, puts
// messages twice, at once or late, acknowledges none of what it stored, delays everything, and so shows the
// messages of several senders in another order than they were published. It never changes the order within a
// subject, nor bytes.
//
// Events are calls, so that a test can place them: Stop and Start (a killed broker), Cut and Heal (a node
// without the network), LoseTail, Wipe, LoseValues (a broker set back), SetFull. Chaos makes them at random
// times, from the seed, and reports each, so that a failed run can be read.
//
// The numbers that decide come from one generator. Where goroutines race, the same seed may give another run.
//
// Time is that of package time, virtual in a bubble. Make the Net within the bubble. With Faults.Delay 0 all
// calls finish at once.
//
// Concurrency: one lock guards a Net and all its engines; nothing waits under it. Goroutines: one for each
// request being answered; the rest are timers. Close of an engine waits for its goroutines.
//
// Memory: at most Options.StreamBytes for each stream and BucketBytes for each bucket, with 64 B for each
// message and value, the last 256 changes of each bucket, 1024 ids of each stream, and
// exchange.MaxInFlight messages under way for each engine. Files: none.
package mem
