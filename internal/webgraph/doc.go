// Package webgraph computes centralities of the nodes of a large directed graph on disk: PageRank, and harmonic
// centrality by HyperBall. The paper has no counterpart.
//
// # Graph
//
// A graph is a file with the predecessors of each node, in ascending order, as gaps of variable length: some 2
// bytes an arc if names that are close have numbers that are close. A Builder writes it once, from arcs sorted by
// target; blocks of it have checksums. Arcs count once, whatever their weight, and loops do not count.
//
// # Methods
//
// PageRank (Brin and Page, 1998) is the stationary distribution of a surfer who follows a random arc with probability
// 0.85, or else, and at a node without arcs, goes to a random node; it is computed by the power method.
//
// The harmonic centrality of a node is the sum of 1/d over all nodes that reach it, by a shortest path of d arcs
// (Boldi and Vigna, "Axioms for Centrality", 2014). HyperBall (Boldi and Vigna, "In-Core Computation of Geometric
// Centralities with HyperBall", 2013) counts for each node and distance the nodes that reach it, in a HyperLogLog
// counter (Flajolet, Fusy, Gandouet and Meunier, 2007) of 64 registers, whose standard error is 13 %. Graphs so
// small that a breadth-first search from each node is cheap get exact values.
//
// # Memory and disk
//
// PageRank takes 12 bytes a node. HyperBall takes 10 bytes a node, and as many counters of 64 bytes as are left of
// Options.RAMBytes: if that is not all nodes, each step reads the graph several times. Two counters a node are
// on disk. Both read the graph from the beginning to the end, with Options.Workers goroutines, which end with the call.
// Results do not depend on their number.
package webgraph
