package bench

import (
	"context"
	"errors"
)

// traceRates measures with the links of a recorded crawl.
func (res *cacheResult) traceRates(_ context.Context, _ *Cache) error {
	return errors.New("bench: cache: traces can't be read yet")
}
