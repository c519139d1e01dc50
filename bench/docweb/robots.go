package docweb

import "fmt"

// reply is an answer that is not a page of an ordinary host.
type reply struct {
	status   int
	mime     string
	location string
	body     string
}

var reasons = map[int]string{200: "OK", 301: "Moved Permanently", 403: "Forbidden", 404: "Not Found",
	421: "Misdirected Request", 500: "Internal Server Error", 501: "Not Implemented"}

const (
	html  = "text/html; charset=utf-8"
	plain = "text/plain"
)

// robotsMoved is where a robots.txt of kind RobotsMoved is.
const robotsMoved = "/robots-all.txt"

// robots returns the robots.txt of a host.
func (h *Host) robots() reply {
	text := func(s string) reply {
		return reply{status: 200, mime: plain, body: "# " + h.Name + "\nUser-agent: *\n" + s}
	}
	switch h.Robots {
	case RobotsEmpty, RobotsSlow:
		return text("Disallow:\n")
	case RobotsDisallow:
		return text("Disallow: /" + forbiddenDir + "/\nAllow: /\n\nUser-agent: otherbot\nDisallow: /\n")
	case RobotsDelay0:
		return text("Crawl-delay: 0\nDisallow: /cgi-bin/\n")
	case robotsHour:
		return text("Crawl-delay: 3600\nDisallow: /cgi-bin/\n")
	case RobotsHTML:
		return reply{status: 200, mime: html, body: "<!DOCTYPE html>\n<title>Nothing here</title>\n" +
			"<p>Nothing here, see <a href=\"/\">home</a>.</p>\n"}
	case RobotsForbids:
		return reply{status: 403, mime: html, body: "<title>Forbidden</title>\n"}
	case RobotsMoved:
		return reply{status: 301, mime: html, location: robotsMoved}
	case RobotsFails:
		return reply{status: 500, mime: html, body: "<title>Error</title>\n"}
	}
	return notFound
}

var notFound = reply{status: 404, mime: html,
	body: "<!DOCTYPE html>\n<title>Not found</title>\n<p>This page does not exist.</p>\n"}

// append appends the response.
func (r reply) append(b []byte, head bool) []byte {
	b = fmt.Appendf(b, "HTTP/1.1 %d %s\r\nServer: docweb\r\nContent-Type: %s\r\nContent-Length: %d\r\n", r.status,
		reasons[r.status], r.mime, len(r.body))
	if r.location != "" {
		b = fmt.Appendf(b, "Location: %s\r\n", r.location)
	}
	b = append(b, "\r\n"...)
	if head {
		return b
	}
	return append(b, r.body...)
}
