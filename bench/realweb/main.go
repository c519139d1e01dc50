package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// cli is the table of commands.
type cli struct {
	Serve         serveCmd         `cmd:"" help:"Serve the web for experiments."`
	Crawl         crawlCmd         `cmd:"" help:"Crawl the web with drumbeat and compare the result with the walk."`
	Race          raceCmd          `cmd:"" help:"Race drumbeat and wget2 on a web whose hosts are all seeds."`
	Discover      discoverCmd      `cmd:"" help:"Race drumbeat and wget2 on a web that they find."`
	DiscoverServe discoverServeCmd `cmd:"" help:"Serve the web of discover for experiments."`
	Floor         floorCmd         `cmd:"" hidden:"" help:"Run the bare loop over a list of URLs, for race."`
}

// webFlags describe the web.
type webFlags struct {
	Work     string   `required:"" help:"Directory for configuration, logs and results; must exist."`
	Hosts    int      `default:"20" help:"Number of host names with documentation, without the hub."`
	Packages []string `default:"python3-doc,postgresql-doc-15" help:"Debian packages whose HTML is served."`
	HTTP     int      `name:"http-port" help:"HTTP port; 0: a free one."`
	HTTPS    int      `name:"https-port" help:"HTTPS port; 0: a free one."`
}

type serveCmd struct {
	webFlags
	Minutes int `default:"10" help:"Serve for N minutes."`
}

func main() {
	// Pdeathsig kills a child when the thread that started it ends, so start them from the main thread.
	runtime.LockOSThread()
	var c cli
	k := kong.Parse(&c, kong.Name("realweb"), kong.UsageOnError(),
		kong.Description("Crawls documentation of Debian packages through nginx and checks the result."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	k.BindTo(ctx, (*context.Context)(nil))
	err := k.Run()
	stop()
	k.FatalIfErrorf(err)
}

// start makes the web and runs its servers.
func (f webFlags) start(ctx context.Context) (*web, *servers, error) {
	w, err := newWeb(f)
	if err != nil {
		return nil, nil, err
	}
	s, err := startServers(ctx, w)
	return w, s, err
}

// Run is the command serve.
func (c serveCmd) Run(ctx context.Context) (err error) {
	w, s, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fmt.Printf("%d hosts on %s, seed %s\n", len(w.hosts), w.hosts[0].addr, w.seed())
	fmt.Printf("certificates are signed by %s\nfor %d minutes, or until interrupted:\n\n", w.path("ca.pem"), c.Minutes)
	fmt.Printf("  echo %s | drumbeat crawl --seeds - --dir DIR --contact you@example.org \\\n   ", w.seed())
	for _, a := range s.crawlFlags() {
		fmt.Printf(" %s", a)
	}
	fmt.Print(" --host-delay 5ms --server-delay 0s\n\n")
	for _, h := range w.hosts {
		fmt.Printf("  %-32s %-16s %s\n", h.origin(), h.addr, h.root)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Minutes)*time.Minute)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-s.done:
	}
	return nil
}
