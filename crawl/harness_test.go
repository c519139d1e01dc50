package crawl_test

import (
	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
)

func init() {
	crawl.SetHarness(crawltest.SimOptions, crawltest.WebOptions, crawltest.MustRun, crawltest.StoppedCrawl,
		crawltest.AtOnce)
}
