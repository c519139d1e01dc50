package cookies

import "hash/maphash"

// Many sites set a cookie by a redirect that leads, at once or by way of others, back to the URL that was
// asked. A crawl asks for each URL once, so it would never see the page. The jar therefore remembers the last
// URLs that redirected, and the cookies with which they were asked: a URL to which a redirect leads is asked
// again if its cookies are others now.

const (
	// maxRedirected bounds the URLs that a jar remembers, 32 bytes each.
	maxRedirected = 256
	// maxAgain bounds how often a URL is asked again: a site may set another cookie each time.
	maxAgain = 3
)

// redirected is a URL that redirected.
type redirected struct {
	key   uint64
	sent  uint64 // hash of the Cookie header
	again int    // how often it was asked again
}

var headerSeed = maphash.MakeSeed()

// Redirected notes that the URL with a key redirected when it was asked with this Cookie header.
func (j *Jar) Redirected(key uint64, sent string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := redirected{key: key, sent: maphash.String(headerSeed, sent)}
	for i := range j.redirected {
		if old := &j.redirected[i]; old.key == key {
			old.sent = r.sent
			return
		}
	}
	if len(j.redirected) < maxRedirected {
		j.redirected = append(j.redirected, r)
		return
	}
	j.redirected[j.next] = r
	j.next = (j.next + 1) % maxRedirected
}

// Again reports whether the URL with a key, to which a redirect leads, is to be asked again with this Cookie header: it
// redirected when it was asked with another one. It counts the request.
func (j *Jar) Again(key uint64, header string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.redirected {
		r := &j.redirected[i]
		if r.key != key {
			continue
		}
		now := maphash.String(headerSeed, header)
		if r.sent == now || r.again >= maxAgain {
			return false
		}
		r.sent, r.again = now, r.again+1
		return true
	}
	return false
}
