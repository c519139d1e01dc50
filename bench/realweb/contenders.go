package main

import (
	"os/exec"
	"path/filepath"
	"strconv"

	"drumbeat/bench/result"
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

// ratios adds the ratios of medians to the report.
func (r *trials) ratios(rep *result.Report) {
	r.runs.ratios(rep, "Race", (*trial).rate, (*trial).cpuMillis, []ratio{{drumbeatName, wget2Name, r.LeastWget2, 0},
		{drumbeatName, bareName, r.LeastBare, r.MostCPU}, {noStoreName, bareName, 0, 0},
		{noStoreName, bareNoStoreName, r.LeastNoStore, 0}})
}

// command returns the command line of a contender; dir is a new directory for its files.
func (r *trials) command(name, dir string) *exec.Cmd {
	port := strconv.Itoa(r.web.httpPort)
	switch name {
	case drumbeatName, noStoreName:
		args := append([]string{"crawl", "--seeds", r.web.path("seeds.txt"), "--dir",
			filepath.Join(dir, "crawl"), "--contact", "realweb@example.org", "--scope", "host", "--host-delay", "0s",
			"--server-delay", "0s", "--resolver", r.servers.dns.Addr().String(), "--allow-net", "127.0.0.0/8",
			"--ports", port, "--skip-extensions", "none", "--accept", "*/*"}, r.Flags...)
		if r.Web == webOne {
			args = append(args, "--linger", "0s")
		}
		if name == noStoreName {
			args = append(args, "--store", "none")
		}
		return exec.Command(r.Drumbeat, args...)
	case wget2Name:
		return r.wget2(r.web.path("seeds.txt"), r.Names, r.web.path("names.txt"), 2*len(r.web.hosts)+100, dir)
	}
	args := []string{"floor", "--list", r.web.path("list.txt")}
	if name == bareName {
		args = append(args, "--store", dir)
	}
	if r.Web == webOne {
		args = append(args, "--connections", "1")
	}
	return exec.Command("/proc/self/exe", args...)
}
