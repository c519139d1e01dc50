package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"drumbeat/bench/report"
	"drumbeat/internal/profile"
)

// benchCmd is the table of bench's commands.
type benchCmd struct {
	Model benchModelCmd `cmd:"" help:"Compute the paper's tables II, III, V, VI and VII and the examples of its theorems, beside the printed numbers. The defaults are the paper's values."`
	Disk  benchDiskCmd  `cmd:"" help:"Measure how fast directories are written and read in sequence, and which crawling rate that supports."`

	Drum      benchDrumCmd      `cmd:"" help:"Measure check+update of links by DRUM, in the paper's form and in ours, and by other methods in the same RAM: speed, disk traffic beside the theorems, RAM, right answers."`
	DrumChild benchDrumChildCmd `cmd:"" hidden:"" help:"One measurement of bench drum, in a process of its own."`

	Star  benchStarCmd  `cmd:"" help:"Send links between PLDs and budget checks through STAR, evenly spread and skewed: rates, I/O, and whether every in-degree is exact."`
	Beast benchBeastCmd `cmd:"" help:"Crawl a virtual web with BEAST and with the naive two queues: the disk rate that each needs against the size of the crawl, beside Theorems 6 and 7, and the CPU of a URL's way from STAR's check to its queue."`

	Queue benchQueueCmd `cmd:"" help:"Measure queues on disk: appending and reading, one queue and many, a calendar, beside the disk's own speed in the same run, and the bytes of a queued URL."`

	Cache benchCacheCmd `cmd:"" help:"Measure the RAM cache in front of URLseen: hit rates beside exact LRU, CLOCK and random (Table IV), of a made stream or of a crawl's trace; speed, RAM per entry, and other structures (Table V)."`

	Decode benchDecodeCmd `cmd:"" help:"Measure decoding of pages' content codings, gzip, deflate, br and zstd, on HTML files or made pages: CPU of a page, MB/s, allocations, beside other decoders."`

	Fetch       benchFetchCmd       `cmd:"" help:"Measure fetching a page from a server in another process, over new connections and kept ones: requests/s and CPU of a fetch, beside net/http, fasthttp's client and a bare loop on connections."`
	FetchServer benchFetchServerCmd `cmd:"" hidden:"" help:"The server of bench fetch, in a process of its own."`

	DNS      benchDNSCmd      `cmd:"" name:"dns" help:"Measure lookups of names against a server on loopback: rate and CPU per lookup from the cache, at once, late and with loss, beside other clients and a bare socket."`
	DNSChild benchDNSChildCmd `cmd:"" name:"dns-child" hidden:"" help:"The name server of bench dns, in a process of its own."`

	Crawl       benchCrawlCmd       `cmd:"" help:"Crawl a web in another process with the whole crawler: pages/s, its CPU of a page by stage, what connections waited for, beside a loop that only fetches; or run many URLs through the disk structures without sockets."`
	CrawlServer benchCrawlServerCmd `cmd:"" hidden:"" help:"The web of bench crawl, in a process of its own."`

	URL benchURLCmd `cmd:"" name:"url" help:"Measure how long it takes to make canonical URLs of references, beside net/url and a library of the URL standard, on made ones and those of real pages, and a link's way to its tuple."`

	Store benchStoreCmd `cmd:"" help:"Put pages into WARC files and their index: CPU, bytes and writes of a page by how it came (compressed, as it is, errors, redirects), beside gzip of level 6; all is verified."`

	Parse benchParseCmd `cmd:"" help:"Measure finding the links of HTML pages, beside golang.org/x/net/html's tokenizer and tree in the same run: MB/s, links/s, allocations, hostile shapes; and compare the links of every file."`

	Checkpoint benchCheckpointCmd `cmd:"" help:"Measure checkpoints of a store with full bucket buffers while tuples come in: how long nothing can be added, what is written, how long it takes."`
}

// benchOutput has the options that measurements share.
type benchOutput struct {
	Out   string `placeholder:"DIR" help:"Also put the report into DIR, which is made if need be: as text, as JSON, and a plot (SVG) of each figure."`
	Check bool   `help:"Exit with 1 if a figure misses the target stated for it."`
	Quiet bool   `short:"q" help:"Print no progress."`
	profileFlag
}

// profileFlag is the one flag of everything that can be profiled.
type profileFlag struct {
	Profile string `placeholder:"DIR" help:"Put profiles of this process (CPU, allocations, locks, blocking) into DIR, which is made if need be: for go tool pprof."`
}

// profiled runs f, under the profiler if that is asked for.
func (p profileFlag) profiled(f func() error) error {
	if p.Profile == "" {
		return f()
	}
	stop, err := profile.Start(p.Profile)
	if err != nil {
		return err
	}
	return errors.Join(f(), stop())
}

// measure runs a measurement until a signal, prints its report, and saves and checks it as the flags say.
func (o *benchOutput) measure(a *app, run func(ctx context.Context, progress func(string)) (*report.Report, error)) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	progress := func(what string) { fmt.Fprintln(a.stderr, what) }
	if o.Quiet {
		progress = func(string) {}
	}
	var r *report.Report
	err := o.profiled(func() (err error) {
		r, err = run(ctx, progress)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	r.Command = "drumbeat " + strings.Join(a.args, " ")
	if err := r.Write(a.stdout); err != nil {
		return err
	}
	if o.Out != "" {
		names, err := r.Save(o.Out)
		if err != nil {
			return err
		}
		progress("saved " + strings.Join(names, ", "))
	}
	if err := r.Err(); o.Check && err != nil {
		return err
	}
	return nil
}

// fraction is a number, or a quotient such as 1/9.
type fraction float64

// UnmarshalText reads "0.15" or "1/9".
func (f *fraction) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "/")
	if !ok {
		b = "1"
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if q := x / y; err1 == nil && err2 == nil && q >= 0 && q <= 1e18 {
		*f = fraction(q)
		return nil
	}
	return fmt.Errorf("%q is no number such as 0.15 or 1/9", text)
}

// floats turns numbers of a flag into those of a formula.
func floats[T ~int64](list []T) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}
