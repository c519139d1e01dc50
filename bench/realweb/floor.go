package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"drumbeat/bench/bareloop"
)

// floorCmd runs the bare loop in a process of its own.
type floorCmd struct {
	List        string `required:"" help:"File of lines: address with port, host with port, target of the request."`
	Store       string `help:"Write the responses to WARC files in this directory. Default: do not store them."`
	Connections int    `default:"16" help:"Requests at once. With 1, process each response before the next request."`
}

// Run is the command floor.
func (c floorCmd) Run(ctx context.Context) error {
	var list []bareloop.Request
	err := readLines(c.List, func(line string) error {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("%d fields, want 3", len(f))
		}
		addr, err := netip.ParseAddrPort(f[0])
		list = append(list, bareloop.Request{Addr: addr, Host: f[1], Target: f[2]})
		return err
	})
	if err != nil {
		return err
	}
	sum, err := bareloop.Run(ctx, list, bareloop.Options{Connections: c.Connections, Store: c.Store})
	fmt.Printf("%d responses, %d bytes, %d links\n", sum.Responses, sum.Bytes, sum.Links)
	return err
}
