package drum_test

import (
	"context"
	"fmt"
	"log"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
)

// Example asks which URLs are new, as a crawl asks URLseen. Each tuple is a check and an update. The store
// is on a file system in RAM; disk.OS() is the real one.
func Example() {
	d, err := drum.Open(drum.Options{
		Set:         disk.Set{FS: memfs.New(1), Paths: []string{"disk0"}},
		Name:        "urlseen",
		Buckets:     4,
		BufferBytes: 4096,
		BucketBytes: 1 << 20,
		Op:          drum.CheckUpdate, // the operation of all tuples
		Emit: func(results []drum.Result) error {
			for _, r := range results {
				if r.New {
					fmt.Printf("unique: %s\n", r.Aux)
				}
			}
			return nil
		},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	// Keys should be uniform; a crawl hashes its URLs. The leading bits select the bucket.
	err = d.Add([]drum.Tuple{
		{Key: 0x11 << 56, Op: drum.CheckUpdate, Aux: []byte("http://a.test/")},
		{Key: 0x52 << 56, Op: drum.CheckUpdate, Aux: []byte("http://b.test/")},
		{Key: 0x11 << 56, Op: drum.CheckUpdate, Aux: []byte("http://a.test/")},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Nothing is emitted before a pass. An early pass merges all buckets, even those that are not full.
	if _, err := d.Pass(context.Background(), true); err != nil {
		log.Fatal(err)
	}
	fmt.Println("keys:", d.Keys())

	err = d.Add([]drum.Tuple{
		{Key: 0x52 << 56, Op: drum.CheckUpdate, Aux: []byte("http://b.test/")},
		{Key: 0x93 << 56, Op: drum.CheckUpdate, Aux: []byte("http://c.test/")},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := d.Pass(context.Background(), true); err != nil {
		log.Fatal(err)
	}
	fmt.Println("keys:", d.Keys())
	// Output:
	// unique: http://a.test/
	// unique: http://b.test/
	// keys: 2
	// unique: http://c.test/
	// keys: 3
}
