package urllist

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// TestRanks: the lists of Common Crawl and Tranco, and others with a header, up to a rank.
func TestRanks(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte("#harmonicc_pos\t#harmonicc_val\t#pr_pos\t#pr_val\t#host_rev\t#n_hosts\n" +
		"1\t3.1E7\t5\t0.01\tcom.facebook\t3603\n2\t3.0E7\t3\t0.009\tuk.co.example\t1\n3\t2\t1\t0.1\ttest\t1\n" +
		"4\t1\t1\t0\torg.late\t1\n9\t9\t9\t9\tno more\n"))
	w.Close()
	const two = "1 facebook.com, 2 example.co.uk, "
	for name, c := range map[string]struct{ text, want string }{
		"Common Crawl": {packed.String(), two + "4 late.org, "},
		"Tranco":       {"1,facebook.com\r\n2,example.co.uk\r\n4,late.org\r\n5,x.test\n", two + "4 late.org, "},
		"Majestic": {"GlobalRank,TldRank,Domain,TLD\n1,1,facebook.com,com\n2,2,\"Example.co.uk\",uk\n3,,a b.c,\n",
			two},
		"equal ranks": {"1,a.test\n1,b.test", "1 a.test, 1 b.test, "},
		"empty":       {"", ""},
	} {
		var got strings.Builder
		_, err := Ranks(strings.NewReader(c.text), 4, func(domain []byte, rank int64) error {
			fmt.Fprintf(&got, "%d %s, ", rank, domain)
			return nil
		})
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got.String(), err, c.want)
		}
	}
	stop := errors.New("stop")
	for text, want := range map[string]string{"facebook.com\n": "line 1", "0,a.test": "no rank",
		"1,a.test\nx,b.test\n": `line 2: "x" is no rank`, "2,a.test\n1,b.test": "rank 1 after rank 2: sort",
		"\x1f\x8bxx": "gzip", "PAR1": "Parquet",
		"1,a.test\n" + strings.Repeat("x", MaxLine+1): "line 2: longer", "1,stop.test": "stop",
		"PK\x03\x04\x14,x": "unpack it first"} {
		_, err := Ranks(strings.NewReader(text), 4, func(domain []byte, _ int64) error {
			if string(domain) == "stop.test" {
				return stop
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	skipped, err := Ranks(strings.NewReader("1,localhost\n2,a b.test\n3,"+strings.Repeat("x.", 200)+"\n"), 4,
		func([]byte, int64) error { return stop })
	if err != nil || skipped != 3 {
		t.Errorf("%d lines skipped, %v", skipped, err)
	}
}

func FuzzRanks(f *testing.F) {
	f.Add([]byte("#harmonicc_pos\t#host_rev\n1\tcom.a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		last := int64(0)
		_, _ = Ranks(bytes.NewReader(data), 1000, func(domain []byte, rank int64) error {
			if len(domain) == 0 || rank < last || rank < 1 || rank > 1000 {
				t.Errorf("%q, rank %d after %d", domain, rank, last)
			}
			last = rank
			return nil
		})
	})
}
