// Package roomtest runs one room of the crawl alone, for tests.
//
// A World has what most rooms take: the run, the files in RAM, a plan of small stores, and the keepers of
// disk space, of the stock and of passes. It stands for the stages around the room, too: it takes the URLs
// that the room hands on, moves them in the accounts, and remembers them (Moved). A test opens the room's
// structures by Open, and runs its goroutines during a function by While, in a bubble of virtual time
// (testworld.InBubble) if they wait.
//
// # Checkpoints and cuts
//
// Save makes a real checkpoint of the structures. Cut is a power cut: it returns a World of what is durable,
// at the last checkpoint, in which the test creates and opens the room again.
//
// # Contract
//
// It imports no stage, so a change of a room rebuilds the room and its test, not a crawl. A World belongs to
// one test; its stand-ins are safe for concurrent use by the room's goroutines.
//
// # Resources
//
// A few MB of RAM for each World. It creates no file on a real disk.
package roomtest
