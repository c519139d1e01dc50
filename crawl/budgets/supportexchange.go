package budgets

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/star"
)

// supportKind is the kind of the requests.
const supportKind = "supporters"

// supportAsk asks for a block of a file: of a node's edges, or of the values of the computing node.
type supportAsk struct {
	Of    string `json:"of"`              // ofEdges or ofValues
	Round int64  `json:"round,omitempty"` // of values 0: the last
	Block int    `json:"block,omitempty"`
}

const (
	ofEdges  = "edges"
	ofValues = "values"
)

// The first byte of an answer.
const (
	answerBlock = 'b' // the block follows
	answerWait  = 'w' // the file is being written
	answerNone  = 'n' // the reason follows
)

const (
	// supportPoll is the time between two questions for new values, and between two attempts of the computing node.
	supportPoll = 10 * time.Second
	// supportShared is the least time between two computations for all.
	supportShared = time.Minute
	// supportAgain is the time until a question is repeated, supportAnswer that for its answer, and supportPatience
	// the time without any answer after which a node counts as stopped.
	supportAgain    = time.Second
	supportAnswer   = 30 * time.Second
	supportPatience = 2 * time.Minute
	// Edges stay until they have not been asked for during edgesWait, or edgesDone since their last block was: the
	// computing node reads the files of the nodes one after the other.
	edgesWait = 6 * time.Hour
	edgesDone = 10 * time.Minute
)

// errPeer means that another node keeps this one from a computation, or from its values.
type errPeer struct {
	node int
	why  string
}

func (e *errPeer) Error() string { return fmt.Sprintf("node %d: %s", e.node, e.why) }

// exchange has the files of a node for the others.
type exchange struct {
	cluster Cluster
	wake    account.Signal // raised when edges are wanted
	waited  time.Duration  // for answers without a block; of the goroutine "supporters"

	mu      sync.Mutex // guards the fields below, and the files' use; the goroutine "supporters" alone replaces them
	wanted  int64      // another node wants the edges of this round; 0: none
	failed  int64      // the edges of this round could not be written
	why     string
	edges   *supportFile
	until   time.Time // edges are kept until then
	values  *supportFile
	valueOf supportHeader
}

// answer answers a question of another node.
func (x *exchange) answer(_ context.Context, from int, data []byte) []byte {
	var ask supportAsk
	if json.Unmarshal(data, &ask) != nil || ask.Block < 0 {
		return refusal("not a valid question")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch ask.Of {
	case ofEdges:
		return x.answerEdges(from, &ask)
	case ofValues:
		return x.answerValues(from, &ask)
	}
	return refusal("not a valid question")
}

func refusal(why string) []byte { return append([]byte{answerNone}, why...) }

func (x *exchange) answerEdges(from int, ask *supportAsk) []byte {
	switch {
	case from != x.cluster.Computes():
		return refusal(fmt.Sprintf("node %d computes supporters", x.cluster.Computes()))
	case x.edges != nil && x.edges.round == ask.Round:
		keep := edgesWait
		if ask.Block == x.edges.blocks {
			keep = edgesDone
		}
		x.until = time.Now().Add(keep)
		return blockOf(x.edges, ask.Block)
	case ask.Block > 0 || ask.Round == 0:
		return refusal("it no longer has these edges")
	case x.failed == ask.Round:
		return refusal(x.why)
	}
	x.wanted = ask.Round
	x.wake.Raise()
	return []byte{answerWait}
}

// answerValues answers with those of the PLDs that a node ranks.
func (x *exchange) answerValues(from int, ask *supportAsk) []byte {
	if x.values == nil || ask.Round != 0 && ask.Round != x.values.round {
		return refusal("it has no values of supporters")
	}
	if ask.Block == 0 {
		return blockOf(x.values, 0)
	}
	data, err := x.values.records(ask.Block)
	if err != nil {
		return refusal(err.Error())
	}
	own := data[:0]
	for ; len(data) > 0; data = data[valueRecord:] {
		if x.cluster.Ranks(from, binary.LittleEndian.Uint64(data)) {
			own = append(own, data[:valueRecord]...)
		}
	}
	return appendBlock([]byte{answerBlock}, x.values.round, ask.Block, own)
}

func blockOf(f *supportFile, n int) []byte {
	b, err := f.block(n)
	if err != nil {
		return refusal(err.Error())
	}
	return append([]byte{answerBlock}, b...)
}

// ask asks a node for a block until it has it. It returns an *errPeer if the node does not answer, or has no such
// block.
func (x *exchange) ask(ctx context.Context, node int, ask supportAsk) ([]byte, error) {
	data, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for heard := began; ; account.Sleep(ctx, supportAgain) {
		x.waited += time.Since(began)
		began = time.Now()
		limited, cancel := context.WithTimeout(ctx, supportAnswer)
		answer, err := x.cluster.AskNode(limited, node, supportKind, data)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && time.Since(heard) > supportPatience:
			return nil, &errPeer{node, "it does not answer: " + err.Error()}
		case err != nil:
		case len(answer) > 0 && answer[0] == answerBlock:
			return answer[1:], nil
		case len(answer) == 1 && answer[0] == answerWait:
			heard = time.Now()
		case len(answer) > 0 && answer[0] == answerNone:
			return nil, &errPeer{node, string(answer[1:min(len(answer), 1000)])}
		default:
			return nil, &errPeer{node, "its answer is not valid"}
		}
	}
}

// records asks a node for the records of a block.
func (x *exchange) records(ctx context.Context, node int, ask supportAsk, record int) ([]byte, error) {
	b, err := x.ask(ctx, node, ask)
	if err != nil {
		return nil, err
	}
	data, err := openRecords(b, ask.Round, ask.Block, record)
	if err != nil {
		return nil, &errPeer{node, err.Error()}
	}
	return data, nil
}

// each calls fn for the records in the blocks of a file of another node.
func (x *exchange) each(ctx context.Context, node int, ask supportAsk, blocks, record int,
	fn func(rec []byte) error) error {
	for ask.Block = 1; ask.Block <= blocks; ask.Block++ {
		data, err := x.records(ctx, node, ask, record)
		if err != nil {
			return err
		}
		for ; len(data) > 0; data = data[record:] {
			if err := fn(data[:record]); err != nil {
				return err
			}
		}
	}
	return nil
}

// setEdges replaces the edges of this node, nil for none; err says why there are none of a round.
func (x *exchange) setEdges(round int64, f *supportFile, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	removed := x.edges.remove()
	x.edges, x.until = f, time.Now().Add(edgesWait)
	if x.wanted == round {
		x.wanted = 0
	}
	if err != nil {
		x.failed, x.why = round, err.Error()
	}
	return removed
}

// setValues replaces the values of this node.
func (x *exchange) setValues(f *supportFile, h supportHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	removed := x.values.remove()
	x.values, x.valueOf = f, h
	return removed
}

// due returns the round whose edges another node wants, 0 for none, and whether to remove those that this node has.
func (x *exchange) due() (round int64, stale bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wanted, x.edges != nil && time.Now().After(x.until)
}

// valueReader reads the values of a computation, by ascending key.
type valueReader struct {
	read      func(n int) ([]byte, error)
	n, blocks int
	data      []byte
	last      uint64
}

// support returns the Support of a PLD, 0 if there is none. PLDs are asked for by ascending key.
func (v *valueReader) support(pld uint64) (star.Support, error) {
	for {
		for len(v.data) == 0 {
			if v.n == v.blocks {
				return 0, nil
			}
			v.n++
			var err error
			if v.data, err = v.read(v.n); err != nil {
				return 0, err
			}
		}
		key := binary.LittleEndian.Uint64(v.data)
		if key < v.last {
			return 0, fmt.Errorf("%w: its values are not in order", errBlock)
		}
		if v.last = key; key > pld {
			return 0, nil
		}
		code := star.Support(binary.LittleEndian.Uint16(v.data[8:]))
		if v.data = v.data[valueRecord:]; key == pld {
			return code, nil
		}
	}
}
