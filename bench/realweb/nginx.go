package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"

	"drumbeat/internal/simweb"
)

// servers are the processes and goroutines that serve the web.
type servers struct {
	web   *web
	dns   *simweb.NameServer
	asked struct{ all, denied atomic.Int64 } // questions to dns
	nginx *exec.Cmd
	done  chan struct{} // closed when nginx has ended
	err   error         // of nginx; valid after done
}

const nginxConf = `daemon off;
worker_processes 2;
{{with .User}}user {{.}};
{{end}}pid {{.Work}}/nginx.pid;
error_log {{.Work}}/error.log warn;
worker_rlimit_nofile {{.Descriptors}};
events { worker_connections 2048; }
http {
	client_body_temp_path {{.Work}}/tmp/body;
	proxy_temp_path {{.Work}}/tmp/proxy;
	fastcgi_temp_path {{.Work}}/tmp/fastcgi;
	uwsgi_temp_path {{.Work}}/tmp/uwsgi;
	scgi_temp_path {{.Work}}/tmp/scgi;
	types {
{{range $ext, $type := .Types}}		{{$type}} {{$ext}};
{{end}}	}
	default_type {{.OtherType}};
	log_format walk '$msec $request_time $scheme $host $status $bytes_sent $request_method $sent_http_content_type $request_uri';
	access_log {{.Work}}/access.log walk buffer=64k flush=1s;
	absolute_redirect off;
	server_tokens off;
	sendfile on;
{{if .Static}}	gzip_static on;
	open_file_cache max={{.Files}} inactive=1h;
	open_file_cache_valid 1h;
{{else}}	gzip on;
	gzip_comp_level 1;
	gzip_types text/plain text/css text/javascript text/xml image/svg+xml;
{{end}}	ssl_certificate {{.Work}}/cert.pem;
	ssl_certificate_key {{.Work}}/key.pem;
	ssl_session_cache shared:tls:4m;
	server_names_hash_max_size 4096;
	server_names_hash_bucket_size 128;
{{range .Addrs}}	server { listen {{.}}:{{$.HTTP}} default_server; return 444; }
	server { listen {{.}}:{{$.HTTPS}} ssl default_server; ssl_reject_handshake on; }
{{end}}{{range .Hosts}}{{if .TLS}}	server {
		listen {{.Addr}}:{{$.HTTP}};
		server_name {{.Name}};
		return 301 https://{{.Name}}$request_uri;
	}
{{end}}	server {
		listen {{.Addr}}:{{if .TLS}}{{$.HTTPS}} ssl{{else}}{{$.HTTP}}{{end}};
		server_name {{.Name}};
		root {{.Root}};
		index index.html;
{{if .Plain}}		gzip_static off;
{{end}}{{if .Robots}}		location = /robots.txt { root {{$.Work}}/robots/{{.Name}}; }
{{end}}	}
{{end}}}
`

type confHost struct {
	Name, Addr, Root string
	Plain            bool // never compressed
	TLS, Robots      bool
}

// writeConf writes nginx.conf and the robots.txt files.
func (w *web) writeConf() error {
	data := struct {
		Work, User, OtherType string
		HTTP, HTTPS           int
		Static                bool
		Files, Descriptors    int
		Types                 map[string]string
		Addrs                 []string
		Hosts                 []confHost
	}{Work: w.work, OtherType: otherMime, HTTP: w.httpPort, HTTPS: w.httpsPort, Static: w.static, Descriptors: 8192,
		Types: map[string]string{}}
	if os.Geteuid() == 0 { // otherwise nginx ignores the line, with a warning
		me, err := user.Current()
		if err != nil {
			return err
		}
		data.User = me.Username
	}
	if w.static { // use the descriptors of an ordinary user, most of them for the cache
		data.Files, data.Descriptors = 12000, 16384
	}
	for ext, mime := range mimes {
		data.Types[strings.TrimPrefix(ext, ".")] = mime
	}
	for i := range w.addrs {
		data.Addrs = append(data.Addrs, w.address(i))
	}
	for _, h := range w.hosts {
		data.Hosts = append(data.Hosts,
			confHost{h.name, h.addr, strconv.Quote(h.root), h.plain, h.https, h.robotsText() != ""})
		if text := h.robotsText(); text != "" {
			if err := os.MkdirAll(w.path("robots", h.name), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(w.path("robots", h.name, "robots.txt"), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	var conf bytes.Buffer
	if err := template.Must(template.New("nginx.conf").Parse(nginxConf)).Execute(&conf, data); err != nil {
		return fmt.Errorf("realweb: write nginx.conf: %w", err)
	}
	return os.WriteFile(w.path("nginx.conf"), conf.Bytes(), 0o644)
}

// startServers starts DNS and nginx, and returns when both answer. The caller must close them.
func startServers(ctx context.Context, w *web) (*servers, error) {
	if err := w.choosePorts(); err != nil {
		return nil, err
	}
	if err := errors.Join(w.writeCertificates(), os.MkdirAll(w.path("tmp"), 0o755)); err != nil {
		return nil, err
	}
	if err := w.writeConf(); err != nil {
		return nil, err
	}
	s := &servers{web: w, done: make(chan struct{})}
	s.nginx = exec.Command(nginxBinary(), "-e", w.path("error.log"), "-p", w.work, "-c", w.path("nginx.conf"))
	s.nginx.Stderr = os.Stderr
	s.nginx.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := s.nginx.Start(); err != nil {
		return nil, fmt.Errorf("realweb: start nginx: %w", err)
	}
	go func() {
		s.err = s.nginx.Wait()
		close(s.done)
	}()
	var err error
	if s.dns, err = simweb.StartNameServer(0, s.resolve); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.awaitNginx(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func nginxBinary() string {
	if name, err := exec.LookPath("nginx"); err == nil {
		return name
	}
	return "/usr/sbin/nginx" // not in every user's PATH
}

// choosePorts finds ports that are free on all addresses.
func (w *web) choosePorts() error {
	var addrs []netip.Addr
	for i := range w.addrs {
		addrs = append(addrs, netip.MustParseAddr(w.address(i)))
	}
	for _, port := range []*int{&w.httpPort, &w.httpsPort} {
		list, free, err := simweb.ListenAll(addrs, 0)
		if err != nil {
			return fmt.Errorf("realweb: find a free port: %w", err)
		}
		for _, l := range list {
			defer l.Close()
		}
		*port = int(free)
	}
	return nil
}

// errExited is the end of nginx without an error.
var errExited = errors.New("exit status 0")

// awaitNginx returns when nginx accepts connections.
func (s *servers) awaitNginx(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort(s.web.address(0), strconv.Itoa(s.web.httpsPort)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("realweb: nginx does not answer: %w", err)
		case <-s.done:
			return fmt.Errorf("realweb: nginx exited: %w; see the messages above or %s",
				cmp.Or(s.err, errExited), s.web.path("error.log"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answerTTL is how long an answer of DNS is valid.
const answerTTL = 300 * time.Second

// resolve knows the names of the web alone.
func (s *servers) resolve(name string) ([]netip.Addr, time.Duration) {
	s.asked.all.Add(1)
	h := s.web.byName[name]
	if h == nil {
		s.asked.denied.Add(1)
		return nil, answerTTL
	}
	return []netip.Addr{netip.MustParseAddr(h.addr)}, answerTTL
}

// crawlFlags returns drumbeat's flags for this web.
func (s *servers) crawlFlags() []string {
	return []string{"--resolver", s.dns.Addr().String(), "--allow-net", "127.0.0.0/8",
		"--map-port", fmt.Sprintf("80=%d", s.web.httpPort), "--map-port", fmt.Sprintf("443=%d", s.web.httpsPort)}
}

// close stops all servers; nginx flushes its log.
func (s *servers) close() (err error) {
	if s.dns != nil {
		defer func() { err = errors.Join(err, s.dns.Close()) }()
	}
	select {
	case <-s.done:
		return fmt.Errorf("realweb: nginx exited unexpectedly: %w", cmp.Or(s.err, errExited))
	default:
	}
	s.nginx.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
		return nil
	case <-time.After(10 * time.Second):
		syscall.Kill(-s.nginx.Process.Pid, syscall.SIGKILL)
		<-s.done
		return errors.New("realweb: nginx did not stop within 10 s and was killed")
	}
}
