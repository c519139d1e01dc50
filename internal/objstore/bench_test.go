package objstore_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"drumbeat/internal/cputime"
	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

// benchFile writes a file of n bytes.
func benchFile(tb testing.TB, n int) *os.File {
	tb.Helper()
	f, err := os.Create(filepath.Join(tb.TempDir(), "file"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	if _, err := f.Write(file(n)); err != nil {
		tb.Fatal(err)
	}
	return f
}

// perGB reports the CPU time since began, of n bytes each time, as seconds for 1 GB.
func perGB(b *testing.B, began time.Duration, n int) {
	b.ReportMetric((cputime.Process()-began).Seconds()*1e9/float64(n)/float64(b.N), "cpu-s/GB")
}

// BenchmarkSum computes the sums of a file that the page cache has. part=sha256 is the SHA-256 alone, of bytes in RAM;
// part=read reads the file only.
func BenchmarkSum(b *testing.B) {
	const n = 64 << 20
	f := benchFile(b, n)
	buf := make([]byte, 256<<10)
	parts := map[string]func() error{
		"all": func() error {
			_, err := new(objstore.Uploader).Sum(b.Context(), f, n)
			return err
		},
		"read": func() error {
			for off := int64(0); off < n; off += int64(len(buf)) {
				if _, err := f.ReadAt(buf, off); err != nil {
					return err
				}
			}
			return nil
		},
		"sha256": func() error {
			sha := sha256.New()
			for range n / len(buf) {
				sha.Write(buf)
			}
			runtime.KeepAlive(sha.Sum(nil))
			return nil
		},
	}
	for _, part := range []string{"read", "sha256", "all"} {
		b.Run("part="+part, func(b *testing.B) {
			b.SetBytes(n)
			began := cputime.Process()
			for b.Loop() {
				must(b, parts[part]())
			}
			perGB(b, began, n)
		})
	}
}

// BenchmarkPut puts a file into versitygw, whose own CPU time does not count: by plain HTTP, where the
// signature of each part has its SHA-256, and by TLS, where it has not. With sums=yes the sums are computed
// as well, as for each file of a crawl.
func BenchmarkPut(b *testing.B) {
	const n = 64 << 20
	f := benchFile(b, n)
	for name, serve := range map[string]func(testing.TB) *objtest.Server{"http": objtest.Serve,
		"tls": objtest.ServeTLS} {
		for _, withSums := range []bool{false, true} {
			b.Run(fmt.Sprintf("by=%s/sums=%v", name, withSums), func(b *testing.B) {
				s := serve(b)
				s.Setenv(b)
				bucket, err := objstore.OpenS3(b.Context(), s.Place)
				must(b, err)
				u := &objstore.Uploader{Bucket: bucket}
				sums, err := u.Sum(b.Context(), f, n)
				must(b, err)
				b.SetBytes(n)
				began := cputime.Process()
				for i := 0; b.Loop(); i++ {
					if withSums {
						if sums, err = u.Sum(b.Context(), f, n); err != nil {
							b.Fatal(err)
						}
					}
					if err := u.Put(b.Context(), fmt.Sprint("bench/", i), f, sums, objstore.Upload{},
						func(objstore.Upload) {}); err != nil {
						b.Fatal(err)
					}
				}
				perGB(b, began, n)
			})
		}
	}
}
