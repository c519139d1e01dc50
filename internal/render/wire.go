package render

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/coder/websocket"
)

// socket is a wire to a browser that somebody else has started.
type socket struct{ conn *websocket.Conn }

func (s socket) next(ctx context.Context, buf []byte) (int, error) {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, buf)
	switch {
	case err == nil:
		_, err = io.Copy(io.Discard, r)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		err = nil
	}
	return n, err
}

func (s socket) send(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, data)
}

func (s socket) close() { _ = s.conn.CloseNow() } // nothing is left to be said

// pipes are a wire to a child (--remote-debugging-pipe): a zero byte ends each message. Nobody else on the machine can
// reach them, while a port of loopback is open to all its users.
type pipes struct {
	in  *bufio.Reader
	out *os.File // to the browser
	r   *os.File // of in
}

func (p *pipes) next(_ context.Context, buf []byte) (n int, err error) {
	for {
		part, err := p.in.ReadSlice(0)
		if err == nil {
			part = part[:len(part)-1]
		}
		n += copy(buf[min(n, len(buf)):], part)
		if err != bufio.ErrBufferFull {
			return n, err
		}
	}
}

func (p *pipes) send(data []byte) error {
	if err := p.out.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := p.out.Write(append(data, 0))
	if err != nil { // half of a message may be there
		p.close()
	}
	return err
}

func (p *pipes) close() {
	_ = p.out.Close() // nothing is left to be said
	_ = p.r.Close()   // ends next
}
