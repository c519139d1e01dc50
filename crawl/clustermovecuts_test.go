package crawl

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	slotmove "drumbeat/state/move"
)

// TestClusterMoveCuts: a move is killed, or loses its power, at random operations on the disk, and is run
// again until it ends. The nodes then have what a move without interruption gives them. Meanwhile, nodes
// either start with the old file or are refused.
func TestClusterMoveCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 15, 20, 200)
		c, base := movable(t, web, 3, func(o *Options) {
			o.Output.WARCFileBytes = 30_000
			o.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: day, Longest: day, Default: day, Gone: 2}
		})
		defer c.close()
		c.stopAfter(80)
		const first, last, from, to = 500, 3000, -1, 1
		whole := base.Fork(1)
		before := whole.Ops()
		if _, err := slotmove.Run(c.moving(whole, first, last, from, to)); err != nil {
			t.Fatal(err)
		}
		ops := whole.Ops() - before
		want := c.accounts(whole)
		rng := rand.New(rand.NewPCG(*seedFlag, 0x6d6f7665))
		var finished, refused int
		for i := range longOr(400, 8) {
			at := 1 + rng.IntN(ops)
			if i%2 == 0 {
				at = max(1, ops-rng.IntN(60)) // where it is committed and carried out
			}
			fs := base.Fork(uint64(i))
			for cuts := 0; ; cuts++ {
				if cuts < 3 {
					fs.CrashAfter(at)
				}
				rep, err := slotmove.Run(c.moving(fs, first, last, from, to))
				if err == nil {
					if rep.Finished {
						finished++
					}
					break
				}
				if !errors.Is(err, disk.ErrCrashed) {
					if c.follow(fs); c.options[0].Cluster.Table.Moves() == 1 {
						break // it was published, and its end was lost
					}
					t.Fatalf("cut at %d of %d: %v", at, ops, err)
				}
				if fs = fs.Kill(); rng.IntN(2) == 0 {
					fs = fs.Fork(uint64(i)).Crash()
				}
				n, err := c.refusals(fs)
				if refused += n; err != nil {
					t.Fatalf("cut at %d of %d: %v", at, ops, err)
				}
				at = 1 + rng.IntN(ops)
			}
			fs.CrashAfter(0)
			if got := c.accounts(fs); !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at %d of %d: the nodes have %+v, want %+v", at, ops, got, want)
			}
			c.checkAll(fs)
			if t.Failed() {
				t.Fatalf("cut at %d of %d", at, ops)
			}
		}
		c.auditedAfter(base)
		t.Logf("%d operations; %d moves were finished by the next run, %d nodes were refused meanwhile", ops,
			finished, refused)
		if finished == 0 || refused == 0 {
			t.Error("no cut was after the commit")
		}
	})
}

// TestClusterMoveNotDurable: a move is killed when it has committed, but not durably. The next one makes that durable
// before it changes a node: when the power fails in it, the one after it ends the move.
func TestClusterMoveNotDurable(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 15, 20, 200)
		c, base := movable(t, web, 2, nil)
		defer c.close()
		c.stopAfter(80)
		const first, last, from, to = 500, 3000, -1, 1
		whole := base.Fork(1)
		_, err := slotmove.Run(c.moving(whole, first, last, from, to))
		must(t, err)
		want := c.accounts(whole)
		killed := memfs.NewFault(base, func(op memfs.Op, name string) error {
			if _, err := base.Size(clusterFile + ".next"); op == memfs.OpSyncDir && name == "cluster" && err == nil {
				return disk.ErrCrashed
			}
			return nil
		})
		if _, err := slotmove.Run(c.moving(killed, first, last, from, to)); !errors.Is(err, disk.ErrCrashed) {
			t.Fatal(err)
		}
		base = base.Kill()
		for cut := 1; ; cut++ {
			fs := base.Fork(uint64(cut))
			fs.CrashAfter(cut)
			_, err := slotmove.Run(c.moving(fs, first, last, from, to))
			if err == nil {
				t.Logf("%d operations", cut)
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			fs = fs.Crash()
			if _, err := slotmove.Run(c.moving(fs, first, last, from, to)); err != nil {
				if c.follow(fs); c.options[0].Cluster.Table.Moves() != 1 { // it was published
					t.Fatalf("after the cut at %d: %v", cut, err)
				}
			}
			if got := c.accounts(fs); !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at %d: the nodes have %+v, want %+v", cut, got, want)
			}
		}
	})
}
