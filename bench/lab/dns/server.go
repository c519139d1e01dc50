package dns

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	stdsync "sync"
	"time"

	"drumbeat/bench/measure"
)

// The kinds of names that the server of lab dns knows; a name is <number>.<kind>.bench.test.
const (
	dnsPlain   = "a"  // one address at once
	dnsMissing = "nx" // no such name, with an SOA
	dnsAlias   = "cn" // two aliases and one address in one reply
	dnsCut     = "tc" // every tenth is cut over UDP, and has its address by TCP
	dnsDelay   = "d"  // d<ms>: one address after that time
	dnsLoss    = "l"  // l<ms>: the same, but every 50th name's first question is dropped, every 2,500th name's second too
)

const (
	dnsCutEvery  = 10
	dnsLossEvery = 50
	// dnsLateMost bounds the replies that wait in the server, 100 bytes each; one more is dropped.
	dnsLateMost = 1 << 16
	// dnsLostMost bounds the names whose dropped questions are remembered.
	dnsLostMost = 1 << 20
)

// dnsServer answers questions from what stands in their names: one goroutine for UDP, one that sends late replies, and one a
// TCP connection.
type dnsServer struct {
	udp  *net.UDPConn
	tcp  net.Listener
	late chan dnsLate
	lost map[string]int // questions dropped, by name
	wg   stdsync.WaitGroup
}

// dnsLate is a reply that is to be sent at a time.
type dnsLate struct {
	due time.Time
	to  netip.AddrPort
	msg []byte
}

// Serve is the name server of Measure in a process of its own: it tells its address and serves until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &dnsServer{}
	return measure.Serve(ctx, in, out, func(*struct{}) (any, error) {
		err := s.start()
		if err != nil {
			return nil, err
		}
		return s.udp.LocalAddr().String(), nil
	}, func() any { return nil }, s.close)
}

// dnsPortTries bounds the search for a port that is free for UDP and TCP.
const dnsPortTries = 16

func (s *dnsServer) start() (err error) {
	s.late, s.lost = make(chan dnsLate, dnsLateMost), make(map[string]int)
	for range dnsPortTries {
		if s.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			break
		}
		if s.tcp, err = net.Listen("tcp4", s.udp.LocalAddr().String()); err == nil {
			_ = s.udp.SetReadBuffer(4 << 20) // what the kernel doesn't grant is no fault
			s.wg.Go(s.serveUDP)
			s.wg.Go(s.sendLate)
			s.wg.Go(s.serveTCP)
			return nil
		}
		s.udp.Close()
	}
	return fmt.Errorf("bench: dns: start a name server: %w", err)
}

// close ends the server and waits for its goroutines.
func (s *dnsServer) close() error {
	if s.tcp != nil {
		s.udp.Close()
		s.tcp.Close()
		s.wg.Wait()
	}
	return nil
}

func (s *dnsServer) serveUDP() {
	defer close(s.late)
	in, out := make([]byte, 4096), make([]byte, 0, 4096)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP message for an earlier reply
		}
		reply, delay := s.reply(out[:0], in[:n], false)
		switch {
		case reply == nil:
		case delay == 0:
			_, _ = s.udp.WriteToUDPAddrPort(reply, from) // a lost reply is asked for again
		default:
			select {
			case s.late <- dnsLate{time.Now().Add(delay), from, bytes.Clone(reply)}:
			default: // more wait than any case asks for: lost, as above
			}
		}
	}
}

// sendLate sends what has waited. One case at a time asks, with one delay, so the first to come is the first due.
func (s *dnsServer) sendLate() {
	for l := range s.late {
		// A sleep for each would cost more than the reply: what is due within a tick goes out together.
		if d := time.Until(l.due); d > 0 {
			time.Sleep(d)
		}
		_, _ = s.udp.WriteToUDPAddrPort(l.msg, l.to) // as above; after close it is an error, too
	}
}

func (s *dnsServer) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // no descriptors at this moment
			continue
		}
		s.wg.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			msg := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, msg); err != nil {
				return
			}
			reply, _ := s.reply(make([]byte, 2, 512), msg, true)
			if len(reply) > 2 {
				binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
				_, _ = conn.Write(reply)
			}
		})
	}
}

// dnsQuestion finds the number, the kind and the end of the question.
func dnsQuestion(msg []byte) (number int, kind string, end int, ok bool) {
	if len(msg) < 12 || binary.BigEndian.Uint16(msg[4:]) != 1 {
		return 0, "", 0, false
	}
	at := 12
	for label := 0; at < len(msg) && msg[at] != 0; label++ {
		next := at + 1 + int(msg[at])
		if msg[at] > 63 || next >= len(msg) {
			return 0, "", 0, false
		}
		switch text := msg[at+1 : next]; label {
		case 0:
			number, _ = strconv.Atoi(string(text))
		case 1:
			kind = strings.ToLower(string(text))
		}
		at = next
	}
	return number, kind, at + 5, at+5 <= len(msg)
}

// reply appends the reply to dst and says how late it is to be sent; nil: there is none.
func (s *dnsServer) reply(dst, msg []byte, tcp bool) ([]byte, time.Duration) {
	number, kind, end, ok := dnsQuestion(msg)
	if !ok {
		return nil, 0
	}
	start := len(dst)
	dst = append(dst, msg[:end]...)
	head := dst[start:]
	head[2], head[3] = 0x81, 0x80
	binary.BigEndian.PutUint16(head[6:], 1)
	clear(head[8:12])
	var delay time.Duration
	switch {
	case kind == dnsMissing:
		head[3] |= 3
		head[7], head[9] = 0, 1
		dst = append(dst, 0xc0, 12, 0, 6, 0, 1, 0, 0, 3, 0x84, 0, 22, 0, 0)
		dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 3, 0x84)
	case kind == dnsAlias:
		head[7] = 3
		owner := byte(12)
		for range 2 { // <one letter>.<kind>.bench.test
			dst = append(dst, 0xc0, owner, 0, 5, 0, 1, 0, 0, 3, 0x84, 0, 4)
			owner = byte(len(dst) - start)
			dst = append(dst, 1, 'a'+owner%26, 0xc0, 13+head[12])
		}
		dst = appendDNSAddr(dst, owner, number)
	case kind == dnsCut && !tcp && number%dnsCutEvery == 0:
		head[2] |= 2
		head[7] = 0
	default:
		if kind != "" && (kind[:1] == dnsDelay || kind[:1] == dnsLoss) {
			ms, _ := strconv.Atoi(kind[1:])
			delay = time.Duration(ms) * time.Millisecond
		}
		if kind != "" && kind[:1] == dnsLoss && s.drops(number, msg[12:end]) {
			return nil, 0
		}
		dst = appendDNSAddr(dst, 12, number)
	}
	return dst, delay
}

// drops tells whether a question is to be lost.
func (s *dnsServer) drops(number int, question []byte) bool {
	times := 0
	for every := dnsLossEvery; number%every == 0 && times < 2; every *= dnsLossEvery {
		times++
	}
	if times == 0 {
		return false
	}
	if n := s.lost[string(question)]; n < times && len(s.lost) < dnsLostMost {
		s.lost[string(question)] = n + 1
		return true
	}
	return false
}

func appendDNSAddr(dst []byte, owner byte, number int) []byte {
	dst = append(dst, 0xc0, owner, 0, 1, 0, 1, 0, 0, 3, 0x84, 0, 4)
	return append(dst, 127, byte(number>>16), byte(number>>8), byte(number))
}
