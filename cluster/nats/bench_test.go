//go:build !noembed

package nats

import (
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/internal/cputime"
)

// benchBroker is a broker for a benchmark: in process, or a process of its own.
type benchBroker struct {
	*Transport
	pid int // 0: in process
}

// cpu returns the CPU time of a broker that is a process.
func (br benchBroker) cpu(b *testing.B) time.Duration {
	d, err := cputime.Of(br.pid)
	must(b, err)
	return d
}

// brokers runs f with each broker: in process with and without sync always, and nats-server with its defaults.
func brokers(b *testing.B, f func(*testing.B, benchBroker)) {
	start := func(b *testing.B, o Options) *Transport {
		o.Crawl = "bench"
		e, err := Open(o)
		must(b, err)
		b.Cleanup(func() { e.Close() })
		return e
	}
	for _, sync := range []time.Duration{0, 10 * time.Second} {
		b.Run(fmt.Sprintf("broker=embedded/sync=%v", sync), func(b *testing.B) {
			f(b, benchBroker{start(b, Options{Embed: &Embed{Dir: b.TempDir(), Sync: sync}}), 0})
		})
	}
	b.Run("broker=external", func(b *testing.B) {
		if _, err := exec.LookPath("nats-server"); err != nil {
			b.Skip("no nats-server on PATH")
		}
		x := &external{t: b, dir: b.TempDir()}
		x.start()
		b.Cleanup(x.kill)
		f(b, benchBroker{start(b, Options{URLs: []string{"nats://" + x.addr}}), x.cmd.Process.Pid})
	})
}

// report reports the CPU times of f for each operation.
func (br benchBroker) report(b *testing.B, f func()) {
	before, beforeBroker := cputime.Process(), time.Duration(0)
	if br.pid != 0 {
		beforeBroker = br.cpu(b)
	}
	f()
	b.ReportMetric(float64((cputime.Process()-before).Microseconds())/float64(b.N), "own-cpu-us/op")
	if br.pid != 0 {
		b.ReportMetric(float64((br.cpu(b)-beforeBroker).Microseconds())/float64(b.N), "broker-cpu-us/op")
	}
}

// BenchmarkMessage: a message of 128 KiB from Publish, 8 in flight, to Next of a Reader, with a purge each 512.
// In process own-cpu includes the broker's.
func BenchmarkMessage(b *testing.B) {
	brokers(b, func(b *testing.B, br benchBroker) {
		data := make([]byte, 128<<10)
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		r, err := br.Read(b.Context(), 1, 1)
		must(b, err)
		defer r.Close()
		br.report(b, func() {
			var wg sync.WaitGroup
			var flight []<-chan error
			b.ResetTimer()
			wg.Go(func() {
				for i := range b.N {
					m, err := r.Next(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					if i%512 == 511 {
						if err := br.Purge(b.Context(), 1, m.Seq); err != nil {
							b.Error(err)
						}
					}
				}
			})
			for i := range b.N {
				flight = append(flight, br.Publish(b.Context(), 1, 0, strconv.Itoa(i), data))
				for len(flight) == 8 || i == b.N-1 && len(flight) > 0 {
					if err := <-flight[0]; err != nil {
						b.Error(err)
					}
					flight = flight[1:]
				}
			}
			wg.Wait()
		})
	})
}

// BenchmarkCreate: keys as those of leases, 32 at once.
func BenchmarkCreate(b *testing.B) {
	brokers(b, func(b *testing.B, br benchBroker) {
		value := []byte(`{"node":3,"epoch":12,"open":0}`)
		b.ReportAllocs()
		br.report(b, func() {
			var wg sync.WaitGroup
			next := make(chan int, 32)
			for range 32 {
				wg.Go(func() {
					for i := range next {
						if _, err := br.Create(b.Context(), cluster.BucketNet, fmt.Sprint("net.", i),
							value); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ResetTimer()
			for i := range b.N {
				next <- b.N<<32 + i // another run of the benchmark has other keys
			}
			close(next)
			wg.Wait()
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
	})
}
