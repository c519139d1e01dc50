// Command lab compares drumbeat's parts with libraries that do the same, for those who work on drumbeat.
//
// What users of the crawler measure is in drumbeat bench. What needs a library that the crawler doesn't have, or compares
// one, is here, so that the crawler links none of them: Pebble beside DRUM, clients of HTTP and DNS, decoders, parsers, URL
// libraries, gzip of the standard library beside our WARC files, and the plots of saved reports.
//
//	go run ./bench/lab drum --dir D --against pebble
//	go run ./bench/lab plot REPORT.json
//
// A measurement prints what drumbeat bench prints: lines for benchstat, tables, and checks against stated targets. --out saves
// text and JSON, --check makes a missed target exit code 1, --quick ends within half a minute.
//
// # Exit codes
//
// They are those of drumbeat: 0 done, 1 failed or missed, 2 bad flags, 11 ended by a signal. Each measurement that needs a
// child process starts this program again, with a command that --help doesn't list.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"drumbeat/bench/lab/decode"
	"drumbeat/bench/lab/dns"
	"drumbeat/bench/lab/fetch"
	"drumbeat/bench/lab/parse"
	"drumbeat/bench/lab/plot"
	"drumbeat/bench/lab/store"
	"drumbeat/bench/lab/url"
	"drumbeat/bench/report"
	"drumbeat/internal/profile"
)

func main() {
	l := &lab{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(l.run(os.Args[1:]))
}

// commands is the table of commands.
type commands struct {
	Drum      drumCmd      `cmd:"" help:"Measure check+update of links by Pebble, beside DRUM in the same RAM."`
	DrumChild drumChildCmd `cmd:"" hidden:"" help:"One measurement of drum, in a process of its own."`

	Fetch       comparison[fetch.Options, *fetch.Options] `cmd:"" help:"Measure fetching a page from a server in another process, over new connections and kept ones: requests/s and CPU of a fetch, beside net/http, fasthttp's client and a bare loop on connections."`
	FetchServer fetchServerCmd                            `cmd:"" hidden:"" help:"The server of fetch, in a process of its own."`

	DNS       comparison[dns.Options, *dns.Options] `cmd:"" name:"dns" help:"Measure lookups of names against a server on loopback: rate and CPU per lookup from the cache, at once, late and with loss, beside other clients and a bare socket."`
	DNSServer dnsServerCmd                          `cmd:"" name:"dns-server" hidden:"" help:"The name server of dns, in a process of its own."`

	Decode comparison[decode.Options, *decode.Options] `cmd:"" help:"Measure decoding of pages' content codings, gzip, deflate, br and zstd, on HTML files or made pages: CPU of a page, MB/s, allocations, beside other decoders."`
	Parse  comparison[parse.Options, *parse.Options]   `cmd:"" help:"Measure finding the links of HTML pages, beside golang.org/x/net/html's tokenizer and tree in the same run: MB/s, links/s, allocations, hostile shapes; and compare the links of every file."`
	Store  comparison[store.Options, *store.Options]   `cmd:"" help:"Put pages into WARC files and their index: CPU, bytes and writes of a page by how it came (compressed, as it is, errors, redirects), beside gzip of level 6; all is verified."`
	URL    comparison[url.Options, *url.Options]       `cmd:"" name:"url" help:"Measure how long it takes to make canonical URLs of references, beside net/url and a library of the URL standard, on made ones and those of real pages."`

	Plot plotCmd `cmd:"" help:"Draw the figures of saved reports as SVG."`
}

// comparison is a measurement whose options M are its flags.
type comparison[M any, P interface {
	*M
	Validate() error
	Measure(ctx context.Context, progress func(string)) (*report.Report, error)
}] struct {
	Options M `embed:""`
	output
}

// Run measures and prints.
func (c *comparison[M, P]) Run(l *lab) error {
	o := P(&c.Options)
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	return c.measure(l, o.Measure)
}

// The servers that are measured against end with their input, which their parent closes.
type (
	fetchServerCmd struct{}
	dnsServerCmd   struct{}
)

// Run serves.
func (*fetchServerCmd) Run(l *lab) error { return serve(l, fetch.Serve) }

// Run serves.
func (*dnsServerCmd) Run(l *lab) error { return serve(l, dns.Serve) }

func serve(l *lab, run func(ctx context.Context, in io.Reader, out io.Writer) error) error {
	ctx, release := untilSignal()
	defer release()
	return run(ctx, l.stdin, l.stdout)
}

// lab is one run of the command.
type lab struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args           []string
}

// The exit codes.
const (
	exitDone    = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 11
)

// usageError is a fault of flags.
type usageError struct{ error }

// errSignal ends a measurement.
var errSignal = errors.New("stopped by a signal")

// parserExit is how -h leaves the parser.
type parserExit int

// run does what args say and returns the exit code.
func (l *lab) run(args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(parserExit)
			if !ok {
				panic(r)
			}
			code = int(exit)
		}
	}()
	l.args = args
	parser, err := kong.New(&commands{}, kong.Name("lab"), kong.Writers(l.stdout, l.stderr),
		kong.Exit(func(code int) { panic(parserExit(code)) }), kong.Description("Compare drumbeat's parts with libraries."))
	if err != nil {
		panic("BUG: lab: " + err.Error())
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		err = usageError{err}
	} else {
		err = ctx.Run(l)
	}
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		code = exitUsage
	case errors.Is(err, errSignal):
		code = exitSignal
	default:
		code = exitFailure
	}
	fmt.Fprintln(l.stderr, "lab:", err)
	return code
}

// output has the options that measurements share.
type output struct {
	Out     string `placeholder:"DIR" help:"Also put the report into DIR, which is made if need be: as text and as JSON."`
	Check   bool   `help:"Exit with 1 if a figure misses the target stated for it."`
	Quiet   bool   `short:"q" help:"Print no progress."`
	Profile string `placeholder:"DIR" help:"Put profiles of this process into DIR, which is made if need be: for go tool pprof."`
}

// measure runs a measurement until a signal, prints its report, and saves and checks it as the flags say.
func (o *output) measure(l *lab, run func(ctx context.Context, progress func(string)) (*report.Report, error)) (err error) {
	ctx, release := untilSignal()
	defer release()
	progress := func(what string) { fmt.Fprintln(l.stderr, what) }
	if o.Quiet {
		progress = func(string) {}
	}
	if o.Profile != "" {
		stop, err := profile.Start(o.Profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r, err := run(ctx, progress)
	if err != nil && ctx.Err() != nil {
		return errSignal
	}
	if err != nil {
		return err
	}
	r.Command = "lab " + strings.Join(l.args, " ")
	if err := r.Write(l.stdout); err != nil {
		return err
	}
	if o.Out != "" {
		names, err := r.Save(o.Out)
		if err != nil {
			return err
		}
		progress("saved " + strings.Join(names, ", "))
	}
	if o.Check {
		return r.Err()
	}
	return nil
}

// untilSignal is a context that ends with the first signal to stop.
func untilSignal() (context.Context, func()) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// plotCmd draws figures.
type plotCmd struct {
	Reports []string `arg:"" name:"report" help:"JSON files that a measurement with --out has written. Each figure becomes an SVG file beside its report."`
}

// Run draws.
func (c *plotCmd) Run(l *lab) error {
	for _, name := range c.Reports {
		names, err := plot.File(name)
		for _, svg := range names {
			fmt.Fprintln(l.stdout, svg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
