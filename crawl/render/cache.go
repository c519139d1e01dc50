package render

import (
	"container/list"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	cdp "drumbeat/internal/render"
	"drumbeat/robots"
)

// cache keeps answers and rules for rendered pages in RAM.
type cache struct {
	seed maphash.Seed

	mu      sync.Mutex // guards all below
	most    int64
	bytes   int64
	answers map[string]*list.Element
	order   *list.List // of *answered, the one used last in front
	origins map[string]*origin
	turn    int64
}

type answered struct {
	url   string
	dress uint64 // of the request
	resp  *cdp.Response
	size  int64
	at    time.Time
}

// origin has the rules of an origin, which its lock guards.
type origin struct {
	lock  chan struct{}
	rules robots.HostData
	used  int64 // turn of the cache
}

func newCache(bytes int64) *cache {
	return &cache{seed: maphash.MakeSeed(), most: bytes, answers: map[string]*list.Element{}, order: list.New(),
		origins: map[string]*origin{}}
}

// get returns a fresh answer to the same request, nil if there is none.
func (c *cache) get(url string, dress uint64, now time.Time) *cdp.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.answers[url]
	if e == nil {
		return nil
	}
	a := e.Value.(*answered)
	if now.Sub(a.at) > fresh || a.dress != dress {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return a.resp
}

// put keeps an answer, which nobody changes afterwards, unless it is large.
func (c *cache) put(url string, resp *cdp.Response, dress uint64, now time.Time) {
	size := int64(len(url)+len(resp.Body)) + 1024
	for name, values := range resp.Header {
		size += int64(len(name) + len(strings.Join(values, "")))
	}
	if size > c.most/answerShare {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.answers[url]; e != nil {
		c.drop(e)
	}
	c.answers[url] = c.order.PushFront(&answered{url, dress, resp, size, now})
	for c.bytes += size; c.bytes > c.most; {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	a := c.order.Remove(e).(*answered)
	delete(c.answers, a.url)
	c.bytes -= a.size
}

// origin returns the rules of an origin, empty at first. The origin used longest ago makes room.
func (c *cache) origin(name string) *origin {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.origins[name]
	if o == nil {
		if len(c.origins) >= mostOrigins {
			oldest := ""
			for n, other := range c.origins {
				if oldest == "" || other.used < c.origins[oldest].used {
					oldest = n
				}
			}
			delete(c.origins, oldest)
		}
		o = &origin{lock: make(chan struct{}, 1)}
		c.origins[name] = o
	}
	c.turn++
	o.used = c.turn
	return o
}
