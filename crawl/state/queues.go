package state

// URLQueues are the queues of URLs, and the place that each of them is.
var URLQueues = [...]struct {
	Name  string
	Place Place
}{{NameAwaitRobots, PlaceAwaitRobots}, {NameReady, PlaceReady}, {NameHeld, PlaceHeld}}

// The strings of the manifest's own, as structures.
const (
	NameRAM      = "ram"
	NameJobs     = "jobs"
	NameDelays   = "delays"
	NameHosts    = "hosts"
	NameSketches = "sketches"
	NameScope    = "scope"
	NameIdentity = "identity" // manifest and secret, with their copies
)

// DamagedDir, under state, is where Repair puts what it replaced.
const DamagedDir = "damaged"
