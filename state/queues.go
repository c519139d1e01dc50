package state

// URLQueue is a queue of URLs and its place.
type URLQueue struct {
	Name  string
	Place Place
}

// URLQueues are the queues of URLs.
var URLQueues = [...]URLQueue{{NameAwaitRobots, PlaceAwaitRobots}, {NameReady, PlaceReady}, {NameHeld, PlaceHeld}}

// Names of the tails that the manifest itself refers to, for reports on structures.
const (
	NameRAM      = "ram"
	NameJobs     = "jobs"
	NameDelays   = "delays"
	NameHosts    = "hosts"
	NameSketches = "sketches"
	NameScope    = "scope"
	NameTraps    = "traps"
	NameOrders   = "orders"
	NameRenders  = "renders"
	NameWalk     = "walk"
	NameIdentity = "identity" // manifest and secret, with their copies
)

// DamagedDir, under state, holds the files that a repair replaced.
const DamagedDir = "damaged"
