package main

import (
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Run is the command check.
func (c checkCmd) Run(ctx context.Context) (err error) {
	w, s, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	began := time.Now()
	k, err := newWalk(w)
	if err != nil {
		return err
	}
	fmt.Printf("walk: %.1f s\n", time.Since(began).Seconds())
	k.print()
	began = time.Now()
	wrong, statuses, err := s.check(ctx, k)
	if err != nil {
		return err
	}
	fmt.Printf("nginx: requests for each URL by status: %v, in %.1f s\n", statuses, time.Since(began).Seconds())
	for _, line := range wrong[:min(len(wrong), 20)] {
		fmt.Println("  differs: " + line)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d answers differ from the walk's predictions", len(wrong))
	}
	fmt.Println("all answers agree with the walk: status, type, target, bytes")
	return nil
}

// check requests every URL of the walk from nginx and returns the differences.
func (s *servers) check(ctx context.Context, k *walk) (wrong []string, statuses map[int]int, err error) {
	client, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	defer client.CloseIdleConnections()
	urls := make(chan string)
	statuses = map[int]int{}
	sums := &fileSums{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for u := range urls {
				status, err := s.checkOne(ctx, client, sums, u, k.fetched[u])
				mu.Lock()
				statuses[status]++
				if err != nil {
					wrong = append(wrong, u+": "+err.Error())
				}
				mu.Unlock()
			}
		})
	}
	for u := range k.fetched {
		if ctx.Err() != nil {
			break
		}
		urls <- u
	}
	close(urls)
	wg.Wait()
	return wrong, statuses, ctx.Err()
}

func (s *servers) checkOne(ctx context.Context, client *http.Client, sums *fileSums, u string, want *answer) (int, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want.status {
		return resp.StatusCode, fmt.Errorf("status %d, want %d", resp.StatusCode, want.status)
	}
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return resp.StatusCode, err
		}
	}
	sum := sha1.New()
	if _, err := io.Copy(sum, body); err != nil {
		return resp.StatusCode, err
	}
	if got := resp.Header.Get("Location"); got != want.location {
		return resp.StatusCode, fmt.Errorf("location %q, want %q", got, want.location)
	}
	if want.status != 200 || want.file == "" {
		return resp.StatusCode, nil
	}
	if got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); got != want.mime {
		return resp.StatusCode, fmt.Errorf("type %q, want %q", got, want.mime)
	}
	wantSum, err := sums.of(want.file)
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != wantSum {
		err = fmt.Errorf("body has SHA-1 %s, want %s as %s", got, wantSum, want.file)
	}
	return resp.StatusCode, err
}

// client uses the web's own DNS server, connects to the mapped ports, and trusts only the web's CA.
func (s *servers) client() (*http.Client, error) {
	pem, err := os.ReadFile(s.web.path("ca.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.dns.Addr().String())
	}}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		ips, err := resolver.LookupIP(ctx, "ip4", name+".")
		if err != nil {
			return nil, err
		}
		mapped := map[string]int{"80": s.web.httpPort, "443": s.web.httpsPort}[port]
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(ips[0].String(), strconv.Itoa(mapped)))
	}
	return &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 8},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// fileSums caches the SHA-1 of files.
type fileSums struct{ sums sync.Map }

func (f *fileSums) of(name string) (string, error) {
	if sum, ok := f.sums.Load(name); ok {
		return sum.(string), nil
	}
	body, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	raw := sha1.Sum(body)
	sum := hex.EncodeToString(raw[:])
	f.sums.Store(name, sum)
	return sum, nil
}
