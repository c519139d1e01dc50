package admit

import (
	"fmt"
	"io"

	"drumbeat/disk"
	"drumbeat/internal/urllist"
	"drumbeat/star"
)

// ReadRanks reads a list of domain ranks, such as Common Crawl's or Tranco's, and returns the prior in-degrees of
// their PLDs; none without a name. Of several lines of a PLD the best rank counts. pldKey returns the key of a host's
// PLD. skipped is the number of lines that name no domain.
func ReadRanks(fsys disk.FS, name string, pldKey func(host []byte) uint64) (priors []star.Prior, skipped int64,
	err error) {
	if name == "" {
		return nil, 0, nil
	}
	fail := func(err error) error { return fmt.Errorf("crawl: read ranks %s: %w", name, err) }
	file, err := fsys.OpenRead(name)
	if err != nil {
		return nil, 0, fail(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, 0, fail(err)
	}
	known := map[uint64]bool{}
	skipped, err = urllist.Ranks(io.NewSectionReader(file, 0, size), star.PriorLinks,
		func(domain []byte, rank int64) error {
			pld := pldKey(domain)
			if known[pld] {
				return nil
			}
			if len(priors) == star.MostPriors {
				return fmt.Errorf("more than %d domains up to rank %d", star.MostPriors, star.PriorLinks)
			}
			known[pld] = true
			priors = append(priors, star.Prior{PLD: pld, Links: uint32(star.PriorLinks / rank)})
			return nil
		})
	if err == nil && len(priors) == 0 {
		err = fmt.Errorf("none of its lines has a rank and a domain")
	}
	if err != nil {
		return nil, 0, fail(err)
	}
	return priors, skipped, nil
}
