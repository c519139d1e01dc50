package objstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

// TestStuck: the store has lost something of an upload, and refuses a call whenever it concerns that one.
// After a bounded number of attempts another upload is begun, whether the stuck one can be aborted or not,
// and a restart between attempts changes nothing.
func TestStuck(t *testing.T) {
	t.Parallel()
	for _, abort := range []bool{true, false} {
		for _, call := range []string{"Complete", "Parts", "PutPart", "lost"} {
			t.Run(fmt.Sprintf("%s/abort=%v", call, abort), func(t *testing.T) {
				t.Parallel()
				data, b := file(450), &objtest.Bucket{}
				creates, resumed := 0, false
				refused := errors.New("500 InternalError")
				b.Before = func(is, _ string) error {
					switch {
					case is == "Create":
						creates++
					case is == "Abort" && !abort:
						return refused
					case creates != 1:
					case is == call:
						return refused
					case call == "Parts" && is == "Complete" && !resumed:
						resumed = true
						return errors.New("connection reset")
					}
					return nil
				}
				b.After = func(is, key string) error {
					if call == "lost" && is == "Complete" && creates == 1 {
						b.Remove(key) // it says that it has it
					}
					return nil
				}
				var was objstore.Upload
				attempts := 1
				for put(t, uploaderOf(b), data, &was) != nil {
					if attempts++; attempts > 20 {
						t.Fatalf("%d attempts, %d uploads begun", attempts, creates)
					}
				}
				if abort {
					check(t, b, data)
				} else if all := b.Objects(); len(all) != 1 || !bytes.Equal(all[key], data) {
					t.Errorf("%d objects", len(all))
				}
				if creates != 2 {
					t.Errorf("%d uploads begun", creates)
				}
			})
		}
	}
}

// TestNeverCompletes: a store that never completes a file gets a new upload for every few attempts only.
func TestNeverCompletes(t *testing.T) {
	t.Parallel()
	b, creates := &objtest.Bucket{}, 0
	b.Before = func(is, _ string) error {
		switch is {
		case "Create":
			creates++
		case "Complete":
			return errors.New("500 InternalError")
		}
		return nil
	}
	var was objstore.Upload
	for range 100 {
		if put(t, uploaderOf(b), file(450), &was) == nil {
			t.Fatal("complete upload")
		}
	}
	if creates < 10 || creates > 25 {
		t.Errorf("%d uploads begun in 100 attempts", creates)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
