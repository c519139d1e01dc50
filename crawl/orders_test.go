package crawl

import (
	"sync"
	"testing"
)

// TestAdoptWhileEnding: URLseen's emission finds an order while another transaction ends it. Either the order's record is
// that of the unique URL, and stays in the crawl, or it leaves, and the emission learns that it did.
func TestAdoptWhileEnding(t *testing.T) {
	for i := range 20_000 {
		o := newOrders()
		o.begin(1, 2)
		refuses := i%2 == 0
		var leaves, found, adopted bool
		var both sync.WaitGroup
		both.Go(func() {
			if refuses {
				leaves = o.refused(1)
			} else {
				leaves = o.fetched(1, nil)
			}
		})
		order, ok := o.adopt(1)
		found, adopted = ok, ok && !order.Done
		both.Wait()
		if leaves == adopted {
			t.Fatalf("refused %t, leaves %t, found %t, adopted %t", refuses, leaves, found, adopted)
		}
	}
}
