package main

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNamesAreAskedInMixedCase: a forger has to guess the case too.
func TestNamesAreAskedInMixedCase(t *testing.T) {
	web, flags := smallWeb(t, nil)
	upstream := slices.IndexFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--resolver=") })
	to := strings.TrimPrefix(flags[upstream], "--resolver=")
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flags[upstream] = "--resolver=" + conn.LocalAddr().String()
	var asked, mixed atomic.Int64
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for buf := make([]byte, 4096); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			asked.Add(1)
			if bytes.ContainsAny(buf[12:n], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				mixed.Add(1)
			}
			if reply := askOnce(to, buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // one that is lost is asked for again
			}
		}
	})
	defer forwarder.Wait()
	defer conn.Close()
	wantExit(t, exitDone, "", append(flags, "--dir", t.TempDir(), "--seeds", seedFile(t, web))...)
	if mixed.Load() == 0 || mixed.Load() < asked.Load()/2 {
		t.Errorf("%d of %d questions in mixed case", mixed.Load(), asked.Load())
	}
}

// askOnce returns a name server's reply to a message; nil: none came.
func askOnce(server string, msg []byte) []byte {
	conn, err := net.Dial("udp4", server)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // what comes later is asked for again, too
	_, _ = conn.Write(msg)
	reply := make([]byte, 4096)
	n, err := conn.Read(reply)
	if err != nil {
		return nil
	}
	return reply[:n]
}
