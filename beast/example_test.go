package beast_test

import (
	"fmt"
	"log"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// Example places five URLs of a PLD with budget 2 and one of a PLD with budget 10, then reads the queues in
// order. URLs that fit into no queue go to QF, which is read again later with twice the number of queues.
func Example() {
	b, err := beast.Open(beast.Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"disk0"}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	ledgers := map[string]*beast.Ledger{"spam.test": {}, "good.test": {}} // the owner keeps a ledger for each PLD
	budgets := map[string]uint32{"spam.test": 2, "good.test": 10}
	place := func(pld, url string) {
		defer b.Pin()() // the current queue must not move between Place and Append
		n := b.Place(ledgers[pld], budgets[pld])
		if err := b.Append(n, []byte(pld+url)); err != nil {
			log.Fatal(err)
		}
	}
	readQueues := func() {
		for {
			rec, ok, err := b.Peek()
			if err != nil {
				log.Fatal(err)
			}
			if !ok {
				return
			}
			fmt.Printf("queue %d: %s\n", b.Current(), rec)
			b.Advance()
		}
	}

	for i := range 5 {
		place("spam.test", fmt.Sprintf("/%d", i))
	}
	place("good.test", "/")
	fmt.Println("in QF:", b.Stats().OverBudgetRecords)
	readQueues()

	// The queue has been read to its end, so a scan of QF is due. It doubles the number of queues.
	fmt.Println("scan due:", b.ScanDue())
	if err := b.StartScan(); err != nil {
		log.Fatal(err)
	}
	for {
		rec, ok, err := b.ScanPeek()
		if err != nil {
			log.Fatal(err)
		}
		if !ok {
			break
		}
		place("spam.test", string(rec[len("spam.test"):]))
		b.ScanAdvance()
	}
	if err := b.EndScan(); err != nil {
		log.Fatal(err)
	}
	readQueues()
	// Output:
	// in QF: 3
	// queue 1: spam.test/0
	// queue 1: spam.test/1
	// queue 1: good.test/
	// scan due: true
	// queue 2: spam.test/2
	// queue 2: spam.test/3
	// queue 3: spam.test/4
}
