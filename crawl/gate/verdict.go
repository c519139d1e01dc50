package gate

import (
	"time"

	"drumbeat/robots"
	"drumbeat/state"
)

// verdict is the result of a check by RobotsCache, as drum transports it (drum.Item.Result). The low byte
// holds a decision. The bits above hold, for decisionRefuse and for waits, a reason of 8 bits; for waits,
// also the Unix second of the next attempt; for requests, a token of the data seen; for robots.Allow,
// whether the URL was counted among the pages of its host.
type verdict uint64

// These decisions are in addition to those of package robots.
const (
	decisionUnreadable robots.Decision = 255 // the check's record is unreadable
	decisionRefuse     robots.Decision = 254 // the URL is refused with a reason
	decisionBlocked    robots.Decision = 253 // the blacklist lists all addresses of the origin
)

const decisionBits, reasonBits = 8, 8

// tokenBits is the size of a token.
const tokenBits = 64 - decisionBits

func refusal(why state.Reason) verdict { return verdict(decisionRefuse) | verdict(why)<<decisionBits }

func waitUntil(d robots.Decision, why state.Reason, at time.Time) verdict {
	return verdict(d) | verdict(why)<<decisionBits | verdict(at.Unix())<<(decisionBits+reasonBits)
}

func ask(d robots.Decision, token uint64) verdict { return verdict(d) | verdict(token)<<decisionBits }

func allowance(counted bool) verdict {
	v := verdict(robots.Allow)
	if counted {
		v |= 1 << decisionBits
	}
	return v
}

func (v verdict) decision() robots.Decision { return robots.Decision(v & (1<<decisionBits - 1)) }
func (v verdict) reason() state.Reason      { return state.Reason(v >> decisionBits & (1<<reasonBits - 1)) }
func (v verdict) until() time.Time          { return time.Unix(int64(v>>(decisionBits+reasonBits)), 0) }
func (v verdict) token() uint64             { return uint64(v >> decisionBits) }
func (v verdict) counted() bool             { return v>>decisionBits != 0 }
