package observe

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"drumbeat/internal/cputime"
	"drumbeat/internal/pace"
)

// Codings chooses the content codings that requests ask for, if CodingOptions.Set is set. Its
// goroutine is "codings". br makes bodies smaller than gzip and costs several times the CPU to decode
// (docs/how-it-works/benchmarks.md, "Content codings"), so requests ask for it only while the network limits
// the crawl and the processors have room.
type Codings struct {
	opt         CodingOptions
	connections Connections
	history     *History
	brotli      atomic.Bool // requests ask for br
}

// CodingOptions are the options of Codings.
type CodingOptions struct {
	Log *slog.Logger
	// Set replaces the Accept-Encoding of requests; nil: it stays as it is.
	Set       func(header string) error
	Bandwidth *pace.Bandwidth // nil: no limit
	// InUse returns the share of the processors in use since its last call; nil: it is measured.
	InUse func(now time.Time) float64
}

// NewCodings returns a chooser of codings.
func NewCodings(opt CodingOptions, connections Connections, h *History) *Codings {
	return &Codings{opt: opt, connections: connections, history: h}
}

// These are the values of Accept-Encoding. zstd is in neither: as servers compress on request, its bodies are
// no smaller than those of gzip, fewer readers of WARC files decode it, and a server that has both may prefer
// it to br.
const (
	CodingsNarrow = "gzip"
	CodingsWide   = "gzip, br"
)

// A decision is made every codingSamples seconds, from a sample each second.
const codingSamples = 60

// Thresholds of a decision. A page in br takes up to a third more CPU than one in gzip, so a share of
// processorsFree rises to less than processorsBusy: a switch does not cause the opposite one.
const (
	processorsFree = 0.5 // share of the processors' time in use, below which br may begin
	processorsBusy = 0.8 // from which br ends
	networkBinds   = 0.5 // share of the samples in which the network limited the crawl
)

// codingLoad is what a decision goes by: means of the samples.
type codingLoad struct {
	processors float64 // share of the processors' time in use, 0 to 1
	network    float64 // share of the samples in which the network limited the crawl
}

// asksForBrotli decides whether requests ask for br; now says whether they do. br does not end because the
// network no longer limits the crawl: that may be its merit, and the processors have nothing better to do.
func asksForBrotli(now bool, l codingLoad) bool {
	if now {
		return l.processors < processorsBusy
	}
	return l.processors < processorsFree && l.network >= networkBinds
}

// Run samples the load and switches the codings.
func (c *Codings) Run(ctx context.Context) error {
	if c.opt.Set == nil {
		return nil
	}
	if err := c.opt.Set(CodingsNarrow); err != nil {
		return err
	}
	inUse := c.opt.InUse
	if inUse == nil {
		inUse = newProcessorMeter().inUse
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		var sum codingLoad
		for range codingSamples {
			select {
			case <-ctx.Done():
				return nil
			case <-t.C:
			}
			now := time.Now()
			sum.processors += inUse(now)
			if c.networkLimits(now) {
				sum.network++
			}
		}
		if err := c.decide(codingLoad{sum.processors / codingSamples, sum.network / codingSamples}); err != nil {
			return err
		}
	}
}

// networkLimits reports whether the network limits the crawl: --bandwidth is used up, or nearly all
// connections wait for bytes. The second may be the fault of slow sites, where br does no harm.
func (c *Codings) networkLimits(now time.Time) bool {
	return c.opt.Bandwidth.Full(now) || c.connections.Exchanges() >= max(1, int64(c.connections.Allowed(now))*9/10)
}

// decide switches the codings if the load says so.
func (c *Codings) decide(l codingLoad) error {
	wide := asksForBrotli(c.brotli.Load(), l)
	codings := CodingsNarrow
	if wide {
		codings = CodingsWide
	}
	c.opt.Log.Debug("content codings", "codings", codings, "processors", percent(l.processors), "network",
		percent(l.network))
	if wide == c.brotli.Load() {
		return nil
	}
	if err := c.opt.Set(codings); err != nil {
		return err
	}
	c.brotli.Store(wide)
	c.opt.Log.Info("changed the content codings of requests", "codings", codings,
		"processors", percent(l.processors), "network", percent(l.network))
	c.history.event("codings", "%s: processors %s busy, network limiting %s of the time", codings,
		percent(l.processors), percent(l.network))
	return nil
}

// Wide reports whether requests ask for br.
func (c *Codings) Wide() bool { return c.brotli.Load() }

func percent(share float64) string { return strconv.Itoa(int(100*share+0.5)) + " %" }

// processorMeter measures the use of the processors: the share that this process took of those it may use, or
// the share that all processes took of the machine's, whichever is more. The second counts because a busy
// machine has no room for us, the first because a container may use only a part of the machine.
type processorMeter struct {
	at        time.Time
	own       time.Duration
	busy, all int64
}

func newProcessorMeter() *processorMeter {
	m := new(processorMeter)
	m.inUse(time.Now())
	return m
}

// inUse returns the share since the last call, 0 to 1.
func (m *processorMeter) inUse(now time.Time) float64 {
	own := cputime.Process()
	busy, all := machineTime()
	share := 0.0
	if wall := now.Sub(m.at); wall > 0 {
		share = float64(own-m.own) / float64(wall) / float64(runtime.GOMAXPROCS(0))
	}
	if all > m.all {
		share = max(share, float64(busy-m.busy)/float64(all-m.all))
	}
	*m = processorMeter{now, own, busy, all}
	return min(1, max(0, share))
}

// machineTime returns how long the processors of the machine were busy, and have run, in ticks; 0 if it is not
// known.
func machineTime() (busy, all int64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return parseMachineTime(line)
}

// parseMachineTime reads the first line of /proc/stat (proc(5)). Waiting for disks is idle time. The times of
// guests are part of others.
func parseMachineTime(line []byte) (busy, all int64) {
	const idle, waiting, guest = 4, 5, 9
	for i, field := range bytes.Fields(line) {
		if i == guest {
			break
		}
		n, err := strconv.ParseInt(string(field), 10, 64)
		if i == 0 || err != nil {
			continue
		}
		all += n
		if i != idle && i != waiting {
			busy += n
		}
	}
	return busy, all
}
