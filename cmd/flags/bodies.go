package flags

import (
	"fmt"
	"strings"

	"drumbeat/crawl"
	"drumbeat/crawl/fetcher"
	"drumbeat/internal/human"
)

// bodySizes is the value of --max-body: one size for all types, and exceptions for some, such as
// "2MiB,application/pdf=20MiB,image/*=5MiB". A sitemap is an exception of its own: "sitemap=10MiB".
type bodySizes struct {
	all     Size
	types   []bodySize
	Sitemap *Size // nil: from --ram
}

type bodySize struct {
	pattern string
	most    Size
}

// UnmarshalText reads a list with one size for all types and any number of exceptions.
func (b *bodySizes) UnmarshalText(text []byte) error {
	*b = bodySizes{}
	for item := range strings.SplitSeq(string(text), ",") {
		pattern, number, typed := strings.Cut(item, "=")
		if !typed {
			pattern, number = "", item
		}
		var s Size
		if err := s.UnmarshalText([]byte(strings.TrimSpace(number))); err != nil {
			return err
		}
		switch {
		case pattern == "sitemap" && b.Sitemap == nil:
			b.Sitemap = &s
		case typed:
			b.types = append(b.types, bodySize{strings.TrimSpace(pattern), s})
		case b.all != 0:
			return fmt.Errorf("%q has two sizes for all types; give one, and the others as TYPE=SIZE", text)
		default:
			b.all = s
		}
	}
	if b.all == 0 && (len(b.types) > 0 || b.Sitemap != nil) {
		return fmt.Errorf("%q has no size for all other types; begin the list with one, such as 2MiB", text)
	}
	return nil
}

// String returns text that UnmarshalText reads.
func (b bodySizes) String() string {
	list := []string{b.all.String()}
	for _, t := range b.types {
		list = append(list, t.pattern+"="+t.most.String())
	}
	if b.Sitemap != nil {
		list = append(list, "sitemap="+b.Sitemap.String())
	}
	return strings.Join(list, ",")
}

// Most returns the largest size.
func (b bodySizes) Most() Size {
	most := b.all
	for _, t := range b.types {
		most = max(most, t.most)
	}
	return most
}

// check returns the first fault.
func (b bodySizes) check() error {
	if b.all == 0 {
		return fmt.Errorf("--max-body can't be 0")
	}
	for _, t := range b.types {
		if t.most == 0 {
			return fmt.Errorf("--max-body %s=0: remove the type from --accept instead", t.pattern)
		}
	}
	if b.Sitemap != nil && *b.Sitemap == 0 {
		return fmt.Errorf("--max-body: sitemap=0: want a size above 0, or leave out --sitemaps")
	}
	if b.Most() > MaxBodyLimit {
		return fmt.Errorf("--max-body %v: at most %s", human.Bytes(b.Most()), human.Bytes(int64(MaxBodyLimit)))
	}
	return nil
}

// caps returns the limits by type. The fetcher's own limit is the largest, so a single size needs none.
func (b bodySizes) caps() (caps []crawl.BodyCap) {
	if len(b.types) == 0 {
		return nil
	}
	caps = append(caps, crawl.BodyCap{Type: "*/*", Bytes: int64(b.all)})
	for _, t := range b.types {
		caps = append(caps, crawl.BodyCap{Type: t.pattern, Bytes: int64(t.most)})
	}
	return caps
}

// Bodies holds the flags that select the bodies to read.
type Bodies struct {
	Accept  []string  `group:"urls" placeholder:"TYPES" default:"html"`
	MaxBody bodySizes `group:"limits" placeholder:"SIZES" default:"2MiB"`
}

// Check returns the first fault.
func (f *Bodies) Check() error {
	if err := f.MaxBody.check(); err != nil {
		return err
	}
	if err := fetcher.CheckBodies(f.Accept, f.MaxBody.caps()); err != nil {
		return fmt.Errorf("--accept, --max-body: %w", err)
	}
	return nil
}

// Apply sets a crawl's options.
func (f *Bodies) Apply(o *crawl.NetworkOptions) { o.Accept, o.BodyCaps = f.Accept, f.MaxBody.caps() }

// defaultMaxBody is the default of --max-body.
const defaultMaxBody = "2MiB"

// MaxBodyLimit bounds --max-body, in bytes.
const MaxBodyLimit = 1 << 40
