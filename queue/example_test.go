package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/queue"
)

// Example fills a queue, reads one record, makes a checkpoint, and continues from it as another process
// would.
func Example() {
	fs := memfs.New(1) // disk.OS() for real directories
	if err := fs.MkdirAll("disk0"); err != nil {
		log.Fatal(err)
	}
	opt := queue.Options{Set: disk.Set{FS: fs, Paths: []string{"disk0"}}, Name: "ready"}
	q, err := queue.Open(opt, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, rec := range []string{"first", "second", "third"} {
		if err := q.Append([]byte(rec)); err != nil {
			log.Fatal(err)
		}
	}
	rec, ok, err := q.Peek() // rec is valid until Advance
	fmt.Printf("%s %v %v\n", rec, ok, err)
	q.Advance()

	manifest, err := checkpoint(opt.Set, q)
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Append([]byte("after the checkpoint")); err != nil {
		log.Fatal(err)
	}
	if err := q.Close(); err != nil { // discards changes since the checkpoint
		log.Fatal(err)
	}

	var st queue.State
	if err := json.Unmarshal(manifest, &st); err != nil {
		log.Fatal(err)
	}
	if q, err = queue.Open(opt, &st); err != nil {
		log.Fatal(err)
	}
	for {
		rec, ok, err := q.Peek()
		if err != nil {
			log.Fatal(err)
		}
		if !ok {
			break
		}
		fmt.Printf("%s\n", rec)
		q.Advance()
	}
	if err := q.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// first true <nil>
	// second
	// third
}

// checkpoint freezes q, saves the records in RAM and returns the manifest. The manifest must be durable
// before Commit, which deletes the files that it no longer names.
func checkpoint(set disk.Set, q *queue.Queue) ([]byte, error) {
	frozen := q.Freeze()
	tails, err := disk.CreateTails(set, 1) // the number of the checkpoint
	if err != nil {
		return nil, err
	}
	st, err := frozen.Save(tails)
	if err = errors.Join(err, tails.Close()); err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	if err := set.FS.SyncFS(set.Path(0)); err != nil {
		return nil, err
	}
	if err := disk.WriteFileAtomic(set.FS, set.Path(0, "manifest"), manifest); err != nil {
		return nil, err
	}
	return manifest, frozen.Commit()
}
