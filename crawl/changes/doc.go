// Package changes keeps what the operator changes while a crawl runs: pauses, limits, blocked sites, delays
// and budgets of single sites, and further seeds. Each change is a line of a journal on disk, with its time
// and its author, and is durable before it takes effect. The settings in force follow from the journal, so
// they survive kill -9 and restarts.
//
// The journal is not part of a checkpoint: settings are not undone when a crawl returns to its last
// checkpoint. Seeds are different: the crawl feeds them once and notes in the manifest which it has fed
// (Journal.NextSeeds).
//
// docs/formats/changes.md describes the file.
package changes
