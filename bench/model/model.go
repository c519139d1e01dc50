package model

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/beast"
	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/drum"
)

// Model holds the parameters of the paper's tables. Its fields are flags of command bench; their defaults
// are the paper's values. The paper's symbols are in brackets. Bytes are decimal, as in the paper's tables.
// A Model is a value; its methods don't change it.
type Model struct {
	Pages          []float64 `type:"count" placeholder:"N" default:"8e8,8e9,8e10,8e11,8e12"`
	Known          float64   `type:"count" placeholder:"N" default:"1e8"`
	LinksPerPage   float64   `type:"fraction" placeholder:"N" default:"59"`
	UniqueFraction float64   `name:"unique" type:"fraction" placeholder:"SHARE" default:"1/9"`
	URLBytes       float64   `name:"url-bytes" type:"size" placeholder:"SIZE" default:"110B"`
	KeyBytes       float64   `type:"size" placeholder:"SIZE" default:"8B"`
	PointerBytes   float64   `type:"size" placeholder:"SIZE" default:"4B"`
	BufferBytes    float64   `name:"buffer" type:"size" placeholder:"SIZE" default:"256kB"`

	RAMBytes        float64   `name:"ram" type:"size" placeholder:"SIZE" default:"1GB"`
	DiskBytes       float64   `name:"disk" type:"size" placeholder:"SIZE" default:"4390GB"`
	CompressedBytes float64   `type:"fraction" placeholder:"N" default:"5.5"`
	ScaledRAMBytes  []float64 `name:"column-ram" type:"size" placeholder:"SIZE" default:"4GB,8GB"`
	LeastDiskBytes  float64   `name:"least-disk" type:"size" placeholder:"SIZE" default:"1TB"`
	Bandwidth       float64   `type:"size" placeholder:"SIZE" default:"101250kB"`

	CacheSpeeds    []float64     `name:"cache-speed" type:"count" placeholder:"N" default:"113e3,185e3,416e3,2e6"`
	MaxRate        float64       `type:"count" placeholder:"N" default:"4000"`
	CacheBytes     float64       `name:"cache-ram" type:"size" placeholder:"SIZE" default:"320MB"`
	Misses         float64       `type:"fraction" placeholder:"SHARE" default:"0.33"`
	EntryBytes     float64       `type:"size" placeholder:"SIZE" default:"20B"`
	HostDelay      time.Duration `placeholder:"DURATION" default:"40s"`
	CacheStepBytes float64       `name:"cache-step" type:"size" placeholder:"SIZE" default:"50MB"`
	Curve          MissCurve     `name:"miss-curve" placeholder:"CURVE" default:"0:0.84;1:0.41;2:0.26;10:0.22"`

	PLDs           float64   `name:"plds" type:"count" placeholder:"N" default:"33e6"`
	MeanBudget     float64   `type:"fraction" placeholder:"PAGES" default:"11"`
	UniquePerPage  float64   `type:"fraction" placeholder:"N" default:"6.5"`
	PagesPerSecond float64   `type:"count" placeholder:"N" default:"3100"`
	BeastPages     []float64 `name:"budget-pages" type:"count" placeholder:"N" default:"1e8,8e9,8e10"`
}

// Paper returns the paper's values. Where text and tables disagree it takes those of the tables.
func Paper() Model {
	return Model{
		Known: 1e8, LinksPerPage: 59, UniqueFraction: 1. / 9, URLBytes: 110, KeyBytes: 8, PointerBytes: 4,
		BufferBytes: 256e3, Pages: []float64{800e6, 8e9, 80e9, 800e9, 8e12},
		RAMBytes: 1e9, DiskBytes: 4.39e12, CompressedBytes: 5.5,
		ScaledRAMBytes: []float64{4e9, 8e9}, LeastDiskBytes: 1e12, Bandwidth: 101.25e6,
		CacheSpeeds: []float64{113e3, 185e3, 416e3, 2e6}, MaxRate: 4000,
		CacheBytes: 320e6, Misses: 0.33,
		EntryBytes: 20, HostDelay: 40 * time.Second, CacheStepBytes: 50e6, Curve: slices.Clone(tableCurve),
		PLDs: 33e6, MeanBudget: 11, UniquePerPage: 6.5, PagesPerSecond: 3100,
		BeastPages: []float64{100e6, 8e9, 80e9},
	}
}

// beast returns the parameters of Theorems 6 and 7.
func (m *Model) beast() beast.Model {
	return beast.Model{PLDs: m.PLDs, MeanBudget: m.MeanBudget, UniquePerPage: m.UniquePerPage,
		PagesPerSecond: m.PagesPerSecond, URLBytes: m.URLBytes}
}

// maxCacheSteps bounds the search for the best cache, in steps.
const maxCacheSteps = 1e5

// Validate returns all faults, joined.
func (m Model) Validate() error {
	need, faults := measure.Faults("model")
	for _, f := range []struct {
		name   string
		values []float64
	}{
		{"links-per-page", []float64{m.LinksPerPage}}, {"unique", []float64{m.UniqueFraction}},
		{"url-bytes", []float64{m.URLBytes}}, {"key-bytes", []float64{m.KeyBytes}},
		{"buffer", []float64{m.BufferBytes}}, {"pages", m.Pages},
		{"ram", []float64{m.RAMBytes}}, {"disk", []float64{m.DiskBytes}},
		{"compressed-bytes", []float64{m.CompressedBytes}}, {"column-ram", m.ScaledRAMBytes},
		{"least-disk", []float64{m.LeastDiskBytes}}, {"bandwidth", []float64{m.Bandwidth}},
		{"cache-speed", m.CacheSpeeds}, {"max-rate", []float64{m.MaxRate}},
		{"misses", []float64{m.Misses}}, {"entry-bytes", []float64{m.EntryBytes}},
		{"host-delay", []float64{m.HostDelay.Seconds()}}, {"cache-step", []float64{m.CacheStepBytes}},
		{"plds", []float64{m.PLDs}}, {"mean-budget", []float64{m.MeanBudget}},
		{"pages-per-second", []float64{m.PagesPerSecond}}, {"budget-pages", m.BeastPages},
	} {
		need(len(f.values) > 0 && slices.Min(f.values) > 0, "--%s must be above 0", f.name)
	}
	need(m.UniqueFraction <= 1, "--unique %v: want at most 1", m.UniqueFraction)
	need(m.Misses <= 1, "--misses %v: want at most 1", m.Misses)
	need(m.Known >= 0 && m.PointerBytes >= 0 && m.CacheBytes >= 0,
		"--known, --pointer-bytes and --cache-ram must not be negative")
	need(m.UniquePerPage >= 1, "--unique-per-page %v: want at least 1", m.UniquePerPage)
	for _, ram := range m.ScaledRAMBytes {
		need(ram > m.CacheBytes && ram/max(m.CacheStepBytes, 1) <= maxCacheSteps,
			"--column-ram %s: want more than --cache-ram %s, and at most %.0f times --cache-step %s",
			result.DecimalBytes(ram), result.DecimalBytes(m.CacheBytes), maxCacheSteps,
			result.DecimalBytes(m.CacheStepBytes))
	}
	if err := m.Curve.validate(); err != nil {
		need(false, "--miss-curve: %w", err)
	}
	return faults()
}

// load returns the stream of links of the given pages; the share pi of them reaches the disk.
func (m Model) load(pages, pi float64) drum.Load {
	return drum.Load{
		Known: m.Known, Links: pi * m.LinksPerPage * pages, UniqueFraction: m.UniqueFraction,
		URLBytes: m.URLBytes, KeyBytes: m.KeyBytes, PointerBytes: m.PointerBytes,
	}
}

// disk returns D(n) of Table III: room for the keys of all new URLs, at least LeastDiskBytes.
func (m Model) disk(l drum.Load) float64 {
	return max(l.UniqueFraction*l.KeyBytes*l.Links, m.LeastDiskBytes)
}

// scaledDRUM returns alpha of DRUM with D(n).
func (m Model) scaledDRUM(l drum.Load, ram float64) float64 {
	return l.DRUM(ram, m.disk(l), m.BufferBytes)
}

// method is a way to check URLs, defined by its alpha.
type method struct {
	name  string
	alpha func(l drum.Load, ram float64) float64
}

// scaled returns the methods of Tables III, VI and VII.
func (m Model) scaled() []method {
	return []method{{"Mercator-B", drum.Load.MercatorB}, {"DRUM", m.scaledDRUM}}
}

// fixed returns the methods of Table II.
func (m Model) fixed() []method {
	return []method{
		{"Mercator-B", drum.Load.MercatorB},
		{"Polybot", func(l drum.Load, ram float64) float64 { return l.Polybot(ram, m.CompressedBytes) }},
		{"DRUM", func(l drum.Load, ram float64) float64 { return l.DRUM(ram, m.DiskBytes, m.BufferBytes) }},
	}
}

// hybrid returns S_hybrid(c) of Theorem 5 for a method with ram bytes, cache bytes of which are c.
func (m Model) hybrid(by method, pages, ram, cache float64, curve MissCurve) float64 {
	misses := func(s float64) float64 { return curve.at(cache, m.EntryBytes*m.HostDelay.Seconds()*m.LinksPerPage*s) }
	alpha := func(pi float64) float64 { return by.alpha(m.load(pages, pi), ram-cache) }
	return drum.HybridRate(m.Bandwidth, m.URLBytes, m.LinksPerPage, misses, alpha)
}

// cacheSizes yields the c from 0 on that are smaller than ram.
func (m Model) cacheSizes(ram float64) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		for step := 0; ; step++ {
			if c := float64(step) * m.CacheStepBytes; c >= ram || !yield(c) {
				return
			}
		}
	}
}

// best returns the highest rate of a method in pages/s over all cache sizes, and the best cache size in
// bytes: the maximum of Theorem 5 over c.
func (m Model) best(by method, pages, ram float64, curve MissCurve) (rate, cache float64) {
	for c := range m.cacheSizes(ram) {
		if s := m.hybrid(by, pages, ram, c, curve); s > rate {
			rate, cache = s, c
		}
	}
	return rate, cache
}

// printed reports whether m has the paper's parameters, so that the paper's numbers can be shown.
func (m Model) printed() bool { return reflect.DeepEqual(m, Paper()) }

// MissCurve is pi(c, S), the share of links that miss a cache of c bytes, as a step function of c. The unit
// of c is gamma tau_h l S, the bytes of the links of one host delay. Steps ascend; without a cache pi is 1.
type MissCurve []MissStep

// MissStep sets pi to Misses from Factor units on.
type MissStep struct{ Factor, Misses float64 }

// textCurve is the curve of section V.C; tableCurve is the one that gives the cells of Table VII.
var (
	textCurve  = MissCurve{{0, 0.84}, {1, 0.41}, {4, 0.27}, {10, 0.22}}
	tableCurve = MissCurve{{0, 0.84}, {1, 0.41}, {2, 0.26}, {10, 0.22}}
)

// at returns pi for a cache of the given bytes.
func (c MissCurve) at(bytes, unit float64) float64 {
	misses := 1.0
	for _, s := range c {
		if bytes > 0 && bytes >= s.Factor*unit {
			misses = s.Misses
		}
	}
	return misses
}

func (c MissCurve) validate() error {
	last := MissStep{-1, 1}
	for _, s := range c {
		if s.Factor <= last.Factor || s.Factor < 0 || s.Misses > last.Misses || s.Misses <= 0 {
			return fmt.Errorf(
				"%v: factors must rise from 0, and misses fall from at most 1 but stay above 0", c)
		}
		last = s
	}
	if len(c) == 0 || c[0].Factor != 0 {
		return fmt.Errorf("%q: the first factor must be 0", c)
	}
	return nil
}

// String returns the form that UnmarshalText reads.
func (c MissCurve) String() string {
	var parts []string
	for _, s := range c {
		parts = append(parts, fmt.Sprintf("%v:%v", s.Factor, s.Misses))
	}
	return strings.Join(parts, ";")
}

// UnmarshalText reads pairs of factor and miss share: "0:0.84;1:0.41".
func (c *MissCurve) UnmarshalText(text []byte) error {
	*c = nil
	for part := range strings.SplitSeq(string(text), ";") {
		factor, misses, ok := strings.Cut(part, ":")
		f, err1 := strconv.ParseFloat(factor, 64)
		p, err2 := strconv.ParseFloat(misses, 64)
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("%q: want pairs of factor and misses, such as 0:0.84;1:0.41", text)
		}
		*c = append(*c, MissStep{f, p})
	}
	return c.validate()
}

// Report computes all tables.
func (m Model) Report() (*result.Report, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	r := result.New("model", "the paper's tables from its formulas")
	if !m.printed() {
		r.Notes = append(r.Notes, "The parameters differ from the paper's, so its numbers are left out.")
	}
	for _, t := range m.tables() {
		r.Tables = append(r.Tables, t.Table)
		r.Lines = append(r.Lines, t.lines...)
		if t.printed > t.known {
			r.Checks = append(r.Checks, t.check())
		}
	}
	return r, nil
}
