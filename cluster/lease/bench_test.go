//go:build linux && !noembed

package lease

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster/nats"
	"drumbeat/internal/cputime"
	"drumbeat/polite"
)

// brokerEnv makes this test binary a broker: its value is the time between two syncs.
const brokerEnv = "DRUMBEAT_LEASE_BENCH_BROKER"

// TestBroker is the process of BenchmarkStay's broker. It prints its address, and ends with its input.
func TestBroker(t *testing.T) {
	every, err := time.ParseDuration(os.Getenv(brokerEnv))
	if err != nil {
		t.Skip("this is not the process of a broker")
	}
	e, err := nats.Open(nats.Options{Crawl: "bench",
		Embed: &nats.Embed{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: every}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("broker", e.Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// startBroker starts a broker in a process of its own, and returns a connection to it and its process.
func startBroker(b *testing.B, every time.Duration) (*nats.Transport, int) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestBroker$", "-test.v")
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%v", brokerEnv, every)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close() // its end is what counts
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "broker "); ok {
			go io.Copy(io.Discard, out) // until the process ends
			e, err := nats.Open(nats.Options{Crawl: "bench", URLs: []string{"nats://" + addr}})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { e.Close() })
			return e, cmd.Process.Pid
		}
	}
	b.Fatal("the broker has not started")
	return nil, 0
}

// ofProcess returns the CPU time of a process.
func ofProcess(b *testing.B, pid int) time.Duration {
	d, err := cputime.Of(pid)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// BenchmarkStay: stays of networks in RAM, each with one page: the lease is made, the page granted, and the
// lease given back some seconds later. The broker, an embedded one, is another process. Use -benchtime
// 20000x: a run takes seconds of waiting.
func BenchmarkStay(b *testing.B) {
	for _, every := range []time.Duration{0, 10 * time.Second} {
		b.Run(fmt.Sprintf("sync=%v", every), func(b *testing.B) {
			e, pid := startBroker(b, every)
			s := polite.New(polite.Options{Leased: true, HostDelay: time.Second, ServerDelay: time.Second,
				ServerDelayMin: time.Second, MaxItems: 2 * b.N}, time.Now())
			l := New(Options{Transport: e, Polite: s, Nodes: 2, Run: uint64(time.Now().UnixNano()), TTL: time.Minute,
				Longest: time.Minute, New: true})
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			for !l.MayFetch() {
				pause(ctx, 100*time.Millisecond)
			}
			before, beforeBroker := cputime.Process(), ofProcess(b, pid)
			b.ResetTimer()
			for i := range b.N {
				k := uint64(i + 1)
				a := netip.AddrFrom4([4]byte{byte(10 + i>>16), byte(i >> 8), byte(i), 1})
				if v := s.Admit(time.Now(),
					&polite.Item{Host: k, PLD: k, Addrs: []netip.Addr{a}}); v.Kind != polite.Admitted {
					b.Fatalf("admit: %+v", v)
				}
			}
			for done := 0; done < b.N; {
				g, wait := s.Next(time.Now())
				if g == nil {
					pause(ctx, min(wait, 10*time.Millisecond))
					continue
				}
				s.Started(time.Now(), g)
				s.Done(time.Now(), g, polite.Result{})
				done++
			}
			for l.Figures().Held > 0 {
				pause(ctx, 100*time.Millisecond)
			}
			b.StopTimer()
			n := float64(b.N)
			b.ReportMetric(float64((cputime.Process()-before).Microseconds())/n, "node-cpu-us/stay")
			b.ReportMetric(float64((ofProcess(b, pid)-beforeBroker).Microseconds())/n, "broker-cpu-us/stay")
			b.ReportMetric(0, "ns/op") // mostly waiting
			if f := l.Figures(); f.Taken != int64(b.N) {
				b.Errorf("%d stays: %+v", b.N, f)
			}
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}
