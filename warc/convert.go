package warc

import (
	"fmt"
	"io"
	"time"
)

// Conversion is a text made of a stored response, for a record of type conversion (WARC 1.1, 6.8). Files of such
// records are called WET.
type Conversion struct {
	// URL, Date and RefersTo are target, start of the fetch and WARC-Record-ID of the response.
	URL      string
	Date     time.Time
	RefersTo string
	// Languages are codes of ISO 639-3, separated by commas, for WARC-Identified-Content-Language, a field that
	// Common Crawl has introduced; "": none.
	Languages string
	Text      []byte // UTF-8
}

// conversionLevel is the deflate level of conversions: text is small, and written once.
const conversionLevel = 6

// Conversions writes a WARC file of conversions: a warcinfo record, and a gzip member for each record. It belongs
// to one goroutine, and takes 1.3 MiB and the largest text.
type Conversions struct {
	out io.Writer
	e   *Encoder
	p   Prepared
	n   int64
}

var (
	beginConversion = newFragment("WARC/1.1\r\nWARC-Type: conversion\r\nWARC-Target-URI: ", blockFinal)
	typeText        = newFragment("\r\nContent-Type: text/plain\r\nContent-Length: ", 0)
	typeJSON        = newFragment("\r\nContent-Type: application/json\r\nContent-Length: ", 0)
)

// NewConversions begins a file, whose name and whose further values go into the warcinfo record. random is the
// source of record ids; nil: crypto/rand.
func NewConversions(out io.Writer, file string, info []Field, now time.Time, random Random) (*Conversions, error) {
	opt := Options{Level: conversionLevel, Info: info, Random: random}
	opt.defaults()
	c := &Conversions{out: out, e: newEncoder(&opt, nil)}
	return c, c.write(c.e.info(&opt, file, now))
}

// Write appends a record. Control characters of values become spaces.
func (c *Conversions) Write(x *Conversion) error { return c.record(beginConversion, typeText, x) }

// WriteMetadata appends a metadata record about a response; its Text is JSON. Files of such records are called WAT.
func (c *Conversions) WriteMetadata(x *Conversion) error { return c.record(beginMetadata, typeJSON, x) }

func (c *Conversions) record(begin, contentType *fragment, x *Conversion) error {
	e := c.e
	e.url = appendURL(e.url[:0], x.URL)
	e.setDate(x.Date)
	e.begin(begin)
	e.ownID()
	e.text = appendValue(append(e.text, "\r\nWARC-Refers-To: "...), x.RefersTo)
	if x.Languages != "" {
		e.text = appendValue(append(e.text, "\r\nWARC-Identified-Content-Language: "...), x.Languages)
	}
	c.p.buf = c.p.buf[:0]
	e.member(&c.p, contentType, nil, x.Text, false)
	err := c.write(c.p.buf)
	c.p.Release()
	return err
}

func (c *Conversions) write(b []byte) error {
	if _, err := c.out.Write(b); err != nil {
		return fmt.Errorf("warc: write conversion: %w", err)
	}
	c.n += int64(len(b))
	return nil
}

// Bytes returns the length of the file so far.
func (c *Conversions) Bytes() int64 { return c.n }
