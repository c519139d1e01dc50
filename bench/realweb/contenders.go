package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"drumbeat/bench/report"
)

// Names of the contenders.
const (
	wget2Name       = "wget2"
	drumbeatName    = "drumbeat"
	noStoreName     = "drumbeat-nostore" // drumbeat --store none
	bareName        = "bare"             // the bare loop
	bareNoStoreName = "bare-nostore"     // the bare loop without WARC files
)

// contenders is the order of the first round and of the report.
var contenders = []string{wget2Name, bareName, bareNoStoreName, drumbeatName, noStoreName}

// crawlers are the contenders that find the pages themselves.
var crawlers = []string{wget2Name, drumbeatName, noStoreName}

// targets are what --check compares the ratios of medians with. 0: not checked.
type targets struct {
	LeastWget2   float64 `name:"least-wget2" default:"1.5" help:"Target: at least N times the pages/s of wget2."`
	LeastBare    float64 `help:"Target: at least N times the pages/s of the bare loop."`
	LeastNoStore float64 `name:"least-nostore" help:"Target: at least N times the pages/s of the bare loop, both without store."`
	MostCPU      float64 `name:"most-cpu" help:"Target: at most N times the CPU per page of the bare loop."`
}

// ratio compares the medians of two contenders.
type ratio struct {
	over, under string
	rate, cpu   float64 // quotients of pages/s, and of CPU time per page
}

func (r *trials) ratio(over, under string) ratio {
	quotient := func(f func(*trial) float64) float64 { return r.median(over, f) / r.median(under, f) }
	return ratio{over, under, quotient((*trial).rate), quotient((*trial).cpuMillis)}
}

// median returns the median of a figure over a contender's trials.
func (r *trials) median(name string, figure func(*trial) float64) float64 {
	return report.Of(r.runs[name], figure).Median()
}

// ratios fills the report's ratios: a table, a line for each, and the checks.
func (r *trials) ratios(rep *report.Report) {
	t := report.Table{Title: "ratios of the medians", Head: []string{"ratio", "pages/s", "CPU per page"}}
	list := []ratio{r.ratio(drumbeatName, wget2Name), r.ratio(drumbeatName, bareName), r.ratio(noStoreName, bareName),
		r.ratio(noStoreName, bareNoStoreName)}
	for _, q := range list {
		t.Add(q.over+"/"+q.under, fmt.Sprintf("%.2f", q.rate), fmt.Sprintf("%.2f", q.cpu))
		rep.Add("BenchmarkRaceRatio/over="+q.over+"/under="+q.under, 1, report.Metric{Value: q.rate, Unit: "pages/s-ratio"},
			report.Metric{Value: q.cpu, Unit: "cpu-ratio"})
	}
	rep.Tables = append(rep.Tables, t)
	least := func(q ratio, target float64) {
		if target > 0 {
			rep.Checks = append(rep.Checks, report.AtLeast("pages/s of "+q.over+" over "+q.under, q.rate, target, "x"))
		}
	}
	least(list[0], r.LeastWget2)
	least(list[1], r.LeastBare)
	least(list[3], r.LeastNoStore)
	if r.MostCPU > 0 {
		rep.Checks = append(rep.Checks, report.AtMost("CPU per page of drumbeat over bare", list[1].cpu, r.MostCPU, "x"))
	}
}

// command returns the command line of a contender; dir is a new directory for its files.
func (r *trials) command(ctx context.Context, name, dir string) *exec.Cmd {
	port := strconv.Itoa(r.web.httpPort)
	switch name {
	case drumbeatName, noStoreName:
		args := append([]string{"crawl", "--seeds", r.web.path("seeds.txt"), "--dir", filepath.Join(dir, "crawl"), "--contact",
			"realweb@example.org", "--scope", "host", "--host-delay", "0s", "--server-delay", "0s", "--resolver", r.servers.dns.Addr().String(),
			"--allow-net", "127.0.0.0/8", "--ports", port, "--skip-extensions", "none", "--accept", "*/*"}, r.Flags...)
		if r.Web == webOne {
			args = append(args, "--linger", "0s")
		}
		if name == noStoreName {
			args = append(args, "--store", "none")
		}
		return exec.CommandContext(ctx, r.Drumbeat, args...)
	case wget2Name:
		args := []string{"--quiet", "--input-file", r.web.path("seeds.txt"), "--recursive", "--level=inf",
			"--max-threads=" + strconv.Itoa(wget2Threads), "--compression=gzip", "--output-document=/dev/null", "--no-config",
			"--no-hsts", "--no-cookies", "--no-netrc", "--no-proxy", "--no-xattr", "--no-http2",
			"--ignore-tags=" + wget2Ignores}
		cmd := exec.CommandContext(ctx, r.Wget2, args...)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+r.Names, "NSS_WRAPPER_HOSTS="+r.web.path("names.txt"),
			"NSS_WRAPPER_MAX_HOSTENTS="+strconv.Itoa(2*len(r.web.hosts)+100), "HOME="+dir) // default: 100 names
		return cmd
	}
	args := []string{"floor", "--list", r.web.path("list.txt")}
	if name == bareName {
		args = append(args, "--store", dir)
	}
	if r.Web == webOne {
		args = append(args, "--connections", "1")
	}
	return exec.CommandContext(ctx, "/proc/self/exe", args...)
}

// wget2Threads is the best setting of wget2: with 2 and 8 threads it takes as much CPU. (With --spider it
// misses pages.)
const wget2Threads = 16

// wget2Ignores are the tags of images, scripts and styles, which wget2 would fetch too.
const wget2Ignores = "img,script,link/href,video,audio,source,embed,object,input,body/background,table/background,td/background"
