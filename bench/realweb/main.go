package main

import (
	"context"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the table of commands.
type cli struct {
	Crawl    crawlCmd    `cmd:"" help:"Crawl the web with drumbeat and compare the result with the walk."`
	Race     raceCmd     `cmd:"" help:"Race drumbeat and wget2 on a web whose hosts are all seeds."`
	Discover discoverCmd `cmd:"" help:"Race drumbeat and wget2 on a web that they discover from seeds."`
	Floor    floorCmd    `cmd:"" hidden:"" help:"Run the bare loop over a list of URLs."`
}

// webFlags describe the web.
type webFlags struct {
	Work     string   `required:"" help:"Existing directory for configuration, logs and results."`
	Hosts    int      `default:"20" help:"Number of hosts with documentation, besides the hub."`
	Packages []string `default:"python3-doc,postgresql-doc-15" help:"Serve the HTML of these Debian packages."`
}

func main() {
	// Pdeathsig kills a child when the thread that started it ends, so start them from the main thread.
	runtime.LockOSThread()
	var c cli
	k := kong.Parse(&c, kong.Name("realweb"), kong.UsageOnError(),
		kong.Description("Crawl documentation of Debian packages through nginx, and check the result."))
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
