// Package site is the command site: it crawls a site for its owner, and writes a report of it at the end.
//
// Command embeds the flags of the command crawl, so each of them may be given, and adds two for the report. The table
// of package cmd sets the default of --preset to own-site for it: the scope is the site, delays are those that a server
// of one's own bears, and follow its answers, the crawl log has all URLs, and contents and texts are compared. site
// itself does what values of flags cannot:
//
//   - It takes one URL or host name, and no list of seeds.
//   - If --contact is missing, it is the site: whoever reads the log of the server is its owner.
//   - A loopback or private address, and a port, that the URL names are allowed, without --allow-net and --ports. It
//     says so. A name never opens such an address: its owner may not be the one of the network.
//   - A directory with a crawl of other sites is refused (4): they would get the delays of a server of one's own.
//   - At the end it writes the report of the site (report --site) into a file of the working directory, which is named
//     after the host, with --check-outside after a check of links to other sites. A crawl that a signal or a full disk
//     stopped has none; the text says how to write it.
//
// The admin server listens on loopback, as that of every crawl, unless --admin says otherwise.
//
// Exit codes: those of crawl; term.ExitUsage (2) for other than one URL, term.ExitDirectory (4) if the report would be
// inside a directory of the crawl, and those of report --site after a crawl that is done.
//
// The command runs in the caller's goroutine and starts none. Memory and disk are those of the crawl, and after it up
// to 256 MiB for the report.
package site

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/admit"
	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	reportcmd "drumbeat/cmd/report"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/ports"
	"drumbeat/weburl"
)

// Command is the table of site's flags: those of crawl, and two for the report.
type Command struct {
	crawlcmd.Command
	Report       string `group:"what" common:"" site:"" placeholder:"FILE"`
	CheckOutside bool   `group:"what" site:""`

	outsideMore []string // as in reportcmd.SiteReport
}

// none is the value of --report that writes none.
const none = "none"

// Run crawls the site and writes the report.
func (c *Command) Run(a *term.App, kctx *kong.Context, settings *flags.Settings) error {
	url, err := c.url()
	if err != nil {
		return term.Usage(err)
	}
	host, port := hostPort(url)
	if c.CheckOutside && c.Report == none {
		return term.Usage(errors.New("--check-outside: not with --report none, since the report has the result"))
	}
	if c.Contact == "" {
		c.Contact = url
	}
	if note := c.allow(host, port); note != "" {
		fmt.Fprintln(a.Stderr, "drumbeat: "+note)
	}
	if c.Report == "" {
		c.Report = strings.ReplaceAll(host, ":", "-") + ".html"
	}
	if err := errors.Join(c.checkDir(host), c.checkReport()); err != nil {
		return err
	}
	return c.RunThen(a, kctx, settings, func(opt *crawl.Options, res *crawl.Result) error {
		return c.report(a, opt, res, host)
	})
}

// url returns the URL of the site.
func (c *Command) url() (string, error) {
	if len(c.URLs) != 1 || c.Seeds != "" || c.Known != "" {
		return "", errors.New("site: give one URL, such as drumbeat site https://my.example/; crawl accepts several")
	}
	url, err := crawlcmd.SeedURL(c.URLs[0])
	if err != nil {
		return "", fmt.Errorf("site: %w", err)
	}
	if host := string(weburl.Split([]byte(url)).Host); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "", fmt.Errorf("site: a crawl asks name servers, which do not know %s: give an address, such as "+
			"http://127.0.0.1:8080/", host)
	}
	return url, nil
}

// hostPort returns the host of a URL, an IPv6 address without brackets, and its port.
func hostPort(url string) (host string, port uint16) {
	parts := weburl.Split([]byte(url))
	return strings.Trim(string(parts.Host), "[]"), parts.Port
}

// allow allows the address and the port that the URL names, and says what it allowed.
func (c *Command) allow(host string, port uint16) (note string) {
	var opened []string
	if addr, err := netip.ParseAddr(host); err == nil && (addr.IsLoopback() || addr.IsPrivate()) {
		own := netip.PrefixFrom(addr, addr.BitLen())
		if !slices.ContainsFunc(c.AllowNet, func(p flags.NetPrefix) bool { return p.Contains(addr) }) {
			c.AllowNet = append(c.AllowNet, flags.NetPrefix{Prefix: own})
			kind := "private"
			if addr.IsLoopback() {
				kind = "loopback"
			}
			opened = append(opened, fmt.Sprintf("the %s address %v (as --allow-net %[2]v)", kind, addr))
		}
	}
	if port != 80 && port != 443 &&
		!slices.ContainsFunc(c.Ports, func(r ports.Range) bool { return r.First <= port && port <= r.Last }) {
		c.Ports = append(c.Ports, ports.Of(port)...)
		opened = append(opened, fmt.Sprintf("port %d (as --ports %[1]d)", port))
	}
	if len(opened) == 0 {
		return ""
	}
	return "the URL names " + strings.Join(opened, " and ") + ": this crawl may connect there"
}

// maxSeedsCopy bounds the copy of the seeds of a crawl of one site, in bytes.
const maxSeedsCopy = 64 << 10

// checkDir refuses a directory with a crawl that has other seeds than this site, since the delays are not meant for
// other people's servers.
func (c *Command) checkDir(host string) error {
	dirs := flags.Clean(c.Dir)
	if len(dirs) == 0 {
		return nil
	}
	if _, err := disk.ReadIdentity(disk.OS(), dirs[0]); err != nil {
		return nil // there is no crawl, or the start says what is wrong
	}
	refuse := func(why string) error {
		return &term.Ended{Code: term.ExitDirectory, Why: fmt.Sprintf("%s holds a crawl %s, and the delays of "+
			"your own site would apply to it: give another --dir", dirs[0], why)}
	}
	name := filepath.Join(dirs[0], crawlcmd.SeedsCopy)
	info, err := os.Stat(name)
	if err != nil || info.Size() > maxSeedsCopy {
		return refuse("that began with a list of seeds")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return refuse("that began with another list of seeds")
	}
	for line := range strings.Lines(string(data)) {
		url, _, err := admit.ParseSeed(strings.TrimSpace(line))
		if err != nil || url == "" {
			continue
		}
		if other, _ := hostPort(url); other != host {
			return refuse("of " + term.PlainText(other))
		}
	}
	return nil
}

// checkReport returns an error if the report could not be written, before the crawl begins.
func (c *Command) checkReport() error {
	if c.Report == none {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(c.Report)); err != nil {
		return term.Usage(fmt.Errorf("--report: %w", err))
	} else if !info.IsDir() {
		return term.Usage(fmt.Errorf("--report %s: %s is not a directory", c.Report, filepath.Dir(c.Report)))
	}
	return flags.Outside(flags.Clean(slices.Concat(c.Dir, c.AddDir, flags.Directories(c.Out), c.AddOut)), c.Report)
}

// report writes the report of the site, unless the crawl ended early.
func (c *Command) report(a *term.App, opt *crawl.Options, res *crawl.Result, host string) error {
	if c.Report == none {
		return nil
	}
	if res.Stop == crawl.StopCancelled || res.Stop == crawl.StopDisk {
		check := ""
		if c.CheckOutside {
			check = "--check-outside "
		}
		_, err := fmt.Fprintf(a.Stdout, "No report was written: the crawl is not done. drumbeat report --site %s "+
			"%s-o %s %s writes it as of now.\n", host, check, c.Report, strings.Join(opt.Disk.Dirs, " "))
		return err
	}
	pld := string(weburl.NewSuffixes(false).PLDBytes([]byte(host)))
	return reportcmd.WriteSite(a, &reportcmd.SiteReport{Dirs: opt.Disk.Dirs, Out: opt.Disk.Out, File: c.Report,
		CheckOutside: c.CheckOutside, OutsideMore: c.outsideMore, Sites: []string{host, pld}})
}
