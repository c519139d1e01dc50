package dnscache

import (
	"fmt"
	"net/netip"
	"runtime/debug"
)

// read parses msg as a reply to a. If parsing panics, which is a bug, read reports the panic and treats msg
// as unreadable. If exact is set and msg repeats the question in another case, the error is errCase.
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

// fatal is the first deferred call of every goroutine. A panic outside of read ends the process, through
// Options.Panicked if that is set.
func (r *Resolver) fatal() {
	if p := recover(); p != nil {
		if r.opt.Panicked != nil {
			r.opt.Panicked("", p, debug.Stack())
		}
		panic(p)
	}
}
