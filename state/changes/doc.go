// Package changes keeps what the operator changes while a crawl runs: pauses, limits, blocked sites, delays
// and budgets of single sites, and further seeds.
//
// Each change is a line of a journal on disk, with its time and its author. It is durable before it takes
// effect. The settings in force follow from the journal, so they survive kill -9 and restarts; a change is
// undone by its opposite (Op.Undo).
//
// The journal is not part of a checkpoint: a crawl that returns to its last checkpoint keeps its settings.
// Seeds are different. The crawl feeds them once, and its manifest names the last change whose seeds it has
// fed. After a crash it feeds the later ones again (Journal.NextSeeds).
//
// A torn last line is the change that was under way when the machine stopped; Open cuts it off. Any other
// damage is an error, since a lost line could be a site that must not be visited.
//
// The journal has at most 64 MiB. Seeds leave its last MiB to other changes. When a MiB can be dropped, it
// is rewritten: with the settings, the last thousand changes, and the seeds that no checkpoint has yet.
//
// docs/reference/files/changes.md describes the file.
package changes
