package crawl

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/internal/cputime"
	"drumbeat/internal/simweb"
)

// crawlServerSays is the server's first answer. The web of bench crawl runs in a process of its own, so
// that getrusage of the crawler's process counts the crawler alone. The options go in; crawlServerSays
// comes out, then a crawlServerState for each question; see measure.Serve.
type crawlServerSays struct {
	Port uint16
	DNS  netip.AddrPort
	Root []byte // certificate of the authority
}

// crawlServerState is the work and CPU of the server so far.
type crawlServerState struct {
	CPU time.Duration
	simweb.FlatCounts
}

// Serve is the server's side of bench crawl.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s *simweb.FlatServer
	return measure.Serve(ctx, in, out, func(opt *simweb.FlatOptions) (any, error) {
		flat, err := simweb.NewFlat(*opt)
		if err == nil {
			s, err = flat.Start()
		}
		if err != nil {
			return nil, err
		}
		return crawlServerSays{Port: s.Port(), DNS: s.DNS(), Root: s.RootDER()}, nil
	}, func() any {
		return crawlServerState{CPU: cputime.Process(), FlatCounts: s.Counts()}
	}, func() error {
		if s == nil {
			return nil
		}
		return s.Close()
	})
}

// crawlServer is the parent's side of the server.
type crawlServer struct {
	*measure.Server
	says crawlServerSays
}

// startCrawlServer starts the process and waits until it listens.
func startCrawlServer(ctx context.Context, command []string, web *simweb.FlatOptions) (s *crawlServer, err error) {
	s = &crawlServer{}
	if s.Server, err = measure.Start(ctx, command, web, &s.says); err != nil {
		return nil, fmt.Errorf("bench: crawl: %w", err)
	}
	return s, nil
}

// state asks the server for its state.
func (s *crawlServer) state() (state crawlServerState, err error) {
	if err = s.State(&state); err != nil {
		err = fmt.Errorf("bench: crawl: %w", err)
	}
	return state, err
}
