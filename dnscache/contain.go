package dnscache

import (
	"fmt"
	"net/netip"
	"runtime/debug"
)

// read is parseReply for a message that claims to answer a. Where that panics, for a bug of this package, the message isn't one.
// exact: a message in another case than a's isn't one either, but errCase.
func (r *Resolver) read(msg []byte, a *asked, exact bool, space []netip.Addr) (rep reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			rep, err = reply{}, fmt.Errorf("dnscache: BUG: panic: %v: %w", p, errReply)
			if r.opt.Panicked != nil {
				r.opt.Panicked(a.name, p, debug.Stack())
			}
		}
	}()
	if r.opt.reading != nil {
		r.opt.reading(a.name)
	}
	switch ok, sameCase := a.answers(msg); {
	case !ok:
		return reply{}, errReply
	case exact && !sameCase:
		return reply{}, errCase
	}
	return parseReply(msg, a.name, a.qtype, space, r.opt.MaxAddrs)
}

// fatal is deferred first by every goroutine: a panic that read didn't contain ends the process, by Options.Panicked if it is set.
func (r *Resolver) fatal() {
	if p := recover(); p != nil {
		if r.opt.Panicked != nil {
			r.opt.Panicked("", p, debug.Stack())
		}
		panic(p)
	}
}
