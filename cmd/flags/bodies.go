package flags

import (
	"fmt"
	"strings"

	"drumbeat/crawl"
)

// bodySizes is how long bodies may be: a size for all, and others for some types, "2MiB,application/pdf=20MiB,image/*=5MiB".
type bodySizes struct {
	all   Size
	types []bodySize
}

type bodySize struct {
	pattern string
	most    Size
}

// UnmarshalText reads a list with one size for all, and any number of types.
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
		case typed:
			b.types = append(b.types, bodySize{strings.TrimSpace(pattern), s})
		case b.all != 0:
			return fmt.Errorf("%q has two sizes for all types", text)
		default:
			b.all = s
		}
	}
	if b.all == 0 && len(b.types) > 0 {
		return fmt.Errorf("%q has no size, or 0, for all other types", text)
	}
	return nil
}

// String can be given to the flag again.
func (b bodySizes) String() string {
	list := []string{b.all.String()}
	for _, t := range b.types {
		list = append(list, t.pattern+"="+t.most.String())
	}
	return strings.Join(list, ",")
}

// Most is the largest of them.
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
			return fmt.Errorf("--max-body %s=0: leave the type out of --accept instead", t.pattern)
		}
	}
	if b.Most() > MaxBodyLimit {
		return fmt.Errorf("--max-body %v: at most %v", b.Most(), Size(MaxBodyLimit))
	}
	return nil
}

// caps are those that are needed beside the fetcher's own limit, which is the largest.
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

// Bodies say which bodies are read.
type Bodies struct {
	Accept  []string  `group:"urls" placeholder:"TYPES" default:"html" help:"Types of bodies that are read: text/html, text/*, */*, and html, which is text/html and application/xhtml+xml. Of others the head alone is kept; or two KiB, if they are of a type behind which a page may hide (none, text/plain, XML) and turn out to be none. With --assets, images, scripts, style sheets, fonts and media are read, too. Repeatable, or with commas."`
	MaxBody bodySizes `group:"limits" placeholder:"SIZES" default:"2MiB" help:"Longest body read, as received; what is longer is cut and marked. Also by type: 2MiB,application/pdf=20MiB,image/*=5MiB, where the narrowest type counts."`
}

// Check returns the first fault.
func (f *Bodies) Check() error {
	if err := f.MaxBody.check(); err != nil {
		return err
	}
	if err := crawl.CheckBodies(f.Accept, f.MaxBody.caps()); err != nil {
		return fmt.Errorf("--accept, --max-body: %w", err)
	}
	return nil
}

// Apply puts them into a crawl's options.
func (f *Bodies) Apply(o *crawl.Options) { o.Accept, o.BodyCaps = f.Accept, f.MaxBody.caps() }

// MaxBodyLimit bounds --max-body: a body is held in RAM as a whole.
const MaxBodyLimit = 1 << 30
