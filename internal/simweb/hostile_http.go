package simweb

// httpScenarios are hosts whose HTTP or pages misbehave.
func httpScenarios() []scenario {
	return []scenario{
		{"endless-body", endlessBody},
	}
}

// endlessBody: pages without end, one with a claimed length, one chunked, one that ends with the connection.
func endlessBody(w *Web, add func(hostileHost)) {
	for i, head := range []string{"Content-Length: 9223372036854775807", "Transfer-Encoding: chunked", "X: y"} {
		piece := make([]byte, 16<<10)
		for j := range piece {
			piece[j] = w.text[j]
		}
		if i == 1 {
			piece = append(append([]byte("4000\r\n"), piece...), "\r\n"...)
		}
		add(hostileHost{name: w.hostileName("endless-body", i), serve: func(s *session, q *wish) bool {
			if s.writeString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + head + "\r\n\r\n") {
				for s.write(piece) {
				}
			}
			return false
		}})
	}
}
