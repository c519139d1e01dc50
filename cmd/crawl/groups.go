package crawl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/crawl/outage"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
	"drumbeat/state"
	"drumbeat/warc"
)

// limitFlags end a crawl.
type limitFlags struct {
	MaxPages       maxPages      `group:"limits" common:"" site:"" type:"parts" placeholder:"N"`
	OutagePatience time.Duration `group:"limits" placeholder:"DURATION" default:"1d"`
	Reference      []string      `group:"limits" placeholder:"URL" sep:"none"`
	MaxTime        time.Duration `group:"limits" common:"" site:"" placeholder:"DURATION" default:"0s"`
	MaxDepth       *flags.Count  `group:"limits" common:"" placeholder:"N"`
	Linger         time.Duration `group:"limits" placeholder:"DURATION" default:"1m"`
}

// maxPages bounds the pages of a crawl, and the URLs of a host and a PLD.
type maxPages struct {
	All  flags.Count `part:"" default:"0"`
	Host flags.Count `part:"host" default:"0" most:"1e12"`
	PLD  flags.Count `part:"pld" default:"0" most:"4e9"`
}

func (c *limitFlags) checkReferences() error {
	if n := len(c.Reference); n > outage.MaxReferences {
		return fmt.Errorf("--reference is given %s, want at most %d", human.Counted(n, "time", "times"),
			outage.MaxReferences)
	}
	for _, s := range c.Reference {
		if _, err := outage.CheckReference(s); err != nil {
			return fmt.Errorf("--reference: %w", err)
		}
	}
	return nil
}

// references returns the URLs of --reference, which checkReferences has checked.
func (c *limitFlags) references() (urls []string) {
	for _, s := range c.Reference {
		if url, err := outage.CheckReference(s); err == nil {
			urls = append(urls, url)
		}
	}
	return urls
}

func (c *limitFlags) apply(o *crawl.LimitsOptions) {
	o.MaxPages, o.MaxTime, o.Linger = int64(c.MaxPages.All), c.MaxTime, c.Linger
	o.OutagePatience, o.References = c.OutagePatience, c.references()
	if o.MaxDepth = crawl.Unlimited; c.MaxDepth != nil {
		o.MaxDepth = int(*c.MaxDepth)
	}
}

// netFlags configure DNS and connections.
type netFlags struct {
	Resolver       []flags.ServerAddr `group:"net" placeholder:"HOST:PORT"`
	DNSRate        flags.Count        `group:"net" name:"dns-rate" placeholder:"N" default:"0"`
	AllowNet       []flags.NetPrefix  `group:"net" common:"" placeholder:"CIDR"`
	NAT64Prefix    []flags.NAT64      `group:"net" name:"nat64-prefix" placeholder:"PREFIX"`
	Ports          []ports.Range      `group:"net" common:"" placeholder:"PORTS"`
	IP             string             `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto"`
	TLS            certificates       `group:"net" name:"tls" type:"parts" placeholder:"VERDICT"`
	HTTP2          string             `group:"net" name:"http2" enum:"on,off" default:"on"`
	Connections    *flags.Connections `group:"net" common:"" placeholder:"N"`
	Rate           flags.PagesRate    `group:"net" common:"" placeholder:"N" default:"none"`
	Bandwidth      flags.Bandwidth    `group:"net" placeholder:"RATE" default:"none"`
	AcceptEncoding flags.Codings      `group:"net" placeholder:"LIST" default:"gzip"`
	TimeZone       flags.TimeZone     `group:"net" placeholder:"NAME"`
	KeepAlive      time.Duration      `group:"net" placeholder:"DURATION" default:"15s"`
	Timeout        timeouts           `group:"net" type:"parts" placeholder:"DURATION"`
	MapPort        []flags.PortPair   `group:"net" hidden:"" placeholder:"A=B"`

	found bool // Resolver has the servers of this machine
}

// certificates says what a bad certificate means, and whether old servers are served.
type certificates struct {
	Bad    string `part:"" enum:"record,require" default:"record"`
	Legacy bool   `part:"legacy"`
}

// timeouts bound a request, its connect (and TLS handshake), and the wait for its first byte.
type timeouts struct {
	All       time.Duration `part:"" default:"60s" least:"1ms"`
	Connect   time.Duration `part:"connect" default:"10s" least:"1ms"`
	FirstByte time.Duration `part:"first-byte" default:"20s" least:"1ms"`
}

func (f *netFlags) apply(o *crawl.NetworkOptions) {
	zone := f.TimeZone.Location
	o.Connections, o.ConnectionSchedule = int(f.Connections.Most()), f.Connections.Hours().In(zone)
	o.Rate, o.Bandwidth = f.Rate.Schedule.In(zone), pace.NewBandwidth(f.Bandwidth.Schedule.In(zone), time.Now())
	o.KeepAlive, o.NAT64, o.Flags = f.KeepAlive, flags.NAT64Prefixes(f.NAT64Prefix), f.digest()
	if o.AllowNets = flags.Prefixes(f.AllowNet); !f.found {
		o.NameServers = f.nameServers()
	}
}

// budgetFlags set how many pages of a PLD each BEAST queue takes (paper, sections V and VI).
type budgetFlags struct {
	Budget budget `group:"budget" type:"parts" placeholder:"POLICY"`
	Ranks  string `group:"budget" placeholder:"FILE"`
}

type budget struct {
	Policy  string      `part:"" enum:"paper,equal,popular,inverse,proportional,supporters" default:"paper"`
	Default flags.Count `part:"default" default:"10" least:"1" most:"16777215" placeholder:"PAGES"`
	Queue   flags.Count `part:"queue" default:"10000" most:"1e9" placeholder:"PAGES"`
	Max     flags.Count `part:"max" default:"10000" least:"1" most:"16777215" placeholder:"PAGES"`
	Ranks   flags.Count `part:"ranks" default:"10000" least:"1" most:"1048576" placeholder:"PLDS"`
	Trusted string      `part:"trusted" placeholder:"FILE"`
	Traps   bool        `part:"traps"`
	Hosts   bool        `part:"hosts"`

	Directories bool `part:"directories"`
}

func (c *budgetFlags) apply(o *crawl.BudgetsOptions) {
	b := &c.Budget
	o.Policy, o.Default, o.Max = crawl.BudgetPolicy(b.Policy), uint32(b.Default), uint32(b.Max)
	o.Ranks, o.Trusted, o.TrapScore, o.DomainRanks = int(b.Ranks), b.Trusted, b.Traps, c.Ranks
	switch {
	case b.Directories: // hosts are parts, too
		o.Parts = state.ByDirectories
	case b.Hosts:
		o.Parts = state.ByHosts
	}
	if o.QueuePages = int64(b.Queue); o.QueuePages == 0 {
		o.QueuePages = crawl.Unlimited
	}
}

// resourceFlags limit RAM and disk. Their help has the paper's symbols in brackets.
type resourceFlags struct {
	RAM      *flags.Size `group:"machine" common:"" name:"ram" placeholder:"SIZE"`
	Disk     *flags.Size `group:"machine" common:"" placeholder:"SIZE"`
	KeepFree *flags.Size `group:"machine" placeholder:"SIZE"`
	WhenFull string      `group:"machine" enum:"pause,drain,stop" default:"pause"`
	DirectIO bool        `group:"machine" name:"direct-io"`
	flags.Drum
}

func (c *resourceFlags) apply(limits *crawl.LimitsOptions, o *crawl.DiskOptions) {
	limits.RAMBytes, limits.DiskBytes = int64(*c.RAM), int64(*c.Disk)
	o.FS, o.WhenFull, o.KeepFree = disk.OS(), crawl.WhenFull(c.WhenFull), int64(flags.OrZero(c.KeepFree))
	if c.DirectIO {
		o.FS = disk.Direct()
	}
}

// outputFlags say what is stored, and how.
type outputFlags struct {
	Store           flags.Store   `group:"output" type:"parts" placeholder:"KIND"`
	ContentSeen     string        `group:"output" enum:"off,record,skip" default:"record"`
	Since           []string      `group:"output" sep:"none" placeholder:"DIR"`
	SinceKnown      string        `group:"output" enum:"all,due,skip" default:"all"`
	Usage           usageParts    `group:"output" type:"parts" placeholder:"PARTS"`
	TDMRep          bool          `group:"output" name:"tdmrep"`
	Simhash         bool          `group:"output"`
	NearDuplicates  near          `group:"output" type:"parts" placeholder:"ACTION"`
	WARC            warcForm      `group:"output" name:"warc" type:"parts" placeholder:"FORMAT"`
	OutMode         flags.OutMode `group:"output" placeholder:"MODE" default:"0600"`
	CrawlLog        string        `group:"output" enum:"off,errors,all" default:"errors"`
	TraceLinks      string        `group:"output" placeholder:"FILE"`
	CheckpointEvery time.Duration `group:"output" placeholder:"DURATION" default:"60s"`
	RollEvery       time.Duration `group:"output" placeholder:"DURATION" default:"1h"`
	PrivateSuffixes bool          `group:"output"`
}

func (c *outputFlags) apply(o *crawl.OutputOptions) {
	o.Store, o.ContentSeen, o.Simhash = c.Store.Kind == "warc", state.ContentSeen(c.ContentSeen), c.Simhash
	o.Usage = state.Usages{Search: state.Usage(c.Usage.Search), AIInput: state.Usage(c.Usage.AIInput),
		AITrain: state.Usage(c.Usage.AITrain)}
	n := &c.NearDuplicates
	o.NearDuplicates = state.NearDuplicates{KeepOne: n.on(), Bits: int(n.Bits), Whole: n.Store == "all"}
	o.TDMRep, o.Since, o.SinceKnown = c.TDMRep, nil, crawl.Known(c.SinceKnown)
	for _, dirs := range c.Since {
		o.Since = append(o.Since, flags.Clean(strings.Split(dirs, ",")))
	}
	o.RollEvery, o.ArchiveRobots, o.ArchiveDNS, o.OutMode = c.RollEvery, c.Store.Robots, c.Store.DNS, c.OutMode.Wide()
	o.CrawlLog, o.WARCFormat, o.WARCLevel = state.LogLevel(c.CrawlLog), warc.Gzip, warc.LevelFast
	if c.WARC.Format == "zst" {
		o.WARCFormat = warc.Zstd
	}
	if c.WARC.Level != "fast" { // a digit: the parser has checked it
		o.WARCLevel = int(c.WARC.Level[0] - '0')
	}
}

// near says what becomes of pages that nearly repeat another page of their host.
type near struct {
	Action string      `part:"" enum:"off,keep-one" default:"off"`
	Store  string      `part:"store" enum:"note,all" default:"note"`
	Visits flags.Count `part:"visits" default:"4" least:"1" most:"1000"`
	Bits   flags.Count `part:"bits" default:"3" most:"7"`
}

// nearVisits is the default of visits.
const nearVisits = 4

func (n *near) on() bool { return n.Action == "keep-one" }

// checkNear returns the fault of --near-duplicates with the other flags.
func (c *Command) checkNear() error {
	switch n := &c.NearDuplicates; {
	case !n.on() && *n != (near{Action: "off", Store: "note", Visits: nearVisits, Bits: state.NearBits}):
		return errors.New("--near-duplicates: store, visits and bits are for keep-one")
	case !n.on():
		return nil
	case c.Store.Kind != "warc" || c.ContentSeen == "off":
		return errors.New("--near-duplicates keep-one is for --store warc with --content-seen record or skip")
	case n.Visits != nearVisits && !c.Recrawl:
		return errors.New("--near-duplicates: visits is for --recrawl")
	}
	return nil
}

// usageParts say what becomes of pages whose sites refuse a use of them.
type usageParts struct {
	Search  string `part:"search" enum:"keep,mark,drop" default:"keep"`
	AIInput string `part:"ai-input" enum:"keep,mark,drop" default:"keep"`
	AITrain string `part:"ai-train" enum:"keep,mark,drop" default:"keep"`
}

// warcForm is the compression of WARC files.
type warcForm struct {
	Format string `part:"" enum:"gz,zst" default:"gz"`
	Level  string `part:"level" enum:"fast,1,2,3,4,5,6,7,8,9" default:"fast"`
	Dict   string `part:"dict" placeholder:"FILE"`
}

// reportFlags select what is printed.
type reportFlags struct {
	flags.Logging
	HistoryBytes flags.Size `group:"report" placeholder:"SIZE" default:"64MiB"`
	Summary      string     `group:"report" placeholder:"FILE"`
	PrintConfig  bool       `group:"report" common:"" site:""`
	flags.Sources
	flags.Profiling `group:"report"`
	flags.Admin
}
