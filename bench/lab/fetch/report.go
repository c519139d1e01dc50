package fetch

import (
	"fmt"
	"strconv"

	"drumbeat/bench/report"
)

// samples are the repeats of a client in a form: CPU of a request in µs, and requests/s.
func (r *fetchResults) samples(form Form, client string) (costs, rates report.Sample) {
	for i := range r.runs {
		if run := &r.runs[i]; run.form == form && run.client == client {
			costs, rates = append(costs, run.cost()), append(rates, run.rate())
		}
	}
	return costs, rates
}

// ratios are the costs of a client beside those of the bare loop in the same repeat.
func (r *fetchResults) ratios(form Form, client string) report.Sample {
	costs, _ := r.samples(form, client)
	bare, _ := r.samples(form, clientBare)
	return costs.Over(bare)
}

func (r *fetchResults) report() (*report.Report, error) {
	rep := &report.Report{Name: "fetch", Title: "fetching a page from a server in another process", Machine: report.ThisMachine(), Began: r.began}
	rep.Set("page", "%d bytes, %d in gzip", r.o.Page, r.server.GzipBytes)
	rep.Set("server", "another process on %d addresses, which closes first; its CPU isn't counted here", fetchAddresses)
	rep.Set("collector", "GOGC %d for all clients, as in a crawl", gcPercent)
	rep.Set("server CPU", "%.1f s in all", r.server.CPU().Seconds())
	if r.crowd != nil {
		rep.Name = "fetch-many"
		r.crowd.report(rep)
		return rep, nil
	}
	rep.Set("measured", "%v a client and form, %d times, clients in turns", r.o.Time, r.o.Repeat)
	for i := range r.runs {
		run := &r.runs[i]
		per := func(v uint64) float64 { return float64(v) / float64(max(run.n, 1)) }
		rep.Add(fmt.Sprintf("BenchmarkFetch/%s/client=%s", run.form, run.client), run.n,
			report.Metric{Value: 1e9 / run.rate(), Unit: "ns/op"}, report.Metric{Value: run.cost() * 1000, Unit: "cpu-ns/op"},
			report.Metric{Value: run.rate(), Unit: "requests/s"}, report.Metric{Value: per(run.bytes), Unit: "B/op"},
			report.Metric{Value: per(run.allocs), Unit: "allocs/op"})
	}
	for _, form := range r.o.forms {
		r.addForm(rep, form)
	}
	r.checkTLS(rep)
	rep.Figures = r.figures()
	rep.Notes = append(rep.Notes,
		"CPU is user and system time of the client's process alone. On loopback the kernel does part of a receiver's work in the",
		"sender's time; that part is the same for all clients. The bare loop has no timers, limits or contexts, parses nothing, keeps",
		"no head, and knows how many bytes will come. With TLS it verifies nothing and offers X25519 alone; net/http and fasthttp have the",
		"library's defaults (certificates verified each time, X25519MLKEM768); ours verifies a chain and a name once and requires it to be good.")
	return rep, nil
}

// addForm adds the table and the checks of a form.
func (r *fetchResults) addForm(rep *report.Report, form Form) {
	t := report.Table{Title: form.String(), Head: []string{"client", "CPU µs", "spread", "of bare", "spread", "requests/s", "allocs"}}
	for _, client := range r.o.Clients {
		costs, rates := r.samples(form, client)
		ratios := r.ratios(form, client)
		allocs := report.Sample{}
		for i := range r.runs {
			if run := &r.runs[i]; run.form == form && run.client == client {
				allocs = append(allocs, float64(run.allocs)/float64(max(run.n, 1)))
			}
		}
		if len(costs) == 0 {
			continue
		}
		ratio := "-"
		if len(ratios) > 0 {
			ratio = report.Number(ratios.Median())
		}
		t.Add(client, report.Number(costs.Median()), costs.Spread(), ratio, ratios.Spread(), report.Number(rates.Median()),
			report.Number(allocs.Median()))
	}
	if form.Coding == codingGzip {
		t.Notes = append(t.Notes, "the bare loop doesn't gunzip")
	}
	rep.Tables = append(rep.Tables, t)
	ratios := r.ratios(form, clientOurs)
	if len(ratios) > 0 && form.Scheme == schemeHTTP && !form.Keep && form.Coding == codingIdentity {
		name := "CPU of our fetch with a new connection beside the bare loop's, goroutines=" + strconv.Itoa(form.Goroutines)
		rep.Checks = append(rep.Checks, report.AtMost(name, ratios.Median(), checkedRatio, ""))
	}
}

// checkTLS compares our fetches with a full handshake, alone and less those of http at as many goroutines, with the target.
func (r *fetchResults) checkTLS(rep *report.Report) {
	for _, form := range r.o.forms {
		if form.Scheme == schemeHTTP || form.Keep || form.Resume || form.Coding != codingIdentity {
			continue
		}
		costs, _ := r.samples(form, clientOurs)
		if len(costs) == 0 {
			continue
		}
		name := fmt.Sprintf("CPU of our fetch by %s with a full handshake, connecting and the page included, goroutines=%d", form.Scheme, form.Goroutines)
		plain := form
		plain.Scheme = schemeHTTP
		if without, _ := r.samples(plain, clientOurs); len(without) > 0 {
			name = fmt.Sprintf("CPU that a full handshake by %s adds to our fetch, goroutines=%d", form.Scheme, form.Goroutines)
			rep.Checks = append(rep.Checks, report.AtMost(name, costs.Median()-without.Median(), checkedHandshake, "µs"))
			continue
		}
		rep.Checks = append(rep.Checks, report.AtMost(name, costs.Median(), checkedHandshake, "µs"))
	}
}

// figures draw the CPU of a request against the goroutines, by scheme and connections.
func (r *fetchResults) figures() (figures []report.Figure) {
	for _, scheme := range fetchSchemes {
		for _, keep := range []bool{false, true} {
			conn := "new"
			if keep {
				conn = "kept"
			}
			f := report.Figure{
				Name: scheme + "-" + conn, Title: scheme + ", " + conn + " connections", X: "goroutines", Y: "CPU of a fetch, µs", LogX: true,
			}
			points := 0
			for _, client := range r.o.Clients {
				s := report.Series{Name: client}
				for _, form := range r.o.forms {
					costs, _ := r.samples(form, client)
					if form.Scheme == scheme && form.Keep == keep && !form.Resume && form.Coding == codingIdentity && len(costs) > 0 {
						s.Points = append(s.Points, report.Point{X: float64(form.Goroutines), Y: costs.Median()})
					}
				}
				points += len(s.Points)
				f.Series = append(f.Series, s)
			}
			if points > 0 {
				figures = append(figures, f)
			}
		}
	}
	return figures
}
