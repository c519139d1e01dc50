package admit

import (
	"errors"
	"testing"

	"drumbeat/cluster"
	"drumbeat/weburl"
)

// FuzzInlet: a record from another node is taken, or refused with cluster.ErrMessage.
func FuzzInlet(f *testing.F) {
	for _, url := range []string{"http://a.test/", "http://./", "http://../", "http://a./", "http:///",
		"http://co.uk./", "http://127.0.0.1/", "x"} {
		f.Add((&weburl.Record{URL: []byte(url)}).Append(nil))
	}
	p := &Policy{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}
	f.Fuzz(func(t *testing.T, record []byte) {
		in := NewInlet(p)
		for range 2 { // the second time the host is known
			if _, err := in.Link(record); err != nil {
				if !errors.Is(err, cluster.ErrMessage) || len(in.Tuples) > 0 {
					t.Fatalf("%q: %v, %d tuples", record, err, len(in.Tuples))
				}
			} else if len(in.Tuples) == 0 {
				t.Fatalf("%q: taken without a tuple", record)
			}
		}
	})
}
