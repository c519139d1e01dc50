// Package move moves slots of PLDs between the nodes of a cluster. Run moves them between stopped nodes. Give moves
// them from one node, whose crawl rests, into its outboxes for others, which run (give.go).
//
// Run reads the directories of all nodes, and writes the next state of each beside the old one
// (repair.Shadow). A node's state of a PLD goes to the owner of its slot by the next table:
//
//   - keys of URLseen, which hold their slot (weburl.SlotOf), and links that wait for it, including those in
//     outboxes for a node that gives slots, which count as taken;
//   - URLs that wait for their next visit, to the calendar of their new node, with their due times (visits.go);
//   - other unique URLs, from all places. Moved URLs go to the check of STAR of their new node, whatever their
//     place, because queue numbers, due times and verdicts belong to one node. The health of their hosts
//     moves too, so they wait again if necessary;
//   - enqueued URLs that wait, to RobotsCache of their new node, and those that were fetched while another record of
//     them waits (orders.go);
//   - in-degrees of PLDs, and the edges to them; a PLD's ledger is reset;
//   - entries of RobotsCache, the health of hosts, delays of hosts and trap scores;
//   - names of hosts. Names of PLDs are copied, since edges may name them at both nodes, and so are the
//     delays of servers.
//
// Pages, logs and counters stay where they are. The URLs that have ended count as moved in the accounts
// (state.Accounts.Moved), at both ends. Requests for robots.txt of moved origins are dropped; the new node makes them.
//
// Run first refuses crawls that it cannot move: with pages that wait for the store of contents, or settings of
// hosts and PLDs by the operator at a node that gives slots.
//
// Protocol: each node gets its new files and a journal, state/MOVE, with which it does not start. Then the
// next file of the cluster, FILE.next, is made durable: from here on the move is committed. The nodes are
// changed one by one (repair.Commit), and FILE.next becomes FILE at the end. After a crash, the next Run
// finishes a committed move, and drops the files of an uncommitted one. A node refuses to start with the old
// table, because its manifest has another.
//
// All nodes are audited before and after (audit.AuditOpened). Numbers and key sums of all nodes together are
// compared before the commit: unique URLs, ended ones, names, records between nodes. A difference ends the
// move before any change, except a difference found by the last audit.
//
// Give checks the same of its node, but audits nothing: the sums of what it reads must be those of the accounts. Its
// commit is the file state/GIVE: FinishGive completes a committed Give, and undoes another one.
//
// Memory: Options.RAMBytes for the buffers of the new stores, one record, one message. Disk: a second copy of
// the stores of the nodes that give or get slots, in their own directories; deleted at the end. Run starts no
// goroutine.
package move
