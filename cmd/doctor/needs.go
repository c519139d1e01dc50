package doctor

import (
	"math"
	"slices"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/pace"
)

// needs is what the planned crawl needs of the machine.
type needs struct {
	Pages       float64 `json:"pages"`
	Connections int64   `json:"connections"`
	// Idle connections wait for the next page of their host. Files are descriptors of files.
	Idle  int64 `json:"idleConnections"`
	Files int64 `json:"files"`
	// RAMBytes is --ram. StateBytes and OutputBytes are the largest size of the state and of WARC files,
	// KeepFreeBytes is left free on each file system. Inodes are those of all file systems.
	RAMBytes      int64 `json:"ramBytes"`
	StateBytes    int64 `json:"stateBytes"`
	OutputBytes   int64 `json:"outputBytes"`
	KeepFreeBytes int64 `json:"keepFreeBytes"`
	Inodes        int64 `json:"inodes"`
	// LargestFile is an upper bound of the size of a file.
	LargestFile int64 `json:"largestFile"`
	// Disk is --disk, 0 if it is not given. MostPages fit on the disks.
	Disk      int64   `json:"disk,omitempty"`
	MostPages float64 `json:"mostPages"`
	// Rate is the highest rate in pages/s. Requests and Lookups are requests and DNS lookups per second at
	// this rate, on average over the crawl.
	Rate     float64 `json:"rate"`
	Requests float64 `json:"requests"`
	Lookups  float64 `json:"lookups"`
	// StateRate and OutputRate are bytes/s that all directories of a kind together read and write at Rate.
	StateRate  float64 `json:"stateRate"`
	OutputRate float64 `json:"outputRate"`

	Dirs []string `json:"dirs"`
	Outs []string `json:"outs,omitempty"`
}

// needs plans the crawl. Connections are not lowered to what the limit of descriptors allows.
func (c *Command) needs() (*needs, error) {
	n := &needs{Pages: float64(c.Pages), Dirs: flags.Clean(c.Dir), Outs: flags.Clean(flags.Directories(c.Out)),
		Idle: term.MostIdleConnections}
	if slices.Equal(n.Dirs, n.Outs) {
		n.Outs = nil
	}
	if c.Connections == nil {
		c.Connections = new(flags.Connections)
	}
	free, err := freeBytes(slices.Concat(n.Dirs, n.Outs))
	if err != nil {
		return nil, term.Usage(err)
	}
	if c.Disk != nil {
		n.Disk = int64(*c.Disk)
	} else {
		c.Disk = new(flags.Size(free))
	}
	o, err := c.Options()
	if err != nil {
		return nil, err
	}
	made, err := crawl.MakePlan(&o)
	if err != nil {
		return nil, term.Usage(err)
	}
	load := c.Load()
	f, err := made.Forecast(load)
	if err != nil {
		return nil, term.Usage(err)
	}
	m, err := term.ThisMachine()
	if err != nil {
		return nil, err
	}
	n.Connections = int64(o.Network.Connections)
	n.Files = c.Reserve(m, len(n.Dirs), len(n.Outs), c.DirectIO).Reserved()
	n.RAMBytes, n.KeepFreeBytes = made.RAMBytes, made.KeepFreeBytes
	n.StateBytes, n.OutputBytes = f.DiskBytes-f.OutputBytes, f.OutputBytes
	n.Inodes = made.Files(&f)
	for _, a := range f.Disk {
		n.LargestFile = max(n.LargestFile, a.Bytes)
	}
	n.MostPages = made.MostPages(load)
	n.setRates(&f, c.Rate.Max(), float64(c.DNSRate))
	return n, nil
}

// setRates computes the rates of the crawl that the limits --rate and --dns-rate (0: none) allow.
func (n *needs) setRates(f *plan.Forecast, rate, dnsRate float64) {
	requests, lookups := plan.PerPage()
	n.Rate = f.Rate
	if rate > 0 && !pace.NoLimit(rate) {
		n.Rate = min(n.Rate, rate/requests)
	}
	n.Requests, n.Lookups = n.Rate*requests, n.Rate*lookups
	if dnsRate > 0 {
		n.Lookups = min(n.Lookups, dnsRate)
	}
	n.StateRate = f.PageIOBytes * n.Rate
	if len(n.Outs) > 0 && f.OutputBytes > 0 {
		n.OutputRate = f.Load.PageBytes * n.Rate
		n.StateRate -= n.OutputRate
	}
}

// freeBytes returns the default of --disk. Directories that cannot be created count as none: their own
// check names them. If all are such, it is large enough for any plan.
func freeBytes(dirs []string) (int64, error) {
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := term.ExistingParent(dir)
		return err != nil
	})
	if len(dirs) == 0 {
		return math.MaxInt64 / 64, nil
	}
	n, err := term.DiskBytes(disk.OS(), dirs)
	return max(n, 1), err
}

// share returns the bytes that a directory, or one for output, needs at the end of the crawl, and the rate
// in bytes/s at which it reads and writes.
func (n *needs) share(out bool) (bytes int64, rate float64) {
	switch {
	case out:
		return n.OutputBytes / int64(len(n.Outs)), n.OutputRate / float64(len(n.Outs))
	case len(n.Outs) > 0:
		return n.StateBytes / int64(len(n.Dirs)), n.StateRate / float64(len(n.Dirs))
	}
	return (n.StateBytes + n.OutputBytes) / int64(len(n.Dirs)), n.StateRate / float64(len(n.Dirs))
}
