package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster/mem"
)

// TestLargeBodies: exchanges that take many times Options.Longest count against the connections of a network,
// whichever node holds it meanwhile: it passes from hand to hand.
func TestLargeBodies(t *testing.T) {
	for _, count := range []int{2, 4} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes, web := testNodes(t, *seedFlag, count, 60, mem.Faults{Delay: 5 * time.Millisecond})
			for _, n := range nodes {
				n.bodies = 20 * longest
			}
			together(t, nodes, func() {})
			handed := int64(0)
			for _, n := range nodes {
				handed += n.figures.HandedOver
			}
			if web.visits != count*60 || handed < 20 {
				t.Errorf("%d visits, %d hand-overs", web.visits, handed)
			}
		})
	}
}
