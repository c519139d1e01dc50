package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchFetchCmd has the options of bench.Fetch.
type benchFetchCmd struct {
	Clients     []string  `placeholder:"NAME" help:"Clients to measure: ours, nethttp, fasthttp, bare (a loop that only dials, writes and reads as many bytes as must come). Default: all."`
	Schemes     []string  `placeholder:"NAME" default:"http,https,https-rsa" help:"Schemes: http, https (keys on P-256, a leaf and an intermediate), https-rsa (RSA-2048). Where there are several, those with TLS are measured in fewer forms."`
	Conns       []string  `placeholder:"NAME" default:"new,resumed,kept" enum:"new,resumed,kept" help:"new: each fetch has a connection of its own, with a full handshake. resumed: the same, but with TLS sessions. kept: connections stay open."`
	Codings     []string  `placeholder:"NAME" default:"identity,gzip" enum:"identity,gzip" help:"Content codings of the page. A page in gzip is fetched with new connections and the most goroutines only."`
	Goroutines  []count   `placeholder:"N" default:"1,64" help:"Goroutines that fetch at once. Repeatable."`
	Page        *size     `placeholder:"SIZE" help:"Size of the page. Default: 25kB."`
	Time        *duration `placeholder:"DURATION" help:"How long a client is measured in a form at a time. Default: 1s, or 70ms with --quick."`
	Repeat      *count    `placeholder:"N" help:"How often each is measured, in turns. Default: 5, or 3 with --quick."`
	Connections string    `placeholder:"N" help:"Measure instead so many slow exchanges at once, and what they leave behind; max: 16,000, or 0.8 of the limit of descriptors if that is less."`
	Quick       bool      `help:"End within 30 s: less time."`
	benchOutput
}

// benchFetchServerCmd is the server of bench fetch in a process of its own.
type benchFetchServerCmd struct{}

// Run serves until its input ends.
func (c *benchFetchServerCmd) Run(a *app) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	return bench.FetchServer(ctx, a.stdin, a.stdout)
}

// forms are the combinations that the flags name.
func (c *benchFetchCmd) forms() (forms []bench.FetchForm) {
	most := 0
	for _, n := range c.Goroutines {
		most = max(most, int(n))
	}
	for _, scheme := range c.Schemes {
		for _, coding := range c.Codings {
			for _, conn := range c.Conns {
				for _, n := range c.Goroutines {
					form := bench.FetchForm{Scheme: scheme, Keep: conn == "kept", Resume: conn == "resumed", Coding: coding, Goroutines: int(n)}
					special := form.Keep || form.Resume
					few := len(c.Schemes) > 1 && scheme != "http"
					if coding == "gzip" && (special || few || form.Goroutines < most) || form.Resume && scheme == "http" ||
						few && form.Goroutines < most && (special || scheme != "https") || few && special && scheme != "https" {
						continue
					}
					forms = append(forms, form)
				}
			}
		}
	}
	return forms
}

// options is what the flags say.
func (c *benchFetchCmd) options() (bench.Fetch, error) {
	f := bench.Fetch{Clients: c.Clients, Forms: c.forms(), GCPercent: gcPercent}
	if c.Quick {
		f.Time, f.Repeats = 70*time.Millisecond, 3
	}
	if c.Page != nil {
		f.PageBytes = int(*c.Page)
	}
	if c.Time != nil {
		f.Time = *c.Time
	}
	if c.Repeat != nil {
		f.Repeats = int(*c.Repeat)
	}
	switch c.Connections {
	case "":
	case "max":
		f.Connections = bench.AllConnections
	default:
		var n count
		if err := n.UnmarshalText([]byte(c.Connections)); err != nil || n < 1 || n > 1e6 {
			return f, errors.New("--connections: want a number from 1 to 1e6, or max")
		}
		f.Connections = int(n)
	}
	if len(f.Forms) == 0 {
		return f, errors.New("no form: give --schemes, --conns, --codings and --goroutines that go together")
	}
	program, err := os.Executable()
	if err != nil {
		return f, err
	}
	f.Command = []string{program, "bench", "fetch-server"}
	return f, f.Validate()
}

// Run measures and prints.
func (c *benchFetchCmd) Run(a *app) error {
	f, err := c.options()
	if err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		f.Progress = progress
		return bench.RunFetch(ctx, f)
	})
}
